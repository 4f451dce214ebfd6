//! Random operations against a naive model of blocks and chunks.

use super::*;

#[derive(Clone, Debug)]
enum ArenaOp {
    Alloc(usize, u32),
    Free(usize),
    Resize(usize, usize),
    Scope(Vec<ArenaOp>),
    Refuse(usize),
}

fn op() -> impl Strategy<Value = ArenaOp> {
    let size = || prop_oneof![6 => 0..200_usize, 2 => 200..5000_usize, 1 => 15_000..70_000_usize];
    let leaf = prop_oneof![
        8 => (size(), 0..9_u32).prop_map(|(size, align)| ArenaOp::Alloc(size, align)),
        3 => any::<usize>().prop_map(ArenaOp::Free),
        3 => (any::<usize>(), size()).prop_map(|(which, size)| ArenaOp::Resize(which, size)),
        1 => (0..8_usize).prop_map(ArenaOp::Refuse),
    ];
    leaf.prop_recursive(3, 60, 20, |op| prop::collection::vec(op, 1..20).prop_map(ArenaOp::Scope))
}

/// A block that the program owns, filled with its mark.
struct ArenaBlock {
    start: NonNull<u8>,
    layout: Layout,
    mark: u8,
}

impl ArenaBlock {
    fn fill(&self) {
        // SAFETY: the block is the program's.
        unsafe { self.start.write_bytes(self.mark, self.layout.size()) };
    }
    fn check(&self, bytes: usize) -> bool {
        // SAFETY: the block is the program's and was filled.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), bytes) }
            .chunks(64)
            .all(|c| c.iter().fold(0, |sum, byte| sum | (byte ^ self.mark)) == 0)
    }
}

/// Runs `program` in a scope. Blocks of the scopes around it are in `blocks` too and must come through unharmed.
fn run(
    scope: &mut ArenaScope<'_, Scoped<&Witness>>,
    program: &[ArenaOp],
    w: &Witness,
    blocks: &mut Vec<ArenaBlock>,
    tally: &mut [usize; 2],
) {
    let outside = blocks.len();
    for (step, op) in program.iter().enumerate() {
        let arena: &WitnessArena<'_> = scope;
        let mut done = true;
        match op {
            ArenaOp::Alloc(size, align) => {
                let layout = layout(*size, 1 << align);
                let block = arena.try_alloc_layout(layout);
                done = block.is_ok();
                if let Ok(start) = block {
                    assert!(start.addr().get().is_multiple_of(layout.align()));
                    let block = ArenaBlock { start, layout, mark: (blocks.len() * 31 + step) as u8 };
                    block.fill();
                    blocks.push(block);
                }
            }
            ArenaOp::Free(which) if blocks.len() > outside => {
                let block = blocks.swap_remove(outside + which % (blocks.len() - outside));
                assert!(block.check(block.layout.size()));
                // SAFETY: the program's block, forgotten.
                unsafe { arena.deallocate(block.start, block.layout) };
            }
            ArenaOp::Resize(which, size) if blocks.len() > outside => {
                let at = outside + which % (blocks.len() - outside);
                let block = &mut blocks[at];
                let (old, new) = (block.layout, layout(*size, 1 << (which % 8)));
                let resized = if new.size() >= old.size() {
                    // SAFETY: the program's block with its layout, and no smaller a size.
                    unsafe { arena.grow(block.start, old, new) }
                } else {
                    // SAFETY: the program's block with its layout, and a smaller size.
                    unsafe { arena.shrink(block.start, old, new) }
                };
                done = resized.is_ok();
                if let Ok(start) = resized {
                    (block.start, block.layout) = (start.cast(), new);
                    assert!(block.start.addr().get().is_multiple_of(new.align()));
                }
                assert!(block.check(old.size().min(block.layout.size())), "content is kept, moved or refused");
                block.fill();
            }
            ArenaOp::Free(_) | ArenaOp::Resize(..) => done = false,
            ArenaOp::Scope(program) => {
                let before = (arena.bytes_used(), blocks.len());
                let mut inner = scope.scope();
                run(&mut inner, program, w, blocks, tally);
                assert!(blocks.iter().all(|b| b.check(b.layout.size())), "somebody wrote into another's block");
                drop(inner);
                blocks.truncate(before.1);
                assert_eq!(scope.bytes_used(), before.0);
            }
            ArenaOp::Refuse(nth) => w.refuse_in(*nth),
        }
        tally[usize::from(done)] += 1;
        let mut places: Vec<_> = blocks.iter().filter(|b| b.layout.size() != 0).collect();
        places.sort_by_key(|b| b.start);
        for pair in places.windows(2) {
            assert!(pair[0].start.addr().get() + pair[0].layout.size() <= pair[1].start.addr().get(), "blocks overlap");
        }
        let asked: usize = blocks.iter().map(|b| b.layout.size()).sum();
        assert!(asked <= scope.bytes_used() && scope.bytes_used() <= scope.bytes_held());
        assert_eq!(
            (w.blocks(), w.bytes()),
            (scope.chunks_held(), scope.bytes_held()),
            "the witness counts the same chunks"
        );
    }
}

/// Runs programs; at least half of all steps must have done something.
#[test]
fn blocks_never_overlap_and_chunks_are_all_accounted_for() {
    let mut tally = [0; 2];
    let mut runner = TestRunner::new(ProptestConfig {
        cases: ProptestConfig::default().cases.min(120),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let programs = prop::collection::vec(op(), 1..if cfg!(miri) { 20 } else { 80 });
    for _ in 0..runner.config().cases {
        let program = programs.new_tree(&mut runner).unwrap().current();
        let w = Witness::new();
        let mut arena = Arena::new_in(w.source());
        let mut blocks = Vec::new();
        let mut scope = arena.scope();
        run(&mut scope, &program, &w, &mut blocks, &mut tally);
        assert!(blocks.iter().all(|b| b.check(b.layout.size())), "somebody wrote into another's block");
        drop(scope);
        assert_eq!(arena.bytes_used(), 0, "{program:?}");
        assert!(w.blocks() <= 1, "one spare at most");
        drop(arena);
        w.assert_empty();
    }
    assert!(tally[1] > tally[0], "too few steps did something: {tally:?}");
}
