//! A base allocator that calls its caller back at every request, on the same thread: what is half-done then must not
//! show. The list of all such calls is in docs/design/reentry/alloc-core.md.
//!
//! Runs under miri.

mod arenas;
mod contexts;

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::scene::{SYSTEM, layout};
use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Scope, Scoped, held_state_locks};

/// Which request a [`Reentrant`] has just received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReentrantCall {
    Allocate,
    Free,
    Grow,
    Shrink,
}

type Hook = Rc<dyn Fn(ReentrantCall)>;

thread_local! {
    /// What a request of this thread runs before it is served.
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    /// Requests within requests.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Larger requests for new blocks are refused.
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
    static GROWS: Cell<bool> = const { Cell::new(true) };
    static LIVE: RefCell<BTreeMap<NonNull<u8>, Layout>> = const { RefCell::new(BTreeMap::new()) };
    /// How often each request has called back.
    static CALLED: RefCell<BTreeMap<ReentrantCall, u32>> = const { RefCell::new(BTreeMap::new()) };
}

/// The system's allocator, which runs this thread's hook at every request that no hook makes itself.
#[derive(Clone, Copy)]
struct Reentrant;

static REENTRANT: Reentrant = Reentrant;

/// Runs the hook at each request until dropped.
struct Hooked;

impl Hooked {
    fn new(hook: impl Fn(ReentrantCall) + 'static) -> Self {
        HOOK.set(Some(Rc::new(hook)));
        CALLED.take();
        Self
    }
    /// How often the hook ran at such requests.
    fn times(&self, call: ReentrantCall) -> u32 {
        CALLED.with_borrow(|called| called.get(&call).copied().unwrap_or(0))
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        drop(HOOK.take());
        LARGEST.set(usize::MAX);
        GROWS.set(true);
    }
}

fn call_back(call: ReentrantCall) {
    struct Out;
    impl Drop for Out {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    assert_eq!(held_state_locks(), 0, "{call:?} under a lock");
    DEPTH.set(DEPTH.get() + 1);
    let _out = Out;
    if DEPTH.get() == 1
        && let Some(hook) = HOOK.with_borrow(Clone::clone)
    {
        CALLED.with_borrow_mut(|called| *called.entry(call).or_default() += 1);
        hook(call);
    }
}

fn assert_nothing_live() {
    LIVE.with_borrow(|live| assert!(live.is_empty(), "left behind: {live:?}"));
}

impl Reentrant {
    fn begins(block: NonNull<u8>, layout: Layout) {
        let before = LIVE.with_borrow_mut(|live| live.insert(block, layout));
        assert_eq!(before, None, "the system gave a live block");
    }
    fn ends(block: NonNull<u8>, layout: Layout) {
        let known = LIVE.with_borrow_mut(|live| live.remove(&block));
        assert_eq!(known, Some(layout), "{block:?} is not live, or has another layout");
    }
}

// SAFETY: blocks are the system's.
unsafe impl HostAllocator for Reentrant {
    fn traits(&self) -> AllocatorTraits {
        SYSTEM.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        call_back(ReentrantCall::Allocate);
        if layout.size() > LARGEST.get() {
            return Err(AllocError);
        }
        let block = SYSTEM.allocate(layout, scope)?;
        Self::begins(block, layout);
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        call_back(ReentrantCall::Free);
        Self::ends(block, layout);
        // SAFETY: just seen to be a live block of the system with this layout.
        unsafe { SYSTEM.deallocate(block, layout, scope) };
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let grows = new.size() > old.size();
        call_back(if grows { ReentrantCall::Grow } else { ReentrantCall::Shrink });
        if grows && !GROWS.get() {
            return Err(AllocError);
        }
        Self::ends(block, old);
        // SAFETY: just seen to be a live block of the system with this layout.
        let moved = unsafe { SYSTEM.resize(block, old, new, scope) }?;
        Self::begins(moved, new);
        Ok(moved)
    }
}

type Base = Scoped<Reentrant>;

const BASE: Base = Scoped::new(Reentrant, Scope::Object);

/// Frees the blocks in whose `deallocate` the base unwound.
fn free_what_the_base_kept() {
    for (block, layout) in LIVE.take() {
        // SAFETY: live: the base has not got as far as giving it back.
        unsafe { SYSTEM.deallocate(block, layout, Scope::Object) };
    }
}
