//! Free and reallocation.
//!
//! ```text
//!   the address lies in -> Slots | Cookies | neither: a block of the allocator behind, where blocks pass untouched
//! ```
//! Slots and cookies return findings, with no lock held; they are reported here. A block is freed only if it is certain which one it is.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{AllocError, HostAllocator, Scope};

use super::reporter::Operation;
use super::reporter::{DeferredReports, RollbackGuard};
use super::state::GuardState;
use super::stats::Count;
use crate::block::{BlockRequest, FreeRequest, Freed};
use crate::call_sites::RequesterInfo;
use crate::mode::Mode;
use crate::report::DetectedAt;

/// Fills the bytes that a block gains when it grows.
const GROWN: u8 = 0xFD;

impl GuardState {
    /// Frees a block.
    ///
    /// # Safety
    /// Where blocks pass, the contract of [`HostAllocator::deallocate`]. Elsewhere the guard checks it. If the system does not
    /// [catch reads](crate::os::CATCHES_READS), the bytes in front of `block` must be readable, as they are for every live block.
    pub(super) unsafe fn free<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        layout: Layout,
        scope: Scope,
    ) {
        if self.cookies.is_none() && self.slots_at(block.as_ptr().addr()).is_none() {
            // SAFETY: the caller's promise.
            unsafe { memory.deallocate(block, layout, scope) };
            return self.tally.add(Count::OffFreed, layout.size());
        }
        self.with_requester(scope, |requester| {
            // SAFETY: the caller's promise.
            unsafe { self.free_for(memory, block, layout, requester, DetectedAt::Free, None) };
        });
    }

    /// # Safety
    /// As [`free`](Self::free).
    #[inline(always)]
    unsafe fn free_for<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        layout: Layout,
        requester: &RequesterInfo<'_>,
        detected_at: DetectedAt,
        moved_to: Option<usize>,
    ) {
        let mark = self.mark_of_free(requester);
        let request = FreeRequest {
            layout,
            scope: requester.scope,
            mark,
            moved_to,
        };
        let mut later = DeferredReports::new();
        // SAFETY: the caller's promise.
        unsafe { self.free_unreported(memory, block, request, &mut later) };
        if !later.is_empty() {
            later.report_all(&Operation::of_free(
                self,
                detected_at,
                requester,
                mark,
                layout,
            ));
        }
    }

    /// Frees a block. Findings are added to `later`, to be reported when the free is complete.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    pub(super) unsafe fn free_unreported<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        request: FreeRequest,
        later: &mut DeferredReports,
    ) {
        let address = block.as_ptr().expose_provenance();
        let slots = self.slots_at(address);
        let found = &mut |finding| later.note(finding);
        let freed = match (slots, &self.cookies) {
            (Some(slots), _) => slots.free(address, request, found),
            // SAFETY: all of this guard's cookies are over `memory`; the rest is the caller's promise.
            (None, Some(cookies)) => unsafe { cookies.free(memory, address, request, found) },
            (None, None) => None,
        };
        let Some(Freed { size, mode }) = freed else {
            return;
        };
        let count = match (slots, mode) {
            (Some(_), _) => Count::FencedFreed,
            (None, Mode::Off) => Count::OffFreed,
            (None, _) => Count::CookieFreed,
        };
        self.tally.add(count, size);
        if mode == Mode::Sampled {
            self.counters.sampled.fetch_sub(1, Relaxed);
        }
    }

    /// Allocates, copies and frees, so that a stale pointer to the old place points to a freed block.
    ///
    /// # Safety
    /// As [`free`](Self::free); where blocks pass, the contract of [`HostAllocator::resize`].
    pub(super) unsafe fn resize<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let address = block.as_ptr().expose_provenance();
        if self.cookies.is_none() && self.slots_at(address).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { self.pass_resized(memory, block, old, new, scope) };
        }
        self.with_requester(scope, |requester| {
            // SAFETY: the caller's promise.
            let known = match unsafe { self.known_freed(address) }.ok_or(AllocError)? {
                Ok(known) => known,
                Err(finding) => {
                    Operation::of_free(
                        self,
                        DetectedAt::Reallocation,
                        requester,
                        self.mark_of_free(requester),
                        old,
                    )
                    .report(finding);
                    return Err(AllocError);
                }
            };
            let request = BlockRequest {
                layout: new,
                scope,
                zeroed: false,
            };
            let is_sampled = self.is_sampled(new.size());
            let moved = self.allocate_for(memory, request, is_sampled, requester)?;
            let kept = known.size.min(new.size());
            // SAFETY: both are live blocks of ours with at least `kept` bytes, hence disjoint.
            unsafe { moved.copy_from_nonoverlapping(block, kept) };
            // SAFETY: `kept` is at most the new block's size.
            let tail = unsafe { moved.add(kept) };
            // SAFETY: what is left of the new block.
            unsafe { tail.write_bytes(GROWN, new.size().saturating_sub(kept)) };
            let to = moved.as_ptr().expose_provenance();
            let rollback = RollbackGuard {
                core: self,
                memory,
                block: moved,
                layout: new,
                scope,
            };
            // SAFETY: the caller's promise.
            unsafe {
                self.free_for(
                    memory,
                    block,
                    old,
                    requester,
                    DetectedAt::Reallocation,
                    Some(to),
                )
            };
            core::mem::forget(rollback);
            Ok(moved)
        })
    }

    /// # Safety
    /// As [`HostAllocator::resize`].
    unsafe fn pass_resized<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller's promise.
        let moved = unsafe { memory.resize(block, old, new, scope) }?;
        self.tally.add(Count::OffFreed, old.size());
        self.tally.add(Count::OffAllocated, new.size());
        Ok(moved)
    }
}
