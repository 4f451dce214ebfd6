//! An allocator that calls the test back at every request, while its caller is in the middle of an operation.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, HostError, Notice, PointerStatus, Scope};

/// An allocator that runs the thread's hook (see [`with_hook`]) before and after each request, and is otherwise `A`.
///
/// ```
/// use std::cell::Cell;
/// use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
/// use testkit::{HookedAllocator, with_hook};
///
/// static HOST: HookedAllocator<FromGlobalAlloc<std::alloc::System>> = HookedAllocator::new(FromGlobalAlloc::SYSTEM);
/// let root = Context::root_static(&HOST, ContextOptions::new("root"))?;
/// let seen = Cell::new(0);
/// // Each request of the root creates a child of that very root, and drops it.
/// let hook = |_| drop(root.child("within").map(|_| seen.set(seen.get() + 1)));
/// drop(with_hook(1, &hook, || root.child("child"))?);
/// assert_eq!(seen.get(), 2, "before the allocation of the child's record, and after it");
/// root.close_root()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HookedAllocator<A> {
    inner: A,
}

/// A request that an allocator, or a mock device, has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is called.
    pub call: Call,
    /// Before it is forwarded, or after.
    pub moment: Moment,
    /// Bytes asked for, freed, or notified of; after a resize, the new size.
    pub bytes: usize,
}

/// A method of [`HostAllocator`], or something else that a test wants its hook called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the methods")]
pub enum Call {
    Allocate,
    AllocateZeroed,
    Deallocate,
    Grow,
    Shrink,
    Notify,
    Refusal,
    Vet,
    /// A command of a mock device, a compiler, a destructor.
    Other(&'static str),
}

impl Call {
    /// That of a resize, by where it goes.
    pub(crate) fn resize(old: Layout, new: Layout) -> Self {
        if new.size() > old.size() { Self::Grow } else { Self::Shrink }
    }
}

/// On which side of the forwarded call a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The caller has prepared its request, and nothing has happened yet.
    Before,
    /// The request was answered, and the caller does not know the answer yet.
    After,
}

#[derive(Clone, Copy)]
struct Hook<'h> {
    run: &'h dyn Fn(Request),
    depth: u32,
}

thread_local! {
    static HOOK: Cell<Option<Hook<'static>>> = const { Cell::new(None) };
    static RUNNING: Cell<u32> = const { Cell::new(0) };
}

/// Runs `body`; until it ends, each request of this thread to a [`HookedAllocator`] runs `hook` before and after.
///
/// Requests that the hook makes run it as well, nested up to `depth` deep. Requests of other threads, and of a thread
/// that panics, run no hook. A hook within a hook's `body` replaces the outer one until it ends.
pub fn with_hook<R>(depth: u32, hook: &dyn Fn(Request), body: impl FnOnce() -> R) -> R {
    struct Outer(Option<Hook<'static>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            HOOK.set(self.0);
        }
    }
    // SAFETY: the lifetime alone is changed, and `Outer` takes the reference away before `hook` ends.
    let hook = unsafe { std::mem::transmute::<Hook<'_>, Hook<'static>>(Hook { run: hook, depth }) };
    let _outer = Outer(HOOK.replace(Some(hook)));
    body()
}

/// Runs the thread's hook, if there is one and it is not nested too deep. For mock devices and compilers of tests.
pub fn run_hook(request: Request) {
    struct Running;
    impl Drop for Running {
        fn drop(&mut self) {
            RUNNING.set(RUNNING.get() - 1);
        }
    }
    let Some(hook) = HOOK.get() else { return };
    if RUNNING.get() < hook.depth && !std::thread::panicking() {
        RUNNING.set(RUNNING.get() + 1);
        let _running = Running;
        (hook.run)(request);
    }
}

/// True while a hook runs on this thread.
#[must_use]
pub fn in_hook() -> bool {
    RUNNING.get() > 0
}

fn around<R>(call: Call, bytes: usize, forward: impl FnOnce() -> R) -> R {
    run_hook(Request { call, moment: Moment::Before, bytes });
    let answer = forward();
    run_hook(Request { call, moment: Moment::After, bytes });
    answer
}

impl<A> HookedAllocator<A> {
    /// Over `inner`.
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }

    /// The allocator behind.
    pub const fn inner(&self) -> &A {
        &self.inner
    }
}

// SAFETY: every call is `inner`'s own; a hook gets no block.
unsafe impl<A: HostAllocator> HostAllocator for HookedAllocator<A> {
    /// As the allocator behind: a hook that panics in a bridge without a panic fence ends the process, which no test
    /// overlooks.
    fn traits(&self) -> AllocatorTraits {
        self.inner.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        around(Call::Allocate, layout.size(), || self.inner.allocate(layout, scope))
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        around(Call::AllocateZeroed, layout.size(), || self.inner.allocate_zeroed(layout, scope))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is `inner`'s.
        around(Call::Deallocate, layout.size(), || unsafe { self.inner.deallocate(block, layout, scope) });
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: this function's contract: the block is `inner`'s.
        around(Call::resize(old, new), new.size(), || unsafe { self.inner.resize(block, old, new, scope) })
    }

    fn notify(&self, notice: Notice) {
        around(Call::Notify, notice.bytes, || self.inner.notify(notice));
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        around(Call::Refusal, layout.size(), || self.inner.refusal(layout, scope))
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        around(Call::Vet, 0, || self.inner.validate_pointer(pointer, front))
    }
}
