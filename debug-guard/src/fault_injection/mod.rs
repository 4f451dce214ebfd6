mod armed_plan;
mod fault;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, HostError, Notice, PointerStatus, Scope, dangling};

use crate::os::lock::ForkSafeMutex;
use armed_plan::ArmedPlan;
pub use fault::{ContextName, Fault, FaultError};

/// A host allocator that refuses on purpose and forwards the rest.
///
/// Around a [`Guard`](crate::Guard) it refuses the program's requests, behind one also the guard's own. It keeps no
/// memory and adds no byte to a block. Size 0 passes: answered with [`dangling`], never counted or refused. A block
/// allocated before the plan changed may be freed after.
///
/// # Threads
/// No instant exceeds the limit in bytes, and exactly one request has the number of [`Fault::Nth`].
/// [`arm`](Self::arm) and [`disarm`](Self::disarm) may come at any moment, from the allocator behind, too: one plan,
/// the one armed when it came, counts, judges and charges a request.
#[doc(alias("failmalloc", "out of memory"))]
pub struct FailingAllocator<A> {
    inner: A,
    plan: ForkSafeMutex<ArmedPlan>,
    live: AtomicU64,
    ours: AtomicBool,
}

impl<A> FailingAllocator<A> {
    /// Wraps `inner`, armed with `fault` ([`Fault::Never`] only counts).
    pub const fn new(inner: A, fault: Fault) -> Self {
        Self {
            inner,
            plan: ForkSafeMutex::new(ArmedPlan::new(fault)),
            live: AtomicU64::new(0),
            ours: AtomicBool::new(false),
        }
    }

    /// Replaces the plan. Requests and refusals count from 0 again; live bytes stay.
    pub fn arm(&self, fault: Fault) {
        self.plan.lock().arm(fault);
    }

    /// Refuses nothing from now on. The counts continue.
    pub fn disarm(&self) {
        self.plan.lock().fault = Fault::Never;
    }

    /// Requests since the plan was armed, refused ones included.
    pub fn requests(&self) -> u64 {
        self.plan.lock().requests
    }

    /// Requests that the plan refused since it was armed.
    pub fn refused(&self) -> u64 {
        self.plan.lock().refused
    }

    /// Bytes allocated and not yet freed.
    pub fn live_bytes(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// Counts a request to another allocator; `false` if the plan refuses it. Its bytes count as live during this call
    /// only, since their free is not reported.
    #[must_use]
    pub fn admits(&self, bytes: usize, scope: Scope) -> bool {
        if bytes == 0 {
            return true;
        }
        self.admit(bytes, bytes as u64, scope).is_ok()
    }

    /// The allocator behind.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// On `Ok` the `bytes` that the block grew by are live.
    fn admit(&self, size: usize, bytes: u64, scope: Scope) -> Result<Live<'_>, AllocError> {
        let charge = |limit| charge(&self.live, bytes, limit);
        if self.plan.lock().admit(size as u64, scope, charge) {
            let live = &self.live;
            Ok(Live { live, bytes })
        } else {
            self.ours.store(true, Relaxed);
            Err(AllocError)
        }
    }

    fn serve(
        &self,
        layout: Layout,
        scope: Scope,
        allocate: impl FnOnce() -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let charge = self.admit(layout.size(), layout.size() as u64, scope)?;
        self.record_outcome(allocate(), charge)
    }

    fn record_outcome(
        &self,
        answer: Result<NonNull<u8>, AllocError>,
        charge: Live<'_>,
    ) -> Result<NonNull<u8>, AllocError> {
        match answer {
            Ok(_) => core::mem::forget(charge),
            Err(AllocError) => self.ours.store(false, Relaxed),
        }
        answer
    }
}

/// The bytes are live until this is dropped, also by an unwinding allocator behind.
struct Live<'a> {
    live: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.live.fetch_sub(self.bytes, Relaxed);
    }
}

/// In one step: a request that is too large never makes another one fail.
fn charge(sum: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let fits = |now: u64| now.checked_add(bytes).filter(|after| bytes == 0 || *after <= limit);
    sum.fetch_update(Relaxed, Relaxed, fits).is_ok()
}

// SAFETY: blocks come from `inner` and return to it with their layout and scope; size 0 gets a dangling pointer.
unsafe impl<A: HostAllocator> HostAllocator for FailingAllocator<A> {
    /// A later plan may name a context.
    fn traits(&self) -> AllocatorTraits {
        self.inner.traits().with_requester()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.serve(layout, scope, || self.inner.allocate(layout, scope))
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.serve(layout, scope, || self.inner.allocate_zeroed(layout, scope))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if layout.size() != 0 {
            let _live = Live { live: &self.live, bytes: layout.size() as u64 };
            // SAFETY: the contract of `deallocate`; blocks above size 0 came from `inner`.
            unsafe { self.inner.deallocate(block, layout, scope) };
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new, scope);
        }
        if new.size() == 0 {
            // SAFETY: the contract of `HostAllocator::resize`. Shrinking to nothing frees.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        let more = new.size().saturating_sub(old.size()) as u64;
        let charge = self.admit(new.size(), more, scope)?;
        // SAFETY: the contract of `resize`; blocks above size 0 came from `inner`.
        let answer = unsafe { self.inner.resize(block, old, new, scope) };
        if answer.is_ok() {
            self.live.fetch_sub(old.size().saturating_sub(new.size()) as u64, Relaxed);
        }
        self.record_outcome(answer, charge)
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        if self.ours.load(Relaxed) {
            HostError::OutOfHostMemory { bytes: layout.size(), scope }
        } else {
            self.inner.refusal(layout, scope)
        }
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        self.inner.validate_pointer(pointer, front)
    }
}

impl<A> fmt::Debug for FailingAllocator<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailingAllocator")
            .field("plan", &*self.plan.lock())
            .field("live_bytes", &self.live_bytes())
            .finish_non_exhaustive()
    }
}
