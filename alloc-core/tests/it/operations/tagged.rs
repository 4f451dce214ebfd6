//! Tagged blocks, collectors, linear memory.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one promise holds for a whole tree: its blocks are live"
)]

use alloc_core::tagged::{Fill, GcBlocks, LinearBlocks, TaggedBlock, TaggedDomain};
use alloc_core::{HostError, Rejected, ThreadTable};
use testkit::Stage;

use super::{Ground, MemoryUse, Operation, nothing, takes};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["TaggedDomain::new"], "", domain::<S>),
        takes(
            &[
                "TaggedDomain::allocate",
                "TaggedDomain::id",
                "DomainId::allocate",
                "DomainId::get",
            ],
            "without a parent",
            first_block::<S>,
        ),
        takes(
            &["TaggedBlock::allocate"],
            "below another block",
            child::<S>,
        ),
        takes(
            &[
                "TaggedBlock::allocate_on",
                "TaggedBlock::free_on",
                "ThreadTable::with",
                "ThreadTable::for_this_thread",
            ],
            "counted in a table that was looked for once",
            child_on::<S>,
        ),
        takes(
            &["TaggedBlock::resize"],
            "larger, with a parent, siblings and children",
            resize::<S>,
        ),
        takes(
            &[
                "GcBlocks::allocate",
                "GcBlocks::new",
                "GcBlocks::begin_sweep",
                "GcBlocks::mark",
                "GcBlocks::end_sweep",
                "GcBlocks::block",
            ],
            "with a sweep",
            collected::<S>,
        ),
        takes(&["GcBlocks::init"], "with a further slab", slabs::<S>),
        takes(
            &[
                "LinearBlocks::allocate",
                "LinearBlocks::resize",
                "LinearBlocks::block_size",
                "LinearBlocks::init",
                "LinearBlocks::first",
                "LinearBlocks::from_first",
                "LinearBlocks::block",
            ],
            "beyond the first chunk",
            linear::<S>,
        ),
        takes(
            &[
                "LinearBlocks::unsized_block_size",
                "LinearBlocks::init_unsized",
            ],
            "beyond the first chunk, without sizes",
            linear_without_sizes::<S>,
        ),
        takes(
            &["TaggedDomain::reserve"],
            "one block, used and given back",
            reserve::<S>,
        ),
        Operation {
            names: &["TaggedDomain::with_fallback", "TaggedDomain::reset_refused"],
            how: "an allocation that a fallback serves",
            takes: MemoryUse::MemoryOrLess("what one domain refuses, the other serves"),
            body: fallback::<S>,
        },
        nothing(
            &[
                "TaggedBlock::free",
                "TaggedBlock::steal",
                "TaggedBlock::adopt",
                "TaggedBlock::parent",
                "TaggedBlock::size",
                "TaggedBlock::domain",
                "TaggedBlock::set_destructor",
                "TaggedBlock::newest_child",
                "TaggedBlock::next_older",
                "TaggedBlock::payload",
                "TaggedBlock::from_payload",
                "TaggedDomain::context",
                "TaggedDomain::into_raw",
                "TaggedDomain::from_raw",
            ],
            "there is no memory beside the blocks",
            moves::<S>,
        ),
        nothing(
            &[
                "GcBlocks::allocate_in_slab",
                "LinearBlocks::allocate_in_chunk",
            ],
            "what was allocated before is given out, or nothing",
            room::<S>,
        ),
    ]
}

fn domain_of(ground: &Ground) -> TaggedDomain {
    let context = ground.context().child("domain").expect("refused nothing");
    TaggedDomain::new(context).expect("refused nothing")
}

fn domain<S: Stage>(stage: &S, ground: &Ground) {
    let mut context = Some(ground.context().child("domain").expect("refused nothing"));
    let made = stage.attempt(
        || ground.picture(),
        || {
            TaggedDomain::new(context.take().expect("given back")).map_err(|rejected| {
                let Rejected { value, error, .. } = rejected;
                context = Some(value);
                error
            })
        },
    );
    drop(made);
}

fn first_block<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let block = stage.attempt(|| ground.picture(), || domain.allocate(100, Fill::Zeros));
    // SAFETY: the domain has an owner; the block is live until it is freed here.
    unsafe {
        assert_eq!(block.payload().cast::<[u8; 100]>().read(), [0; 100]);
        assert_eq!(block.domain().get(), domain.id().get());
        block.free();
        domain
            .id()
            .allocate(0, Fill::Undefined)
            .expect("refused nothing")
            .free();
    }
}

fn child<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let parent = domain
        .allocate(1, Fill::Undefined)
        .expect("refused nothing");
    let new = stage.attempt(
        || ground.picture(),
        // SAFETY: the parent is live.
        || unsafe { parent.allocate(5000, Fill::Undefined) },
    );
    // SAFETY: both are live, and freed here.
    unsafe {
        assert_eq!(new.parent(), Some(parent));
        parent.free();
    }
}

fn child_on<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let parent = domain
        .allocate(1, Fill::Undefined)
        .expect("refused nothing");
    // SAFETY: used here alone.
    let table = ThreadTable::with(|table| unsafe { table.for_this_thread() });
    let new = stage.attempt(
        || ground.picture(),
        // SAFETY: the parent is live.
        || unsafe { parent.allocate_on(table, 5000, Fill::Undefined) },
    );
    // SAFETY: both are live, and freed here.
    unsafe {
        assert_eq!(new.parent(), Some(parent));
        new.free_on(table);
        parent.free_on(table);
    }
}

fn resize<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let top = domain
        .allocate(1, Fill::Undefined)
        .expect("refused nothing");
    // SAFETY: all blocks are live until the top is freed.
    unsafe {
        let new = || top.allocate(24, Fill::Undefined).expect("refused nothing");
        let (older, block, newer) = (new(), new(), new());
        let child = block.allocate(8, Fill::Undefined).expect("refused nothing");
        block.payload().cast::<u64>().write(7);
        let block = stage.attempt(|| ground.picture(), || block.resize(100_000));
        assert_eq!(
            (block.size(), block.payload().cast::<u64>().read()),
            (100_000, 7)
        );
        assert_eq!((child.parent(), block.parent()), (Some(block), Some(top)));
        assert_eq!(
            (newer.next_older(), block.next_older()),
            (Some(block), Some(older))
        );
        top.free();
    }
}

fn collected<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let block = domain
        .allocate(0, Fill::Undefined)
        .expect("refused nothing");
    let collector = GcBlocks::new(block);
    // SAFETY: all blocks are live where they are used.
    unsafe {
        let kept = collector.allocate(1, Fill::Zeros).expect("refused nothing");
        collector.begin_sweep();
        collector.mark(kept);
        let new = stage.attempt(
            || ground.picture(),
            || collector.allocate(64, Fill::Undefined),
        );
        collector.end_sweep();
        assert_eq!(block.newest_child(), Some(new));
        assert_eq!(new.next_older(), Some(kept));
        collector.block().free();
    }
}

fn slabs<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let block = domain
        .allocate(GcBlocks::BLOCK_SIZE, Fill::Undefined)
        .expect("refused nothing");
    // SAFETY: all blocks are live where they are used.
    unsafe {
        let collector = GcBlocks::init(block);
        let new = || collector.allocate(512, Fill::Zeros);
        // 520 bytes each: the first slab has room for seven.
        let first: [TaggedBlock; 7] = core::array::from_fn(|_| new().expect("refused nothing"));
        collector.begin_sweep();
        first.iter().for_each(|block| collector.mark(*block));
        let further = stage.attempt(|| ground.picture(), new);
        assert_eq!(further.parent(), Some(block));
        first[0].free();
        assert_eq!(new().expect("there is a free one"), first[0]);
        collector.end_sweep();
        block.free();
    }
}

fn linear<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let size = LinearBlocks::block_size(16).expect("small");
    let block = domain
        .allocate(size, Fill::Undefined)
        .expect("refused nothing");
    // SAFETY: the block is live, of that size, and freed last.
    unsafe {
        let linear = LinearBlocks::init(block, 16);
        linear.first().cast::<[u64; 2]>().write([1, 2]);
        let large = stage.attempt(|| ground.picture(), || linear.allocate(10_000, Fill::Zeros));
        assert_eq!(large.add(9_999).read(), 0);
        let moved = LinearBlocks::from_first(linear.first())
            .resize(linear.first(), 24)
            .expect("room is left");
        assert_eq!(moved.cast::<[u64; 2]>().read(), [1, 2]);
        assert_eq!(linear.block(), block);
        block.free();
    }
}

fn linear_without_sizes<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let size = LinearBlocks::unsized_block_size(0).expect("small");
    let block = domain
        .allocate(size, Fill::Undefined)
        .expect("refused nothing");
    // SAFETY: the block is live, of that size, and freed last.
    unsafe {
        let linear = LinearBlocks::init_unsized(block);
        let large = stage.attempt(|| ground.picture(), || linear.allocate(10_000, Fill::Zeros));
        assert_eq!(large.add(9_999).read(), 0);
        block.free();
    }
}

/// What a slab and a chunk have room for, until they have none.
fn room<S: Stage>(stage: &S, ground: &Ground) {
    let domain = domain_of(ground);
    let new = |size| {
        domain
            .allocate(size, Fill::Undefined)
            .expect("refused nothing")
    };
    let (block, chunk) = (
        new(GcBlocks::BLOCK_SIZE),
        new(LinearBlocks::block_size(8).expect("small")),
    );
    // SAFETY: all blocks are live where they are used.
    unsafe {
        let (collector, linear) = (GcBlocks::init(block), LinearBlocks::init(chunk, 8));
        assert_eq!(collector.allocate_in_slab(512, Fill::Zeros), None);
        let kept = collector
            .allocate(512, Fill::Zeros)
            .expect("refused nothing");
        stage.attempt_plainly(|| {
            let live = ground.context().subtree_usage();
            // 520 bytes each: the slab has room for seven.
            let slots: [TaggedBlock; 6] = core::array::from_fn(|_| {
                let slot = collector.allocate_in_slab(512, Fill::Zeros);
                slot.expect("there is room")
            });
            assert_eq!(collector.allocate_in_slab(512, Fill::Zeros), None);
            assert_eq!(collector.allocate_in_slab(513, Fill::Zeros), None);
            slots.iter().for_each(|slot| slot.free());
            let all: usize = core::iter::from_fn(|| linear.allocate_in_chunk(100, Fill::Zeros))
                .map(|piece| usize::from(piece.add(99).read()) + 1)
                .sum();
            assert_eq!(all, 17, "pieces of 112 bytes in what is left of 2048");
            assert_eq!(linear.allocate_in_chunk(usize::MAX, Fill::Zeros), None);
            assert_eq!(ground.context().subtree_usage(), live);
        });
        assert_eq!(kept.parent(), Some(block));
        block.free();
        chunk.free();
    }
}

fn reserve<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground
        .context()
        .child("set aside")
        .expect("refused nothing");
    let reserve = stage.attempt(
        || {
            (
                ground.picture(),
                context.usage().scope(context.scope()).live_blocks,
            )
        },
        || TaggedDomain::reserve(&context, 8192),
    );
    let bytes = context.usage().total().live_bytes;
    let block = reserve.allocate(100, Fill::Zeros).expect("refused nothing");
    assert_eq!(context.usage().total().live_bytes, bytes, "it was there");
    // SAFETY: live, and freed here.
    unsafe { block.free() };
}

fn fallback<S: Stage>(stage: &S, ground: &Ground) {
    let reserve = domain_of(ground);
    let context = ground.context().child("served").expect("refused nothing");
    let domain = TaggedDomain::with_fallback(context, &reserve).expect("refused nothing");
    let mut refused = false;
    let block = stage.attempt(
        || (),
        || {
            let _ = domain.reset_refused();
            let block = domain.allocate(64, Fill::Undefined)?;
            refused = domain.reset_refused();
            Ok::<TaggedBlock, HostError>(block)
        },
    );
    // SAFETY: live, and freed here.
    unsafe {
        assert_eq!(block.domain() == reserve.id(), refused);
        block.free();
    }
}

unsafe extern "C" fn clear(payload: *mut std::ffi::c_void) {
    // SAFETY: the blocks that have this destructor have 8 bytes.
    unsafe { payload.cast::<u64>().write(0) };
}

fn moves<S: Stage>(stage: &S, ground: &Ground) {
    // SAFETY: taken back once.
    let domain = unsafe { TaggedDomain::from_raw(domain_of(ground).into_raw()) };
    // SAFETY: all blocks are live where they are used.
    unsafe {
        let new = || {
            domain
                .allocate(8, Fill::Undefined)
                .expect("refused nothing")
        };
        let (one, two) = (new(), new());
        let child = one.allocate(8, Fill::Undefined).expect("refused nothing");
        let grandchild = child.allocate(8, Fill::Undefined).expect("refused nothing");
        stage.attempt_plainly(|| {
            let child = TaggedBlock::from_payload(child.payload());
            assert!(!child.steal(Some(grandchild)) && !child.adopt(one) && !one.adopt(one));
            assert!(child.steal(Some(two)) && two.parent().is_none());
            assert!(one.adopt(two));
            assert_eq!(
                (
                    child.parent(),
                    one.newest_child(),
                    child.next_older(),
                    child.size()
                ),
                (Some(one), Some(child), None, 8)
            );
            child.set_destructor(Some(clear)).expect("one of a few");
            assert_eq!(child.domain(), domain.id());
            assert!(!domain.context().is_closed());
            assert!(child.steal(None));
            assert!(child.parent().is_none() && one.newest_child().is_none());
            child.steal(Some(one));
            one.free();
            two.free();
        });
    }
}
