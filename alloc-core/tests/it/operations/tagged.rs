//! Tagged blocks, collectors, linear memory.
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "one promise holds for a whole tree: its blocks are live")]

use alloc_core::ThreadTable;
use alloc_core::tagged::{Fill, GcBlocks, LinearBlocks, TaggedBlock, TaggedDomain};
use testkit::Stage;

use super::Ground;

fn domain_of<S: Stage>(g: &Ground<'_, S>) -> TaggedDomain {
    let mut context = Some(g.below());
    g.step(|| {
        TaggedDomain::new(context.take().expect("given back")).map_err(|rejected| {
            context = Some(rejected.value);
            rejected.error
        })
    })
}

unsafe extern "C" fn clear(payload: *mut std::ffi::c_void) {
    // SAFETY: the blocks that have this destructor have 8 bytes.
    unsafe { payload.cast::<u64>().write(0) };
}

pub(super) fn blocks<S: Stage>(g: &Ground<'_, S>) {
    let context = g.below();
    let reserve = g.step(|| TaggedDomain::reserve(&context, 8192));
    g.without_memory(|| {
        let block = reserve.allocate(100, Fill::Zeros).expect("the reserve has room");
        // SAFETY: live, and freed here.
        unsafe { block.free() };
    });
    // SAFETY: converted back once.
    let domain = unsafe { TaggedDomain::from_raw(domain_of(g).into_raw()) };
    let top = g.step(|| domain.allocate(100, Fill::Zeros));
    // SAFETY: used on this thread alone.
    let table = ThreadTable::with(|table| unsafe { table.for_this_thread() });
    // SAFETY: all blocks are live where they are used.
    unsafe {
        assert_eq!(top.payload().cast::<[u8; 100]>().read(), [0; 100]);
        let other = g.step(|| domain.id().allocate(8, Fill::Undefined));
        let older = g.step(|| top.allocate(5000, Fill::Undefined));
        let block = g.step(|| top.allocate_on(table, 8, Fill::Undefined));
        let newer = g.step(|| top.allocate(0, Fill::Undefined));
        let child = g.step(|| block.allocate(8, Fill::Undefined));
        block.payload().cast::<u64>().write(7);
        let block = g.step(|| block.resize(100_000));
        assert_eq!((block.size(), block.payload().cast::<u64>().read()), (100_000, 7));
        assert_eq!((child.parent(), block.parent(), older.parent()), (Some(block), Some(top), Some(top)));
        assert_eq!((top.newest_child(), block.next_older()), (Some(newer), Some(older)));
        g.without_memory(|| {
            let block = TaggedBlock::from_payload(block.payload());
            assert!(!block.steal(Some(child)) && !block.adopt(top) && !top.adopt(top));
            assert!(block.steal(Some(other)) && other.parent().is_none() && top.adopt(other));
            assert_eq!((block.parent(), block.domain(), child.size()), (Some(top), domain.id(), 8));
            child.set_destructor(Some(clear)).expect("one of a few");
            assert!(!domain.context().is_closed() && domain.id().get() != 0);
            older.free_on(table);
            assert!(block.steal(None) && block.parent().is_none());
            block.free();
            top.free();
            other.free();
        });
    }
}

pub(super) fn collectors<S: Stage>(g: &Ground<'_, S>) {
    let domain = domain_of(g);
    let block = g.step(|| domain.allocate(GcBlocks::BLOCK_SIZE, Fill::Undefined));
    let plain = g.step(|| domain.allocate(0, Fill::Undefined));
    // SAFETY: all blocks are live where they are used.
    unsafe {
        let (collector, others) = (GcBlocks::init(block), GcBlocks::new(plain));
        assert_eq!(collector.allocate_in_slab(512, Fill::Zeros), None);
        let kept = g.step(|| others.allocate(64, Fill::Zeros));
        let first = g.step(|| collector.allocate(512, Fill::Zeros));
        g.without_memory(|| {
            // 520 bytes each: the first slab has room for seven.
            let slots: [_; 6] =
                std::array::from_fn(|_| collector.allocate_in_slab(512, Fill::Zeros).expect("there is room"));
            assert_eq!(collector.allocate_in_slab(512, Fill::Zeros), None);
            assert_eq!(collector.allocate_in_slab(513, Fill::Zeros), None);
            slots[0].free();
            assert_eq!(collector.allocate(512, Fill::Zeros), Ok(slots[0]), "there is a free one");
        });
        let further = g.step(|| collector.allocate(512, Fill::Zeros));
        assert_eq!((further.parent(), kept.parent()), (Some(block), Some(plain)));
        g.without_memory(|| {
            assert!(collector.begin_sweep() && others.begin_sweep());
            others.mark(kept);
            collector.mark(first);
            collector.end_sweep();
            others.end_sweep();
            assert_eq!((kept.size(), first.size()), (64, 512));
            others.block().free();
            block.free();
        });
    }
}

pub(super) fn linear<S: Stage>(g: &Ground<'_, S>) {
    let domain = domain_of(g);
    let new = |size: Result<usize, _>| g.step(|| domain.allocate(size.expect("small"), Fill::Undefined));
    let (sized, bare) = (new(LinearBlocks::block_size(16)), new(LinearBlocks::unsized_block_size(0)));
    // SAFETY: the blocks are live, of that size, and freed last.
    unsafe {
        let (linear, compact) = (LinearBlocks::init(sized, 16), LinearBlocks::init_unsized(bare));
        linear.first().cast::<[u64; 2]>().write([1, 2]);
        g.without_memory(|| {
            let all: usize = std::iter::from_fn(|| linear.allocate_in_chunk(100, Fill::Zeros))
                .map(|piece| usize::from(piece.add(99).read()) + 1)
                .sum();
            assert_eq!(all, 17, "pieces of 112 bytes in what is left of 2048");
            assert_eq!(linear.allocate_in_chunk(usize::MAX, Fill::Zeros), None);
        });
        for linear in [linear, compact] {
            let large = g.step(|| linear.allocate(10_000, Fill::Zeros));
            assert_eq!(large.add(9_999).read(), 0);
        }
        let moved = g.step(|| LinearBlocks::from_first(linear.first()).resize(linear.first(), 2400));
        assert_eq!(moved.cast::<[u64; 2]>().read(), [1, 2]);
        assert_eq!(linear.block(), sized);
        g.without_memory(|| {
            sized.free();
            bare.free();
        });
    }
}

pub(super) fn fallback<S: Stage>(g: &Ground<'_, S>) {
    let reserve = domain_of(g);
    let domain = TaggedDomain::with_fallback(g.below(), &reserve).expect("refused nothing");
    let mut refused = false;
    let block = g.step(|| {
        let block = domain.allocate(64, Fill::Undefined);
        refused = domain.reset_refused();
        block
    });
    // SAFETY: live, and freed here.
    unsafe {
        assert_eq!(block.domain() == reserve.id(), refused);
        block.free();
    }
}
