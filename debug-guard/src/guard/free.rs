//! ```text
//!   the address lies in -> Slots | Cookies | neither: a block of the allocator behind, where blocks pass untouched
//! ```
//! Slots and cookies return findings, reported here with no lock held.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{AllocError, HostAllocator, Scope};

use super::reporter::{DeferredReports, Operation, RollbackGuard};
use super::state::GuardState;
use super::stats::Count;
use crate::block::{BlockRequest, FreeRequest, Freed};
use crate::call_sites::RequesterInfo;
use crate::mode::Mode;
use crate::report::DetectedAt;

const GROWN: u8 = 0xFD;

impl GuardState {
    /// # Safety
    /// The *free contract*: where blocks pass, that of [`HostAllocator::deallocate`] or [`HostAllocator::resize`];
    /// elsewhere the guard checks it. All of this guard's blocks come from `memory`. If the system does not [catch
    /// reads](crate::os::CATCHES_READS), the bytes in front of `block` can be read, as they can for every live block.
    pub(super) unsafe fn free<M: HostAllocator>(&self, memory: &M, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if self.cookies.is_none() && self.slots_at(block.as_ptr().addr()).is_none() {
            // SAFETY: the free contract: blocks pass.
            unsafe { memory.deallocate(block, layout, scope) };
            return self.tally.add(Count::OffFreed, layout.size());
        }
        self.with_requester(scope, |requester| {
            // SAFETY: the free contract.
            unsafe { self.free_for(memory, block, layout, requester, DetectedAt::Free, None) };
        });
    }

    /// # Safety
    /// The free contract of [`free`](Self::free).
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
        let request = FreeRequest { layout, scope: requester.scope, mark, moved_to };
        let mut later = DeferredReports::new();
        // SAFETY: the free contract.
        unsafe { self.free_unreported(memory, block, request, &mut later) };
        if !later.is_empty() {
            later.report_all(&Operation::of_free(self, detected_at, requester, mark, layout));
        }
    }

    /// The findings are reported when the free is complete.
    ///
    /// # Safety
    /// The free contract of [`free`](Self::free).
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
            // SAFETY: the free contract, that of `Cookies::free` as well.
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

    /// Always moves the block: a stale pointer to the old place points to a freed one.
    ///
    /// # Safety
    /// The free contract of [`free`](Self::free).
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
            // SAFETY: the free contract: blocks pass.
            let moved = unsafe { memory.resize(block, old, new, scope) }?;
            self.tally.add(Count::OffFreed, old.size());
            self.tally.add(Count::OffAllocated, new.size());
            return Ok(moved);
        }
        self.with_requester(scope, |requester| {
            // SAFETY: the free contract.
            let known = match unsafe { self.known_freed(address) }.ok_or(AllocError)? {
                Ok(known) => known,
                Err(finding) => {
                    Operation::of_free(self, DetectedAt::Reallocation, requester, self.mark_of_free(requester), old)
                        .report(finding);
                    return Err(AllocError);
                }
            };
            let request = BlockRequest { layout: new, scope, zeroed: false };
            let is_sampled = self.is_sampled(new.size());
            let moved = self.allocate_for(memory, request, is_sampled, requester)?;
            let kept = known.size.min(new.size());
            // SAFETY: two live blocks, hence disjoint, of at least `kept` bytes.
            unsafe { moved.copy_from_nonoverlapping(block, kept) };
            // SAFETY: `kept` is at most the new block's size.
            let tail = unsafe { moved.add(kept) };
            // SAFETY: the rest of the new block.
            unsafe { tail.write_bytes(GROWN, new.size().saturating_sub(kept)) };
            let to = moved.as_ptr().expose_provenance();
            let rollback = RollbackGuard { core: self, memory, block: moved, layout: new, scope };
            // SAFETY: the free contract.
            unsafe { self.free_for(memory, block, old, requester, DetectedAt::Reallocation, Some(to)) };
            core::mem::forget(rollback);
            Ok(moved)
        })
    }
}
