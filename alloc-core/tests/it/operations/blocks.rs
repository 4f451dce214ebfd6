//! Bare blocks: through the crate's trait, through `allocator_api2`'s, and through the adapters.

use std::alloc::{Layout, System};
use std::ptr::NonNull;

use alloc_core::{
    Allocator, AllocatorTraits, FromGlobalAlloc, HostAllocator, HostSource, Notice, NoticeEvent, PointerStatus, Scope,
    Scoped, dangling, move_block, with_front, with_requester,
};
use testkit::Stage;

use super::{Ground, over};

const NONE: Layout = Layout::new::<()>();
const SMALL: Layout = Layout::new::<[u64; 3]>();
const LARGE: Layout = Layout::new::<[u64; 40]>();
const SCOPE: Scope = Scope::Cache;

pub(super) fn blocks<S: Stage>(g: &Ground<'_, S>) {
    let context = g.context();
    requests(g, context);
    requests(g, &g.handle());
    requests(g, &over(Scoped::new(context, SCOPE)));
    standard(g, context);
    standard(g, g.handle());
    standard(g, Scoped::new(context, SCOPE));
    let block = g.step(|| context.try_allocate(LARGE, SCOPE));
    fill(block, LARGE.size());
    // SAFETY: live, and untouched by a refusal.
    let moved = g.step(|| unsafe { move_block(context, block, LARGE, SMALL, SCOPE) });
    assert!(is_filled(moved, SMALL.size()));
    g.without_memory(|| {
        // SAFETY: the live block.
        unsafe { context.free(moved, SMALL, SCOPE) };
        questions(g);
    });
}

fn requests<S: Stage>(g: &Ground<'_, S>, host: &impl HostAllocator) {
    let zeros = g.step(|| host.allocate_zeroed(LARGE, SCOPE));
    // SAFETY: a live block of this size.
    assert!((0..LARGE.size()).all(|at| unsafe { zeros.as_ptr().wrapping_add(at).read() } == 0));
    let aligned = Layout::from_size_align(999, 256).expect("a layout");
    let (mut block, mut old) = (g.step(|| host.allocate(SMALL, SCOPE)), SMALL);
    fill(block, old.size());
    // Larger, to another alignment, smaller.
    for new in [LARGE, aligned, SMALL] {
        let step = || {
            assert!(is_filled(block, SMALL.size()), "a refusal leaves it");
            // SAFETY: live, and untouched by a refusal.
            unsafe { host.resize(block, old, new, SCOPE) }
        };
        (block, old) = (g.step(step), new);
        assert!(is_filled(block, SMALL.size()));
    }
    // SAFETY: an aligned address, of size 0.
    let from_nothing = g.step(|| unsafe { host.resize(dangling(NONE), NONE, SMALL, SCOPE) });
    g.without_memory(|| {
        // SAFETY: live; a block of no bytes needs no memory.
        let block = unsafe { host.resize(block, old, NONE, SCOPE) }.expect("it needs no memory");
        for (block, layout) in [(block, NONE), (zeros, LARGE), (from_nothing, SMALL)] {
            // SAFETY: live, and freed once.
            unsafe { host.deallocate(block, layout, SCOPE) };
        }
    });
}

fn standard<S: Stage>(g: &Ground<'_, S>, source: impl Allocator) {
    let block = g.step(|| source.allocate(SMALL)).cast::<u8>();
    // SAFETY: live; a refusal leaves it.
    let block = g.step(|| unsafe { source.grow(block, SMALL, LARGE) }).cast();
    // SAFETY: the grown block is live.
    let block = g.step(|| unsafe { source.shrink(block, LARGE, SMALL) }).cast();
    let zeros = g.step(|| source.allocate_zeroed(SMALL)).cast();
    for block in [block, zeros] {
        // SAFETY: live, and freed once.
        unsafe { source.deallocate(block, SMALL) };
    }
}

fn questions<S: Stage>(g: &Ground<'_, S>) {
    let context = g.context();
    let source = Scoped::new(context, SCOPE);
    assert_eq!(HostSource::refusal(&source, SMALL), HostAllocator::refusal(context, SMALL, SCOPE));
    assert_eq!(source.host().id(), context.id());
    assert_eq!((context.traits(), context.traits().exact_alignment), (context.handle().traits(), false));
    let all = AllocatorTraits::new().never_unwinds().with_requester();
    assert_eq!((all.may_unwind, all.exact_alignment, all.tracks_requester), (false, false, true));
    assert_eq!(context.validate_pointer(dangling(SMALL), 16), PointerStatus::Unknown);
    with_front(16, || with_requester(|origin| assert_eq!(origin.map(|origin| origin.front), Some(16))));
    for event in [NoticeEvent::Allocated, NoticeEvent::Freed] {
        context.notify(Notice { event, bytes: 1, scope: SCOPE });
    }
    // SAFETY: the system's allocator has no state.
    assert_eq!(size_of_val(&unsafe { FromGlobalAlloc::new(System) }), 0);
    assert_eq!(context.try_allocate(NONE, SCOPE), Ok(dangling(NONE)));
}

fn fill(block: NonNull<u8>, bytes: usize) {
    for at in 0..bytes {
        // SAFETY: callers pass live blocks of `bytes` bytes.
        unsafe { block.as_ptr().wrapping_add(at).write(at as u8) };
    }
}

fn is_filled(block: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: callers pass live blocks of `bytes` bytes that were filled.
    (0..bytes).all(|at| unsafe { block.as_ptr().wrapping_add(at).read() } == at as u8)
}
