//! The decorator that refuses requests by a [`Fault`].

mod armed_plan;
mod fault;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use alloc_core::{
    AllocError, AllocatorTraits, HostAllocator, HostError, Notice, PointerStatus, Scope, dangling,
};

use crate::os::lock::ForkSafeMutex;
use armed_plan::{ArmedPlan, PlanNumber};
pub use fault::ContextName;
pub use fault::Fault;
pub use fault::FaultError;

/// A host allocator that refuses on purpose and forwards the rest to the allocator behind it.
///
/// It may stand on either side of a [`Guard`](crate::Guard): around one it refuses the program's requests, behind one also the guard's
/// own.
///
/// It keeps no memory of its own and adds no byte to a block. Size 0 passes: it is answered with
/// [`dangling`], never counted and never refused. A block given before the plan changed may be freed
/// after.
///
/// # Threads
/// `Sync` where `A` is. The limits in bytes are never exceeded at any instant, and exactly one request has the number of
/// [`Fault::Nth`]. [`arm`](Self::arm) and [`disarm`](Self::disarm) may come at any moment, from the allocator behind, too: a request is
/// counted, judged and charged by the one plan that was armed when it came.
pub struct FailingAllocator<A> {
    inner: A,
    plan: ForkSafeMutex<ArmedPlan>,
    live: AtomicU64,
    /// The latest refusal came from the plan, not from `inner`.
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

    /// Replaces the plan. Requests, refusals and total bytes are counted from 0 again; live bytes stay.
    pub fn arm(&self, fault: Fault) {
        self.plan.lock().arm(fault);
    }

    /// Refuses nothing from now on. The counts go on as they are.
    pub fn disarm(&self) {
        self.plan.lock().fault = Fault::Never;
    }

    /// Requests since the plan was armed, refused ones included.
    pub fn requests(&self) -> u64 {
        self.plan.lock().requests
    }

    /// Requests that the plan refused since it was armed. Refusals of the allocator behind are not among them.
    pub fn refused(&self) -> u64 {
        self.plan.lock().refused
    }

    /// Bytes given and not yet freed.
    pub fn live_bytes(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// Bytes given since the plan was armed.
    pub fn total_bytes(&self) -> u64 {
        self.plan.lock().total
    }

    /// Counts a request that goes to another allocator than the one behind, and asks the plan: `false` where that refuses it. Its bytes
    /// count as given, and as live for no longer than this: their free is not reported. One for 0 bytes is none.
    pub fn admits(&self, bytes: usize, scope: Scope) -> bool {
        if bytes == 0 {
            return true;
        }
        let Ok(charge) = self.admit(bytes, bytes as u64, scope) else {
            return false;
        };
        core::mem::forget(charge);
        self.live.fetch_sub(bytes as u64, Relaxed);
        true
    }

    /// The allocator behind.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Counts a request for a block of `size` bytes, `bytes` more than there were, and asks the plan. On `Ok` those are charged.
    fn admit(&self, size: usize, bytes: u64, scope: Scope) -> Result<Charge<'_>, AllocError> {
        let admitted = self.plan.lock().admit(size as u64, bytes, scope, |limit| {
            charge(&self.live, bytes, limit)
        });
        match admitted {
            Some(number) => Ok(Charge {
                plan: &self.plan,
                number,
                live: Live {
                    live: &self.live,
                    bytes,
                },
            }),
            None => {
                self.ours.store(true, Relaxed);
                Err(AllocError)
            }
        }
    }

    /// Serves a request by `allocate` of the allocator behind, unless the plan refuses it.
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

    /// Returns the result of `inner`; the charge stays if that is a block.
    fn record_outcome(
        &self,
        answer: Result<NonNull<u8>, AllocError>,
        charge: Charge<'_>,
    ) -> Result<NonNull<u8>, AllocError> {
        match answer {
            Ok(_) => core::mem::forget(charge),
            Err(AllocError) => self.ours.store(false, Relaxed),
        }
        answer
    }
}

/// Bytes that are live until this is dropped, also if the allocator behind unwinds.
struct Live<'a> {
    live: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.live.fetch_sub(self.bytes, Relaxed);
    }
}

/// The charge of a request; dropped if the allocator behind does not serve it.
struct Charge<'a> {
    plan: &'a ForkSafeMutex<ArmedPlan>,
    number: PlanNumber,
    live: Live<'a>,
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.plan.lock().discharge(self.number, self.live.bytes);
    }
}

/// Adds `bytes` to `sum` unless that would exceed `limit`; false when it would. Checked and added in one step: a request that
/// is too large never makes another one fail that would have fitted.
fn charge(sum: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let fits = |now: u64| {
        now.checked_add(bytes)
            .filter(|after| bytes == 0 || *after <= limit)
    };
    sum.fetch_update(Relaxed, Relaxed, fits).is_ok()
}

// SAFETY: blocks come from `inner` and go back to it with the layout and scope they were given with; size 0, which `inner` never
// sees, is answered with a dangling pointer here. A refused resize has not touched the block.
unsafe impl<A: HostAllocator> HostAllocator for FailingAllocator<A> {
    /// A plan may name a context, and so may the next one.
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
            let _live = Live {
                live: &self.live,
                bytes: layout.size() as u64,
            };
            // SAFETY: the caller's promise; a block of a size above 0 came from `inner`.
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
            // SAFETY: the caller's promise. Shrinking to nothing frees, and freeing is never refused.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        let more = new.size().saturating_sub(old.size()) as u64;
        let charge = self.admit(new.size(), more, scope)?;
        // SAFETY: the caller's promise; a block of a size above 0 came from `inner`.
        let answer = unsafe { self.inner.resize(block, old, new, scope) };
        if answer.is_ok() {
            self.live
                .fetch_sub(old.size().saturating_sub(new.size()) as u64, Relaxed);
        }
        self.record_outcome(answer, charge)
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        if self.ours.load(Relaxed) {
            HostError::OutOfHostMemory {
                bytes: layout.size(),
                scope,
            }
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
