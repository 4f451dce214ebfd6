//! Tagged blocks: trees against a naive model, what destructors may do, domains that end with their last block.
//!
//! Runs under miri.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one promise holds for a whole tree: its blocks are live"
)]

use std::alloc::System;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::NonNull;

use alloc_core::tagged::{Fill, GcBlocks, LinearBlocks, TaggedBlock, TaggedDomain};
use alloc_core::{
    Budget, Context, ContextOptions, FromGlobalAlloc, HostError, Misuse, Scope, TryVec,
};
use testkit::{HookedAllocator, RecordingAllocator, Rng, with_hook};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

fn root() -> Context {
    Context::root_static(&SYSTEM, ContextOptions::new("root")).expect("a root")
}

fn domain(root: &Context) -> TaggedDomain {
    let options = ContextOptions::new("domain").scope(Scope::Object);
    TaggedDomain::new(root.child_with(options).expect("a child")).expect("a domain")
}

fn block(domain: &TaggedDomain) -> TaggedBlock {
    domain.allocate(8, Fill::Zeros).expect("a block")
}

thread_local! {
    /// The numbers in the payloads that destructors saw, and each one's parent's.
    static SEEN: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
    static VICTIM: Cell<Option<TaggedBlock>> = const { Cell::new(None) };
}

fn this(payload: *mut c_void) -> TaggedBlock {
    TaggedBlock::from_payload(NonNull::new(payload.cast()).expect("a payload"))
}

fn number(block: TaggedBlock) -> u64 {
    // SAFETY: every block of these tests has 8 bytes, written when it was allocated.
    unsafe { block.payload().cast::<u64>().read() }
}

unsafe extern "C" fn note(payload: *mut c_void) {
    let block = this(payload);
    // SAFETY: the block is live, dying.
    let parent = unsafe { block.parent() };
    SEEN.with_borrow_mut(|seen| seen.push((number(block), parent.map_or(0, number))));
}

/// What a tree should be: children newest last.
#[derive(Clone, Default)]
struct TaggedNode {
    parent: Option<usize>,
    children: Vec<usize>,
    block: Option<TaggedBlock>,
}

struct TaggedModel(Vec<TaggedNode>);

impl TaggedModel {
    fn is_below(&self, at: usize, top: usize) -> bool {
        let mut at = Some(at);
        while let Some(number) = at {
            if number == top {
                return true;
            }
            at = self.0[number].parent;
        }
        false
    }
    fn unlink(&mut self, at: usize) {
        if let Some(parent) = self.0[at].parent.take() {
            self.0[parent].children.retain(|child| *child != at);
        }
    }
    fn link(&mut self, at: usize, parent: usize) {
        self.0[at].parent = Some(parent);
        self.0[parent].children.push(at);
    }
    /// Children before parents, newest first.
    fn free(&mut self, at: usize, order: &mut Vec<(u64, u64)>) {
        let children = self.0[at].children.clone();
        for child in children.into_iter().rev() {
            self.free(child, order);
        }
        order.push((at as u64, self.0[at].parent.unwrap_or(0) as u64));
        self.0[at] = TaggedNode::default();
    }
    fn check(&self) {
        for (at, node) in self.0.iter().enumerate() {
            let Some(block) = node.block else { continue };
            assert_eq!(number(block), at as u64);
            // SAFETY: the model says that the blocks are live.
            unsafe {
                assert_eq!(
                    block.parent(),
                    node.parent.and_then(|parent| self.0[parent].block)
                );
                let mut child = block.newest_child();
                for expected in node.children.iter().rev() {
                    assert_eq!(child, self.0[*expected].block);
                    child = child.and_then(|child| child.next_older());
                }
                assert_eq!(child, None);
            }
        }
    }
}

#[test]
fn trees_are_what_a_naive_model_says() {
    let root = root();
    let domains = [domain(&root), domain(&root)];
    let mut rng = Rng::new(7);
    let mut model = TaggedModel(vec![TaggedNode::default()]);
    for _ in 0..if cfg!(miri) { 40 } else { 4000 } {
        let live: Vec<usize> = (1..model.0.len())
            .filter(|at| model.0[*at].block.is_some())
            .collect();
        let pick = |rng: &mut Rng| {
            live.get(rng.below(live.len().max(1) as u64) as usize)
                .copied()
        };
        let (one, two) = (pick(&mut rng), pick(&mut rng));
        // SAFETY: all blocks that the model has are live.
        unsafe {
            match (rng.below(8), one, two) {
                (0..=2, parent, _) => {
                    let new = match parent.filter(|_| rng.below(8) > 0) {
                        Some(parent) => {
                            model.0.push(TaggedNode::default());
                            model.link(model.0.len() - 1, parent);
                            model.0[parent]
                                .block
                                .expect("live")
                                .allocate(8, Fill::Zeros)
                        }
                        None => {
                            model.0.push(TaggedNode::default());
                            domains[rng.below(2) as usize].allocate(8, Fill::Zeros)
                        }
                    };
                    let new = new.expect("nothing is refused");
                    let at = model.0.len() - 1;
                    new.payload().cast::<u64>().write(at as u64);
                    new.set_destructor(Some(note)).expect("one function");
                    model.0[at].block = Some(new);
                }
                (3 | 4, Some(one), Some(two)) => {
                    let legal = !model.is_below(two, one);
                    let (a, b) = (model.0[one].block, model.0[two].block);
                    assert_eq!(a.expect("live").steal(b), legal);
                    if legal {
                        model.unlink(one);
                        model.link(one, two);
                    }
                }
                (5, Some(one), Some(two)) => {
                    let legal = !model.is_below(one, two);
                    let (a, b) = (model.0[one].block, model.0[two].block);
                    assert_eq!(a.expect("live").adopt(b.expect("live")), legal);
                    if legal {
                        for child in model.0[two].children.clone() {
                            model.unlink(child);
                            model.link(child, one);
                        }
                    }
                }
                (6, Some(one), _) => {
                    let size = [8, 5000, 200, 70_000][rng.below(4) as usize];
                    let old = model.0[one].block.expect("live");
                    model.0[one].block = Some(old.resize(size).expect("nothing is refused"));
                }
                (7, Some(one), _) if rng.below(3) == 0 => {
                    let block = model.0[one].block.expect("live");
                    model.unlink(one);
                    let mut order = Vec::new();
                    model.free(one, &mut order);
                    SEEN.take();
                    block.free();
                    assert_eq!(SEEN.take(), order);
                }
                _ => (),
            }
        }
        model.check();
    }
    let tops: Vec<TaggedBlock> = model
        .0
        .iter()
        .filter(|node| node.parent.is_none())
        .filter_map(|node| node.block)
        .collect();
    // Few steps under miri leave few trees.
    assert!(cfg!(miri) || tops.len() > 1);
    drop(domains);
    for top in tops {
        // SAFETY: live, and used no more.
        unsafe { top.free() };
    }
    root.close_root().expect("both domains have ended");
}

#[test]
fn ca20_a_destructor_may_free_siblings_and_allocate_below_itself() {
    unsafe extern "C" fn free_and_allocate(payload: *mut c_void) {
        let block = this(payload);
        // SAFETY: the block is dying; what is used below is live.
        unsafe {
            let parent = block.parent().expect("not the top");
            VICTIM.take().expect("set by the test").free();
            // What is dying stays where it is.
            block.free();
            assert!(!block.steal(None) && !parent.steal(None));
            assert_eq!(block.resize(99), Err(HostError::Misuse(Misuse::Dying)));
            assert_eq!(
                block.set_destructor(Some(free_and_allocate)),
                Err(HostError::Misuse(Misuse::Dying)),
                "it would be called without end"
            );
            assert_eq!(block.set_destructor(None), Ok(()));
            let below = block.allocate(8, Fill::Zeros).expect("a block");
            below.payload().cast::<u64>().write(77);
            below.set_destructor(Some(note)).expect("one function");
        }
    }
    let root = root();
    let domain = domain(&root);
    let top = block(&domain);
    // SAFETY: all are live until the top is freed.
    unsafe {
        let [older, middle, newer] = [1, 2, 3].map(|number: u64| {
            let child = top.allocate(8, Fill::Zeros).expect("a block");
            child.payload().cast::<u64>().write(number);
            child.set_destructor(Some(note)).expect("one function");
            child
        });
        assert_eq!(top.newest_child(), Some(newer));
        VICTIM.set(Some(older));
        middle
            .set_destructor(Some(free_and_allocate))
            .expect("one function");
        SEEN.take();
        top.free();
        assert_eq!(SEEN.take(), [(3, 0), (1, 0), (77, 2)]);
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn ca22_ca25_a_domain_ends_with_its_last_block_wherever_that_is_freed() {
    let root = root();
    let (one, two) = (domain(&root), domain(&root));
    let (a, b) = (block(&one), block(&two));
    // SAFETY: both are live.
    unsafe { a.steal(Some(b)) };
    let context = one.context().clone();
    drop(one);
    assert!(context.is_closed());
    assert_eq!(
        context.usage().total().live_blocks,
        2,
        "the block and the record"
    );
    // SAFETY: live.
    let refused = unsafe { a.allocate(1, Fill::Zeros) };
    assert_eq!(
        refused,
        Err(HostError::Closed {
            context: context.id()
        })
    );
    let address = b.payload().as_ptr() as usize;
    std::thread::spawn(move || {
        let payload = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: handed over; used no more.
        unsafe { this(payload).free() };
    })
    .join()
    .expect("no panic");
    assert_eq!(context.usage().total().live_blocks, 0);
    assert_eq!(
        context.parent_id(),
        Some(root.id()),
        "the record goes with this handle"
    );
    drop(context);
    drop(two);
    root.close_root().expect("nothing is left");
}

#[test]
fn a_fallback_serves_what_is_refused_and_outlives_the_domain() {
    let root = root();
    let reserve = domain(&root);
    let small = ContextOptions::new("small").budget(Budget::exact(400));
    let small = TaggedDomain::with_fallback(root.child_with(small).expect("a child"), &reserve);
    let small = small.expect("a domain");
    let (first, large) = (
        block(&small),
        small.allocate(1000, Fill::Zeros).expect("served"),
    );
    assert!(small.reset_refused() && !small.reset_refused());
    // SAFETY: both are live.
    unsafe {
        assert_eq!((first.domain(), large.domain()), (small.id(), reserve.id()));
        first.payload().cast::<u64>().write(5);
        let first = first.resize(5000).expect("served elsewhere");
        assert_eq!((number(first), first.domain()), (5, reserve.id()));
        assert!(small.reset_refused());
        drop(reserve);
        drop(small);
        first.free();
        large.free();
    }
    root.close_root().expect("nothing is left");
}

/// The handle of a reserve's context outlives the domain: when the domain's record is gone, blocks that are left are none of the two that
/// always stay, and the reserve is not made whole under them.
#[test]
fn ca27_a_reserve_whose_domain_has_ended_keeps_what_is_left_apart() {
    let root = root();
    let reserve = TaggedDomain::reserve(&root, 64 << 10).expect("memory");
    let handle = reserve.context().clone();
    let mut small = TryVec::<u8, _>::new_in(handle.clone());
    small.try_reserve_exact(32).expect("room");
    let mut large = TryVec::<u8, _>::new_in(handle);
    large.try_reserve_exact(1000).expect("room");
    for number in 0..600_usize {
        large.try_push(number as u8).expect("reserved");
    }
    drop(reserve);
    drop(small);
    // In another size class: it moves, and must not move onto itself.
    large.try_shrink_to_fit().expect("there is room");
    assert!((0..600).all(|number: usize| large[number] == number as u8));
    drop(large);
    root.close_root().expect("nothing is left");
}

#[test]
fn ca25_a_closed_domain_allocates_nothing_more_from_its_fallback_either() {
    let root = root();
    let reserve = domain(&root);
    let child = root.child("closed").expect("a child");
    let context = child.id();
    let closed = TaggedDomain::with_fallback(child, &reserve).expect("a domain");
    let live = block(&closed);
    drop(closed);
    let refused = Err(HostError::Closed { context });
    // SAFETY: live until it is freed.
    unsafe {
        assert_eq!(live.allocate(8, Fill::Zeros), refused);
        assert_eq!(live.resize(5000), refused);
        assert_eq!(
            reserve.context().usage().total().live_blocks,
            1,
            "the record"
        );
        live.free();
    }
    drop(reserve);
    root.close_root().expect("nothing is left");
}

/// Random use against a model: what a reserve hands out lies in the one block that was set aside, aligned and apart, with what was written;
/// it refuses when it is full, and is whole again when everything was freed.
#[test]
fn ca27_a_reserve_serves_out_of_one_block_until_it_is_full() {
    const BYTES: usize = 32 << 10;
    let witness = RecordingAllocator::system();
    // SAFETY: closed below.
    let root = unsafe { Context::root(&witness, ContextOptions::new("root")) }.expect("a root");
    assert!(
        TaggedDomain::reserve(&root, 100).is_err(),
        "no room for its record"
    );
    let before = witness.total();
    let reserve = TaggedDomain::reserve(&root, BYTES).expect("memory");
    assert_eq!(witness.total().live_blocks, before.live_blocks + 1);
    let mut rng = Rng::new(27);
    let mut most = Vec::new();
    for _round in 0..3 {
        let mut live: Vec<(TaggedBlock, usize, u8)> = Vec::new();
        let mut refused = 0;
        for step in 0..if cfg!(miri) { 200 } else { 5000 } {
            let fill = step as u8;
            let size = 1 + rng.below(700) as usize;
            match rng.below(5) {
                0 | 1 if !live.is_empty() => {
                    let (block, size, fill) =
                        live.swap_remove(rng.below(live.len() as u64) as usize);
                    // SAFETY: live, of this size, freed here.
                    unsafe {
                        let bytes = NonNull::slice_from_raw_parts(block.payload(), size);
                        assert!(bytes.as_ref().iter().all(|byte| *byte == fill));
                        block.free();
                    }
                }
                2 if !live.is_empty() => {
                    let (block, old, fill) =
                        live.swap_remove(rng.below(live.len() as u64) as usize);
                    // SAFETY: live; where it is refused, it is as it was.
                    unsafe {
                        let (block, kept) =
                            block.resize(size).map_or((block, old), |new| (new, size));
                        let bytes = NonNull::slice_from_raw_parts(block.payload(), old.min(kept));
                        assert!(bytes.as_ref().iter().all(|byte| *byte == fill));
                        block.payload().write_bytes(fill, kept);
                        live.push((block, kept, fill));
                    }
                }
                _ => match reserve.allocate(size, Fill::Undefined) {
                    Ok(block) => {
                        // SAFETY: new, of this size.
                        unsafe { block.payload().write_bytes(fill, size) };
                        live.push((block, size, fill));
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(
                            matches!(error, HostError::OutOfHostMemory { .. }),
                            "{error}"
                        );
                    }
                },
            }
        }
        assert!(cfg!(miri) || refused > 0, "it was never full");
        for (block, size, fill) in live {
            // SAFETY: live, of this size, freed here.
            unsafe {
                let bytes = NonNull::slice_from_raw_parts(block.payload(), size);
                assert!(bytes.as_ref().iter().all(|byte| *byte == fill));
                block.free();
            }
        }
        // All that was freed is found again, however it was cut before.
        let mut large = Vec::new();
        while let Ok(block) = reserve.allocate(1000, Fill::Undefined) {
            large.push(block);
        }
        most.push(large.len());
        for block in large {
            // SAFETY: live, freed here.
            unsafe { block.free() };
        }
    }
    assert!(most[0] > BYTES / 1000 / 2, "{most:?}");
    assert_eq!(most, [most[0]; 3], "it is whole again");
    assert_eq!(
        witness.total().live_blocks,
        before.live_blocks + 1,
        "no other block was allocated"
    );
    drop(reserve);
    assert_eq!(witness.total().live_blocks, before.live_blocks);
    root.close_root().expect("nothing is left");
    witness.assert_empty("at the end");
}

#[test]
fn ca20_sizes_that_overflow_are_refused_and_those_above_4_gib_are_not() {
    let root = root();
    let domain = domain(&root);
    for size in [
        usize::MAX,
        usize::MAX - 15,
        usize::MAX - 47,
        isize::MAX as usize,
    ] {
        assert_eq!(
            domain.allocate(size, Fill::Undefined),
            Err(HostError::TooLarge),
            "{size}"
        );
    }
    if cfg!(miri) {
        return;
    }
    let top = block(&domain);
    // SAFETY: all are live. The system gives address space, of which the pages that are written become memory.
    unsafe {
        let old = top.allocate(8, Fill::Zeros).expect("a block");
        old.payload().cast::<u64>().write(9);
        let child = old.allocate(8, Fill::Zeros).expect("a block");
        let huge = old.resize(5 << 30).expect("address space");
        assert_eq!(
            (huge.size(), number(huge), child.parent()),
            (5 << 30, 9, Some(huge))
        );
        huge.payload().add((5 << 30) - 1).write(1);
        let small = huge.resize(16).expect("less");
        assert_eq!(
            (small.size(), number(small), child.parent()),
            (16, 9, Some(small))
        );
        let usage = domain.context().usage().total();
        top.free();
        assert_eq!(
            usage.live_bytes - domain.context().usage().total().live_bytes,
            3 * 32 + 8 + 16 + 8
        );
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn ca20_a_tree_of_three_million_is_freed_without_recursion() {
    let depth = if cfg!(miri) { 300 } else { 3_000_000 };
    let root = root();
    let domain = domain(&root);
    let top = block(&domain);
    let mut at = top;
    for _ in 1..depth {
        // SAFETY: live.
        at = unsafe { at.allocate(0, Fill::Undefined) }.expect("a block");
    }
    assert_eq!(domain.context().usage().total().live_blocks, depth + 1);
    // SAFETY: live, and used no more.
    unsafe { top.free() };
    assert_eq!(domain.context().usage().total().live_blocks, 1);
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn ca11_threads_with_a_tree_each_in_one_domain_count_exactly() {
    let root = root();
    let domain = domain(&root);
    let blocks: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let tops: Vec<usize> = std::thread::scope(|scope| {
        let build = || {
            let top = block(&domain);
            for number in 1..blocks {
                // SAFETY: live, and this thread's.
                let child = unsafe { top.allocate(8, Fill::Undefined) }.expect("a block");
                if number % 3 == 0 {
                    // SAFETY: as above.
                    unsafe { child.free() };
                }
            }
            top.payload().as_ptr().expose_provenance()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(build)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    let live = blocks - (blocks - 1) / 3;
    assert_eq!(domain.context().usage().total().live_blocks, 4 * live + 1);
    let all = block(&domain);
    for top in tops {
        // SAFETY: handed over by the threads.
        unsafe { this(std::ptr::with_exposed_provenance_mut(top)).steal(Some(all)) };
    }
    // SAFETY: live, and used no more.
    unsafe { all.free() };
    assert_eq!(domain.context().usage().total().live_blocks, 1);
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn an_allocator_may_use_other_trees_of_the_domain_meanwhile() {
    let witness = HookedAllocator::new(RecordingAllocator::system());
    // SAFETY: closed below.
    let root = unsafe { Context::root(&witness, ContextOptions::new("root")) }.expect("a root");
    let domain = TaggedDomain::new(root.child("domain").expect("a child")).expect("a domain");
    let other = block(&domain);
    let times = Cell::new(0);
    let hook = |_| {
        times.set(times.get() + 1);
        // SAFETY: the other tree is this thread's.
        unsafe {
            let child = other.allocate(24, Fill::Zeros).expect("a block");
            child.allocate(8, Fill::Zeros).expect("a block");
            if let Some(older) = child.next_older() {
                older.free();
            }
        }
    };
    with_hook(1, &hook, || {
        let top = block(&domain);
        // SAFETY: all are live until the top is freed.
        unsafe {
            let child = top.allocate(8, Fill::Zeros).expect("a block");
            child.allocate(8, Fill::Zeros).expect("a block");
            child.resize(4000).expect("a block");
            top.free();
        }
    });
    assert!(times.get() >= 7, "{times:?}");
    // SAFETY: live, and used no more.
    unsafe { other.free() };
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn a_sweep_frees_what_is_unmarked_and_nothing_else() {
    let root = root();
    let domain = domain(&root);
    let collector = GcBlocks::new(block(&domain));
    // SAFETY: blocks are used while they are live.
    unsafe {
        let plain = collector.block().allocate(8, Fill::Zeros).expect("a block");
        for round in 0..4_u64 {
            let blocks: Vec<TaggedBlock> = (0..10)
                .map(|_| collector.allocate(8, Fill::Zeros).expect("a block"))
                .collect();
            let before = domain.context().usage().total().live_blocks;
            collector.begin_sweep();
            let new = collector.allocate(8, Fill::Zeros).expect("a block");
            blocks
                .iter()
                .skip(round as usize)
                .for_each(|block| collector.mark(*block));
            collector.end_sweep();
            let after = domain.context().usage().total().live_blocks;
            assert_eq!(before + 1 - after, round);
            new.free();
            collector.begin_sweep();
            collector.end_sweep();
            assert_eq!(
                domain.context().usage().total().live_blocks,
                3,
                "round {round}"
            );
        }
        assert_eq!(plain.parent(), Some(collector.block()));
        collector.block().free();
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn a_sweep_frees_newer_blocks_before_older_ones_as_free_does() {
    let root = root();
    let domain = domain(&root);
    let collector = GcBlocks::new(block(&domain));
    // SAFETY: blocks are used while they are live.
    unsafe {
        // Whoever dies is seen by the destructor of a block below it.
        for number in 1..=5_u64 {
            let collected = collector.allocate(8, Fill::Zeros).expect("a block");
            for number in [10 * number, 10 * number + 1] {
                let witness = collected.allocate(8, Fill::Zeros).expect("a block");
                witness.payload().cast::<u64>().write(number);
                witness.set_destructor(Some(note)).expect("one function");
            }
        }
        let third = collector.block().newest_child();
        let third = third.and_then(|fifth| fifth.next_older()?.next_older());
        assert!(collector.begin_sweep());
        collector.mark(third.expect("five blocks"));
        SEEN.take();
        collector.end_sweep();
        let order: Vec<u64> = SEEN.take().into_iter().map(|(number, _)| number).collect();
        assert_eq!(order, [51, 50, 41, 40, 21, 20, 11, 10]);
        collector.block().free();
        let order: Vec<u64> = SEEN.take().into_iter().map(|(number, _)| number).collect();
        assert_eq!(order, [31, 30]);
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

/// A block has one colour: that of its collector, or that of what it collects.
#[test]
fn a_collected_block_is_no_collector_and_has_no_destructor() {
    const REFUSED: HostError = HostError::Misuse(Misuse::Held);
    let root = root();
    let domain = domain(&root);
    let collector = GcBlocks::new(block(&domain));
    // SAFETY: blocks are used while they are live.
    unsafe {
        let collected = collector.allocate(8, Fill::Zeros).expect("a block");
        let inner = GcBlocks::new(collected);
        assert_eq!(inner.allocate(8, Fill::Zeros), Err(REFUSED));
        assert_eq!(collected.set_destructor(Some(note)), Err(REFUSED));
        assert_eq!(collected.set_destructor(None), Err(REFUSED));
        let plain = collector.block().allocate(8, Fill::Zeros).expect("a block");
        let other = GcBlocks::new(plain);
        let others = other.allocate(8, Fill::Zeros).expect("a block");
        let live = || domain.context().usage().total().live_blocks;
        let before = live();
        assert!(collector.begin_sweep());
        assert!(!inner.begin_sweep(), "it would unmark itself");
        collector.mark(collected);
        // Not collected, so its colour stays what its own blocks are compared with.
        collector.mark(plain);
        collector.end_sweep();
        other.end_sweep();
        assert_eq!(live(), before);
        assert_eq!(others.parent(), Some(plain));
        collector.block().free();
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn linear_memory_goes_on_in_the_chunk_with_more_room() {
    let root = root();
    let domain = domain(&root);
    let size = LinearBlocks::block_size(0).expect("small");
    let top = domain.allocate(size, Fill::Undefined).expect("a block");
    let blocks = || domain.context().usage().total().live_blocks;
    // SAFETY: the block is live and of that size.
    unsafe {
        let linear = LinearBlocks::init(top, 0);
        let first = linear.allocate(100, Fill::Zeros).expect("room");
        assert_eq!(blocks(), 2);
        linear
            .allocate(5000, Fill::Undefined)
            .expect("a chunk of its own");
        assert_eq!(blocks(), 3);
        let second = linear.allocate(100, Fill::Undefined).expect("room");
        assert_eq!((blocks(), second.offset_from(first)), (3, 104 + 8));
        assert_eq!(
            linear.allocate(usize::MAX - 8, Fill::Zeros),
            Err(HostError::TooLarge)
        );
        linear
            .allocate(1900, Fill::Undefined)
            .expect("a further chunk");
        assert_eq!(blocks(), 4);
        top.free();
    }
    assert_eq!(blocks(), 1);
    drop(domain);
    root.close_root().expect("nothing is left");
}

/// As Mesa's compilers since 23.3 count on it.
#[test]
fn ca7_linear_memory_without_sizes_has_no_gaps_and_resizes_nothing() {
    let root = root();
    let domain = domain(&root);
    let size = LinearBlocks::unsized_block_size(8190).expect("small");
    let top = domain.allocate(size, Fill::Undefined).expect("a block");
    let blocks = || domain.context().usage().total().live_blocks;
    // SAFETY: the block is live and of that size.
    unsafe {
        let linear = LinearBlocks::init_unsized(top);
        assert_eq!(linear.block(), top);
        let first = linear.allocate(1024, Fill::Zeros).expect("room");
        assert_eq!(first, linear.first());
        for number in 1..8 {
            let next = linear.allocate(1021, Fill::Zeros).expect("room");
            assert_eq!((next.offset_from(first), blocks()), (1024 * number, 2));
        }
        // The first chunk is full to its last byte, and one of no bytes needs no further one.
        linear.allocate(0, Fill::Undefined).expect("nothing");
        assert_eq!(blocks(), 2);
        let second = linear.allocate(8, Fill::Zeros).expect("a chunk");
        linear
            .allocate(20_000, Fill::Undefined)
            .expect("a chunk of its own");
        assert_eq!(blocks(), 4);
        let third = linear.allocate(8184, Fill::Undefined).expect("room");
        assert_eq!((third.offset_from(second), blocks()), (8, 4));
        for size in [0, 8, 100] {
            let refused = Err(HostError::Misuse(Misuse::UnknownSize));
            assert_eq!(linear.resize(first, size), refused);
        }
        assert_eq!(
            linear.allocate(usize::MAX - 6, Fill::Zeros),
            Err(HostError::TooLarge)
        );
        assert_eq!(
            LinearBlocks::unsized_block_size(usize::MAX - 32),
            Err(HostError::TooLarge)
        );
        top.free();
    }
    assert_eq!(blocks(), 1);
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn ca28_a_soft_budget_reports_and_refuses_nothing() {
    let root = root();
    let options = ContextOptions::new("soft").budget(Budget::soft(1000));
    let soft = root.child_with(options).expect("a child");
    let kept = TryVec::<u8, &Context>::try_with_capacity_in(900, &soft);
    let kept = kept.expect("within");
    let budget = || soft.budget().expect("made with one");
    assert!(!budget().is_exceeded());
    let more = TryVec::<u8, &Context>::try_with_capacity_in(5000, &soft);
    drop(more.expect("a soft budget refuses nothing"));
    assert!(
        budget().is_exceeded() && budget().high >= 5900,
        "{:?}",
        budget()
    );
    soft.restart_high_water();
    drop(kept);
    assert_eq!(soft.set_limit(10), Ok(()));
    // A hard one above still holds.
    let hard = ContextOptions::new("hard").budget(Budget::exact(4000));
    let hard = root.child_with(hard).expect("a child");
    let options = ContextOptions::new("soft").budget(Budget::soft(1000));
    let below = hard.child_with(options).expect("a child");
    let refused = TryVec::<u8, &Context>::try_with_capacity_in(5000, &below);
    assert!(matches!(refused, Err(HostError::OverBudget { context, .. }) if context == hard.id()));
}

#[test]
fn a_root_drops_the_allocator_that_it_owns() {
    thread_local!(static DROPS: Cell<u32> = const { Cell::new(0) });
    struct Own(FromGlobalAlloc<System>);
    impl Drop for Own {
        fn drop(&mut self) {
            DROPS.set(DROPS.get() + 1);
        }
    }
    // SAFETY: all is the system's.
    unsafe impl alloc_core::HostAllocator for Own {
        fn traits(&self) -> alloc_core::AllocatorTraits {
            self.0.traits()
        }
        fn allocate(
            &self,
            layout: std::alloc::Layout,
            scope: Scope,
        ) -> Result<NonNull<u8>, alloc_core::AllocError> {
            self.0.allocate(layout, scope)
        }
        unsafe fn deallocate(&self, block: NonNull<u8>, layout: std::alloc::Layout, scope: Scope) {
            // SAFETY: forwarded.
            unsafe { self.0.deallocate(block, layout, scope) }
        }
    }
    let root = Context::root_owned(
        Own(FromGlobalAlloc::SYSTEM),
        ContextOptions::new("owner").label("l"),
    );
    let root = root.map_err(|rejected| rejected.error).expect("a root");
    let child = root.child("child").expect("a child");
    let handle = child.handle();
    drop(child);
    let refused = root.close_root().expect_err("a handle is left");
    assert_eq!(refused.error.outstanding().bytes, 0);
    drop(refused.value);
    assert_eq!(
        DROPS.get(),
        0,
        "the handle keeps the record, and with it the allocator"
    );
    drop(handle);
    assert_eq!(DROPS.get(), 1);
    let refused = Context::root_owned(
        Own(FromGlobalAlloc::SYSTEM),
        ContextOptions::new("short").budget(Budget::exact(10)),
    );
    assert!(
        matches!(refused, Err(rejected) if matches!(rejected.error, HostError::OverBudget { .. }))
    );
    assert_eq!(DROPS.get(), 2);
}
