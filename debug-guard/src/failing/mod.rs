//! The decorator that refuses what a [`Fault`] says.

mod fault;
mod name;
mod plan;
mod text;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use alloc_core::{AllocError, HostAllocator, HostError, Notice, Scope, Vetted, dangling, with_origin};

pub use fault::Fault;
use fault::Request;
pub use name::ContextName;
use plan::{PerScope, Plan};
pub use text::FaultError;

/// A host allocator that refuses on purpose and forwards the rest to the allocator behind it.
///
/// It goes on either side of a [`Guard`](crate::Guard): around one it refuses what programs ask for; behind one it also refuses what the
/// guard needs for itself, which counts as requests too.
///
/// It keeps no memory of its own and adds no byte to a block. Size 0 passes: it is answered with
/// [`dangling`], never counted and never refused. A block given before the plan changed may be freed
/// after.
///
/// # Threads
/// `Sync` where `A` is. The limits in bytes are never exceeded at any instant, and exactly one request has the number of
/// [`Fault::Nth`]. [`arm`](Self::arm) and [`disarm`](Self::disarm) are meant for moments when no other thread is asking: a
/// request under way may be judged by parts of the old plan and of the new.
pub struct FailingAllocator<A> {
    inner: A,
    plan: Plan,
    requests: AtomicU64,
    in_scope: PerScope,
    in_context: AtomicU64,
    refused: AtomicU64,
    live: AtomicU64,
    total: AtomicU64,
    /// The latest refusal came from the plan, not from `inner`.
    ours: AtomicBool,
}

impl<A> FailingAllocator<A> {
    /// Wraps `inner`, armed with `fault` ([`Fault::Never`] only counts).
    pub const fn new(inner: A, fault: Fault) -> Self {
        Self {
            inner,
            plan: Plan::new(fault),
            requests: AtomicU64::new(0),
            in_scope: PerScope::new(),
            in_context: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            live: AtomicU64::new(0),
            total: AtomicU64::new(0),
            ours: AtomicBool::new(false),
        }
    }

    /// Replaces the plan. Requests, refusals and total bytes are counted from 0 again; live bytes stay.
    pub fn arm(&self, fault: Fault) {
        self.plan.store(Fault::Never);
        for counter in [&self.requests, &self.refused, &self.total, &self.in_context].into_iter().chain(self.in_scope.all()) {
            counter.store(0, Relaxed);
        }
        self.plan.store(fault);
    }

    /// Refuses nothing from now on. The counts go on as they are.
    pub fn disarm(&self) {
        self.plan.store(Fault::Never);
    }

    /// Requests since the plan was armed, refused ones included.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Requests that the plan refused since it was armed. Refusals of the allocator behind are not among them.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Bytes given and not yet freed.
    pub fn live_bytes(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// Bytes given since the plan was armed.
    pub fn total_bytes(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// The allocator behind.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Counts a request for a block of `size` bytes, `bytes` more than there were, and asks the plan. On `Ok` those are charged; a
    /// refusal of the inner allocator undoes that.
    fn admit(&self, size: usize, bytes: u64, scope: Scope) -> Result<(), AllocError> {
        let fault = self.plan.load();
        let request = Request {
            number: self.requests.fetch_add(1, Relaxed),
            number_in_scope: self.in_scope.of(scope).fetch_add(1, Relaxed),
            number_in_context: match fault {
                Fault::Context(name, _) => self.number_in(&name),
                _ => None,
            },
            scope,
            size: size as u64,
        };
        if fault.strikes(request) || !charge(&self.live, bytes, fault.live_limit()) {
            return self.refuse();
        }
        if !charge(&self.total, bytes, fault.total_limit()) {
            self.live.fetch_sub(bytes, Relaxed);
            return self.refuse();
        }
        Ok(())
    }

    /// Counts the request if a context of this name makes it.
    fn number_in(&self, name: &ContextName) -> Option<u64> {
        let asked = with_origin(|origin| origin.is_some_and(|origin| name.is(origin.name)));
        asked.then(|| self.in_context.fetch_add(1, Relaxed))
    }

    #[cold]
    fn refuse(&self) -> Result<(), AllocError> {
        self.refused.fetch_add(1, Relaxed);
        self.ours.store(true, Relaxed);
        Err(AllocError)
    }

    /// Passes on what `inner` answered; where it refused, takes the charge of `bytes` back.
    fn settle(&self, answer: Result<NonNull<u8>, AllocError>, bytes: u64) -> Result<NonNull<u8>, AllocError> {
        if answer.is_err() {
            self.live.fetch_sub(bytes, Relaxed);
            self.total.fetch_sub(bytes, Relaxed);
            self.ours.store(false, Relaxed);
        }
        answer
    }
}

/// Adds `bytes` to `sum` unless that would exceed `limit`; false when it would. Checked and added in one step: a request that
/// is too large never makes another one fail that would have fitted.
fn charge(sum: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let fits = |now: u64| now.checked_add(bytes).filter(|after| bytes == 0 || *after <= limit);
    sum.fetch_update(Relaxed, Relaxed, fits).is_ok()
}

// SAFETY: blocks come from `inner` and go back to it with the layout and scope they were given with; size 0, which `inner` never
// sees, is answered with a dangling pointer here. A refused grow or shrink has not touched the block.
unsafe impl<A: HostAllocator> HostAllocator for FailingAllocator<A> {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let bytes = layout.size() as u64;
        self.admit(layout.size(), bytes, scope)?;
        self.settle(self.inner.allocate(layout, scope), bytes)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let bytes = layout.size() as u64;
        self.admit(layout.size(), bytes, scope)?;
        self.settle(self.inner.allocate_zeroed(layout, scope), bytes)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if layout.size() != 0 {
            // SAFETY: the caller's promise; a block of a size above 0 came from `inner`.
            unsafe { self.inner.deallocate(block, layout, scope) };
            self.live.fetch_sub(layout.size() as u64, Relaxed);
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new, scope);
        }
        let more = new.size().saturating_sub(old.size()) as u64;
        self.admit(new.size(), more, scope)?;
        // SAFETY: the caller's promise; a block of a size above 0 came from `inner`.
        let answer = unsafe { self.inner.grow(block, old, new, scope) };
        self.settle(answer, more)
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if new.size() == 0 {
            // SAFETY: the caller's promise. Shrinking to nothing frees, and freeing is never refused.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        self.admit(new.size(), 0, scope)?;
        // SAFETY: the caller's promise; a block of a size above 0 came from `inner`.
        let answer = unsafe { self.inner.shrink(block, old, new, scope) };
        if answer.is_ok() {
            self.live.fetch_sub(old.size().saturating_sub(new.size()) as u64, Relaxed);
        }
        self.settle(answer, 0)
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn may_unwind(&self) -> bool {
        self.inner.may_unwind()
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        if self.ours.load(Relaxed) {
            HostError::OutOfHostMemory { bytes: layout.size(), scope }
        } else {
            self.inner.refusal(layout, scope)
        }
    }

    fn exact_alignment(&self) -> bool {
        self.inner.exact_alignment()
    }

    /// Plans may go by context, and the next plan may.
    fn wants_origin(&self) -> bool {
        true
    }

    fn vet(&self, pointer: NonNull<u8>, front: usize) -> Vetted {
        self.inner.vet(pointer, front)
    }
}

impl<A> fmt::Debug for FailingAllocator<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailingAllocator")
            .field("fault", &self.plan.load())
            .field("requests", &self.requests())
            .field("refused", &self.refused())
            .field("live_bytes", &self.live_bytes())
            .field("total_bytes", &self.total_bytes())
            .finish_non_exhaustive()
    }
}
