//! Arenas: where blocks lie, what is given back and when, and what a refusal leaves behind.

mod scopes;

use std::alloc::Layout;
use std::ptr::NonNull;

use crate::witness::Witness;
use alloc_core::{
    AllocError, Allocator, Arena, ArenaScope, Budget, Context, ContextOptions, HostAllocator,
    HostError, HostSource, Misuse, Rejected, Scope, Scoped, TryString, TryVec,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

type WitnessArena<'w> = Arena<Scoped<&'w Witness>>;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn m11_linear_blocks_lie_together_and_go_together() {
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    assert_eq!(
        (w.requests(), arena.bytes_held()),
        (0, 0),
        "an arena that nobody used takes nothing"
    );
    let (a, b) = (
        arena.try_alloc(1_u64).unwrap(),
        arena.try_alloc(2_u64).unwrap(),
    );
    assert_eq!(
        std::ptr::from_mut(a).addr() - std::ptr::from_mut(b).addr(),
        8,
        "no header between blocks"
    );
    assert_eq!((*a, *b), (1, 2));
    let text = arena.try_alloc_str("héllo").unwrap();
    text.make_ascii_uppercase();
    assert_eq!(text, "HéLLO");
    assert_eq!(
        arena.try_alloc_slice_copy(&[1_u16, 2, 3]).unwrap(),
        &[1, 2, 3]
    );
    assert_eq!(
        arena.try_alloc_slice_fill_with(4, |i| i * i).unwrap(),
        &[0, 1, 4, 9]
    );
    assert_eq!(
        arena
            .try_alloc_with(|| arena.try_alloc(7_u8).map(|n| *n))
            .unwrap()
            .as_ref()
            .unwrap(),
        &7
    );
    assert_eq!(
        arena
            .try_alloc_fmt(format_args!("{}-{:03}", "x", 5))
            .unwrap(),
        "x-005"
    );
    assert_eq!(arena.try_alloc_fmt(format_args!("")).unwrap(), "");
    assert_eq!((w.blocks(), w.bytes()), (1, arena.bytes_held()));
    assert_eq!(
        w.bytes(),
        1024 - 32,
        "the first chunk leaves room for the headers behind it"
    );
    drop(arena);
    w.assert_empty();
}

#[test]
fn m11_linear_element_of_size_zero_is_no_division_by_zero() {
    let w = Witness::limited(0);
    let arena = Arena::new_in(w.source());
    assert_eq!(
        arena
            .try_alloc_slice_fill_with(1000, |_| ())
            .map(|units| units.len()),
        Ok(1000)
    );
    arena.try_alloc(()).unwrap();
    assert_eq!(arena.try_alloc_slice_copy::<u64>(&[]).unwrap(), &[0_u64; 0]);
    for align in [1, 8, 64, 4096] {
        let nothing = arena.try_alloc_layout(layout(0, align)).unwrap();
        assert_eq!(nothing.addr().get() % align, 0);
    }
    assert_eq!(w.requests(), 0);
}

#[test]
fn m11_linear_sizes_are_not_cut_to_32_bits() {
    let w = Witness::limited(1 << 20);
    let arena = Arena::new_in(w.source());
    // 4 GiB + 16 cut to 32 bits is 16 and would fit.
    #[cfg(target_pointer_width = "64")]
    {
        let error = arena
            .try_alloc_layout(layout((1 << 32) + 16, 8))
            .unwrap_err();
        assert!(
            matches!(error, HostError::OutOfHostMemory { bytes, .. } if bytes >= (1 << 32) + 16),
            "{error:?}"
        );
        let error = arena
            .try_alloc_slice_fill_with((1 << 32) + 16, |_| 0_u8)
            .unwrap_err();
        assert!(error.is_out_of_host_memory());
    }
    let overflow = arena.try_alloc_slice_fill_with(usize::MAX / 8 + 3, |_| 0_u64);
    assert_eq!(overflow.unwrap_err(), HostError::TooLarge);
    let huge = layout(isize::MAX as usize & !63, 64);
    assert_eq!(arena.try_alloc_layout(huge), Err(HostError::TooLarge));
    assert_eq!((&arena).refusal(huge), HostError::TooLarge);
    assert_eq!(arena.bytes_held(), 0);
}

#[test]
fn m11_linear_growth_leaves_no_budget_unused() {
    for (limit, size, least) in [
        (100_000, 100, 85),
        (100_000, 1000, 85),
        (10_000, 100, 85),
        (1_000_000, 100, 93),
        (1_000_000, 30_000, 95),
    ] {
        let w = Witness::limited(limit);
        if cfg!(miri) && limit > 10_000 {
            continue;
        }
        let arena = Arena::new_in(w.source());
        let mut objects = 0;
        while arena.try_alloc_layout(layout(size, 1)).is_ok() {
            objects += 1;
        }
        let percent = objects * size * 100 / limit;
        assert!(
            (least..=100).contains(&percent),
            "{objects} objects of {size} B: {percent} % of {limit}"
        );
        // A refusal is final only as long as the limit stands.
        w.set_limit(None);
        arena.try_alloc_layout(layout(size, 1)).unwrap();
        drop(arena);
        w.assert_empty();
    }
}

#[test]
fn m11_linear_is_stolen_whole() {
    let w = &Witness::new();
    // SAFETY: the root is closed at the end, before the witness goes.
    let root = unsafe { Context::root(w, ContextOptions::new("root")) }.unwrap();
    let (from, to) = (root.child("from").unwrap(), root.child("to").unwrap());
    let before = (from.usage().total(), to.usage().total());
    let arena = Arena::new_in(&from);
    let kept: Vec<NonNull<u64>> = (0..3000)
        .map(|n| NonNull::from(arena.try_alloc(n).unwrap()))
        .collect();
    arena.try_alloc_slice_fill_with(20_000, |_| 1_u8).unwrap();
    let held = (arena.bytes_held() as u64, arena.chunks_held() as u64);
    assert!(held.1 >= 3 && from.usage().total().live_bytes == before.0.live_bytes + held.0);
    let (requests, live) = (w.requests(), w.blocks());

    let arena = arena
        .move_to(to.handle())
        .map_err(|(_, error)| error)
        .unwrap();
    assert_eq!(
        (w.requests(), w.blocks()),
        (requests, live),
        "nothing was copied"
    );
    assert_eq!(from.usage().total().live_bytes, before.0.live_bytes);
    assert_eq!(from.usage().total().live_blocks, before.0.live_blocks);
    assert_eq!(to.usage().total().live_bytes, before.1.live_bytes + held.0);
    assert_eq!(
        to.usage().total().live_blocks,
        before.1.live_blocks + held.1
    );
    drop(from);
    for (n, value) in kept.iter().enumerate() {
        // SAFETY: the arena holds all its blocks still, where they were.
        assert_eq!(unsafe { value.read() }, n as u64);
    }
    drop(arena);
    assert_eq!(to.usage().total().live_blocks, before.1.live_blocks);
    drop(to);
    root.close_root().unwrap();
    w.assert_empty();
}

#[test]
fn an_arena_that_cannot_move_stays_whole() {
    let w = &Witness::new();
    // SAFETY: the root is closed at the end, before the witness goes.
    let root = unsafe { Context::root(w, ContextOptions::new("root")) }.unwrap();
    let elsewhere = Witness::new();
    // SAFETY: the other root is dropped before its witness goes.
    let other = unsafe { Context::root(&elsewhere, ContextOptions::new("other root")) }.unwrap();
    let short = root
        .child_with(ContextOptions::new("short").budget(Budget::exact(900)))
        .unwrap();
    let scoped = root
        .child_with(ContextOptions::new("scoped").scope(Scope::Command))
        .unwrap();
    let from = root.child("from").unwrap();
    let mut arena = Arena::new_in(from.handle());
    let value = NonNull::from(arena.try_alloc(5_u32).unwrap());
    let before = (root.subtree_usage().total().live_bytes, w.bytes());
    for (to, why) in [(&other, "other"), (&short, "short"), (&scoped, "scope")] {
        let error;
        (arena, error) = arena.move_to(to.handle()).expect_err(why);
        match why {
            "short" => assert!(
                matches!(error, HostError::OverBudget { context, .. } if context == short.id()),
                "{error:?}"
            ),
            "scope" => assert_eq!(error, HostError::Misuse(Misuse::OtherScope)),
            _ => assert_eq!(error, HostError::Misuse(Misuse::OtherBacking), "{why}"),
        }
        assert_eq!(
            (root.subtree_usage().total().live_bytes, w.bytes()),
            before,
            "{why}"
        );
        assert_eq!(
            (other.usage().total().live_blocks, to.is_closed()),
            (1, false)
        );
    }
    let closed = root.child("closed").unwrap();
    let handle = closed.handle();
    closed.close();
    let (arena, error) = arena.move_to(handle).unwrap_err();
    assert!(matches!(error, HostError::Closed { .. }));
    // SAFETY: the arena came back with its blocks.
    assert_eq!(unsafe { value.read() }, 5);
    drop(arena);
    // An empty arena has nothing to charge and may go anywhere.
    assert!(Arena::new_in(&from).move_to(&other).is_ok());
    drop((short, scoped, from, other));
    elsewhere.assert_empty();
    root.close_root().unwrap();
    w.assert_empty();
}

#[test]
fn a_million_objects_under_contexts_are_given_back() {
    let (contexts, objects) = if cfg!(miri) { (3, 300) } else { (1000, 1000) };
    let w = &Witness::new();
    // SAFETY: the root is closed at the end, before the witness goes.
    let root = unsafe { Context::root(w, ContextOptions::new("root")) }.unwrap();
    let arenas: Vec<_> = (0..contexts)
        .map(|_| {
            let child = root.child("child").unwrap();
            let arena = Arena::new_in(child.handle());
            for n in 0..objects {
                arena.try_alloc([n; 16]).unwrap();
            }
            (arena, child)
        })
        .collect();
    let total = root.subtree_usage().total();
    assert!(total.live_bytes >= contexts * objects * 64, "{total:?}");
    assert_eq!(
        (total.live_bytes, total.live_blocks),
        (w.bytes() as u64, w.blocks() as u64)
    );
    drop(arenas);
    root.close_root().unwrap();
    w.assert_empty();
}

/// What can be seen of an arena.
fn look(arena: &WitnessArena<'_>) -> (usize, usize, usize) {
    (arena.bytes_held(), arena.bytes_used(), arena.chunks_held())
}

#[test]
fn every_refused_chunk_leaves_the_arena_as_it_was() {
    type Step = fn(&WitnessArena<'_>) -> Result<(), HostError>;
    let steps: [(&str, Step); 8] = [
        ("alloc", |a| Ok(a.try_alloc([1_u64; 8]).map(drop)?)),
        ("alloc_with", |a| a.try_alloc_with(|| [1_u64; 8]).map(drop)),
        ("layout", |a| a.try_alloc_layout(layout(100, 64)).map(drop)),
        ("own chunk", |a| {
            a.try_alloc_layout(layout(40_000, 8)).map(drop)
        }),
        ("slice_copy", |a| {
            a.try_alloc_slice_copy(&[7_u8; 5000]).map(drop)
        }),
        ("slice_fill", |a| {
            a.try_alloc_slice_fill_with(300, |i| i).map(drop)
        }),
        ("str", |a| a.try_alloc_str("0123456789").map(drop)),
        ("fmt", |a| {
            a.try_alloc_fmt(format_args!("{:>200}", 1)).map(drop)
        }),
    ];
    /// Nothing at all; one full chunk; a spare alone.
    fn build(state: u8, w: &Witness) -> WitnessArena<'_> {
        let mut arena = Arena::new_in(w.source());
        match state {
            0 => {}
            1 => drop(arena.try_alloc_layout(layout(1024 - 32 - 16, 8)).unwrap()),
            _ => drop(arena.scope().try_alloc(0_u64).map(|n| *n)),
        }
        arena
    }
    let w = Witness::new();
    for (name, step) in steps {
        for state in 0..3 {
            // Only the nth try is refused, or (the last round) all are.
            for nth in (0..if cfg!(miri) { 2 } else { 10 }).map(Some).chain([None]) {
                let arena = build(state, &w);
                let seen = (look(&arena), w.blocks(), w.bytes());
                match nth {
                    Some(nth) => w.refuse_in(nth),
                    None => w.set_limit(Some(0)),
                }
                let outcome = step(&arena);
                w.disarm();
                w.set_limit(None);
                if let Err(error) = outcome {
                    assert!(error.is_out_of_host_memory(), "{name}: {error:?}");
                    assert_eq!(
                        (look(&arena), w.blocks(), w.bytes()),
                        seen,
                        "{name} in state {state}"
                    );
                    step(&arena).unwrap();
                } else if nth.is_none() {
                    assert_eq!(
                        state, 2,
                        "{name}: all was refused, so where does the block come from?"
                    );
                }
                drop(arena);
                w.assert_empty();
            }
        }
    }
}

#[test]
fn the_ith_refused_chunk_costs_nothing_but_that_chunk() {
    for refused in 0..if cfg!(miri) { 3 } else { 12 } {
        let w = Witness::new();
        let arena = Arena::new_in(w.source());
        w.refuse_in(refused);
        let mut values = Vec::new();
        for n in 0..if cfg!(miri) { 200 } else { 4000_u64 } {
            // One refusal is survived by a smaller chunk.
            values.push(arena.try_alloc([n; 12]).unwrap());
        }
        assert_eq!(w.disarm(), w.requests() <= refused);
        assert!(
            values
                .iter()
                .enumerate()
                .all(|(n, value)| **value == [n as u64; 12])
        );
        assert_eq!(
            (w.blocks(), w.bytes()),
            (arena.chunks_held(), arena.bytes_held())
        );
        drop(arena);
        w.assert_empty();
    }
}

#[test]
fn a_refused_value_comes_back() {
    let w = Witness::limited(100);
    let arena = Arena::new_in(w.source());
    let Rejected { value, error } = arena.try_alloc([7_u8; 200]).unwrap_err();
    assert_eq!(
        (value, error),
        (
            [7; 200],
            HostError::OutOfHostMemory {
                bytes: 224,
                scope: Scope::Object
            }
        )
    );
    // `make` is not called when there is no room for what it makes.
    assert!(
        arena
            .try_alloc_with(|| -> [u8; 200] { unreachable!() })
            .is_err()
    );
    assert!(
        arena
            .try_alloc_slice_fill_with(200, |_| -> u8 { unreachable!() })
            .is_err()
    );
    arena.try_alloc([7_u8; 64]).unwrap();
}

#[test]
fn a_collection_in_an_arena_grows_in_place_while_it_is_the_newest() {
    let w = Witness::new();
    let mut arena = Arena::new_in(w.source());
    let mut list = TryVec::new_in(&arena);
    for n in 0..50_u64 {
        list.try_push(n).unwrap();
    }
    assert_eq!(
        arena.bytes_used(),
        list.capacity() * 8,
        "growing left nothing behind"
    );
    list.try_shrink_to_fit().unwrap();
    assert_eq!(arena.bytes_used(), 400);
    let mut text = TryString::new_in(&arena);
    text.try_push_str("hello").unwrap();
    list.try_push(50).unwrap();
    assert!(
        list.iter().copied().eq(0..51),
        "a block that is not the newest moves"
    );
    assert_eq!(text, "hello");
    let before = arena.bytes_used();
    drop(list);
    assert!(arena.bytes_used() < before, "the newest block came back");
    drop(text);
    arena.reset();
    assert_eq!(arena.bytes_used(), 0);
    // A block that outgrows its chunk.
    let mut list = TryVec::new_in(&arena);
    for n in 0..100_000_u32 {
        list.try_push(n).unwrap();
    }
    assert!(list.iter().copied().eq(0..100_000));
    w.set_limit(Some(0));
    list.try_reserve_exact(1 << 20).unwrap_err();
    assert!(list.iter().copied().eq(0..100_000));
}

#[test]
fn the_allocator_serves_alignment_zeros_and_refusals() {
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    for align in [1, 2, 8, 16, 64, 4096] {
        for size in [1, 7, 100, 5000] {
            let block = arena.try_alloc_layout(layout(size, align)).unwrap();
            assert_eq!(block.addr().get() % align, 0, "{size} at {align}");
        }
    }
    let zeros = (&arena).allocate_zeroed(layout(64, 8)).unwrap();
    // SAFETY: a new block of 64 initialised bytes.
    assert_eq!(unsafe { zeros.as_ref() }, [0; 64]);
    w.set_limit(Some(0));
    assert_eq!((&arena).allocate(layout(1 << 20, 8)), Err(AllocError));
    assert_eq!(
        (&arena).refusal(layout(100, 8)),
        HostAllocator::refusal(&w, layout(128, 16), Scope::Object)
    );
}

#[test]
fn arenas_are_small_and_belong_to_one_thread_at_a_time() {
    fn send<T: Send>(_: &T) {}
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    send(&arena);
    if cfg!(target_pointer_width = "64") {
        assert_eq!(size_of::<Arena<&Context>>(), 48);
    } else {
        assert!(size_of::<Arena<&Context>>() < 48);
    }
    assert_eq!(
        format!("{arena:?}"),
        "Arena { bytes_held: 0, bytes_used: 0, chunks_held: 0, .. }"
    );
    std::thread::scope(|threads| {
        threads.spawn(move || assert_eq!(*arena.try_alloc(1_u8).unwrap(), 1));
    });
    w.assert_empty();
    // `Sync` would make both candidates fit, and the call would not compile.
    trait Probe<Which> {
        fn probe() {}
    }
    struct IsSync;
    impl<T> Probe<()> for T {}
    impl<T: Sync> Probe<IsSync> for T {}
    <Arena<&Context> as Probe<_>>::probe();
}

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
    leaf.prop_recursive(3, 60, 20, |op| {
        prop::collection::vec(op, 1..20).prop_map(ArenaOp::Scope)
    })
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
                    let block = ArenaBlock {
                        start,
                        layout,
                        mark: (blocks.len() * 31 + step) as u8,
                    };
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
                let (old, new) = (block.layout, layout(*size, block.layout.align()));
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
                assert!(
                    block.check(old.size().min(block.layout.size())),
                    "content is kept, moved or refused"
                );
                block.fill();
            }
            ArenaOp::Free(_) | ArenaOp::Resize(..) => done = false,
            ArenaOp::Scope(program) => {
                let before = (arena.bytes_used(), blocks.len());
                let mut inner = scope.scope();
                run(&mut inner, program, w, blocks, tally);
                assert!(
                    blocks.iter().all(|b| b.check(b.layout.size())),
                    "somebody wrote into another's block"
                );
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
            assert!(
                pair[0].start.addr().get() + pair[0].layout.size() <= pair[1].start.addr().get(),
                "blocks overlap"
            );
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
        cases: if cfg!(miri) { 3 } else { 120 },
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
        assert!(
            blocks.iter().all(|b| b.check(b.layout.size())),
            "somebody wrote into another's block"
        );
        drop(scope);
        assert_eq!(arena.bytes_used(), 0, "{program:?}");
        assert!(w.blocks() <= 1, "one spare at most");
        drop(arena);
        w.assert_empty();
    }
    assert!(
        tally[1] > tally[0],
        "too few steps did something: {tally:?}"
    );
}
