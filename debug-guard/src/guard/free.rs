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

use super::deferred_reports::{DeferredReports, RollbackGuard, Subject};
use super::reporter::Operation;
use super::serial;
use super::state::{GuardState, Shortcut};
use super::tally::Count;
use crate::block::{BlockMark, Freed, GuardFinding};
use crate::call_sites::RequesterInfo;
use crate::mode::{Mode, Stacks};
use crate::report::DetectedAt;

/// Fills the bytes that a block gains when it grows.
const GROWN: u8 = 0xFD;

impl GuardState {
    /// Frees a block.
    ///
    /// # Safety
    /// Where blocks pass, the contract of [`HostAllocator::deallocate`]. Elsewhere the guard checks it. If the system does not
    /// [catch reads](crate::os::CATCHES_READS), the bytes in front of `block` must be readable, as they are for every live block.
    #[inline]
    pub(super) unsafe fn free<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        layout: Layout,
        scope: Scope,
    ) {
        // Most blocks of these guards pass, and their requester need not be known.
        if self.shortcut == Shortcut::Passing
            || self.shortcut == Shortcut::Sampling && self.slots_at(block.as_ptr().addr()).is_none()
        {
            // SAFETY: the caller's promise.
            return unsafe { self.pass_back(memory, block, layout, scope) };
        }
        if self.shortcut == Shortcut::PlainCookies
            // SAFETY: the caller's promise.
            && unsafe { self.free_fast(block, layout, scope) }
        {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.free_guarded(memory, block, layout, scope) };
    }

    /// As [`free`](Self::free), if the block only enters quarantine; false if nothing was done.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[inline(never)]
    unsafe fn free_fast(&self, block: NonNull<u8>, layout: Layout, scope: Scope) -> bool {
        let Some(cookies) = &self.cookies else {
            return false;
        };
        let Some(site) = self.anonymous_site(Stacks::Off, scope) else {
            return false;
        };
        let mark = BlockMark::at_site(site, serial::reached());
        // SAFETY: the caller's promise.
        let freed =
            unsafe { cookies.free_fast(block.as_ptr().expose_provenance(), layout, scope, mark) };
        if freed {
            self.tally.add(Count::CookieFreed, layout.size());
        }
        freed
    }

    /// As [`free`](Self::free), for a block that did not pass. Not inlined, so that the shortcuts stay small.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[inline(never)]
    unsafe fn free_guarded<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        layout: Layout,
        scope: Scope,
    ) {
        if let Some(site) = self.anonymous_site(self.options.stacks, scope) {
            let mark = BlockMark::at_site(site, serial::reached());
            // By value: a mark behind a pointer would be written to memory and read back at once in larger pieces, which stalls.
            let report = move |finding| {
                self.with_requester(scope, |requester| {
                    Operation::of_free(self, DetectedAt::Free, requester, mark, layout)
                        .report(finding)
                })
            };
            // SAFETY: the caller's promise.
            return unsafe { self.free_as(memory, block, (layout, scope), mark, None, report) };
        }
        self.with_requester(scope, |requester| {
            // SAFETY: the caller's promise.
            unsafe { self.free_for(memory, block, layout, requester, DetectedAt::Free, None) };
        });
    }

    /// # Safety
    /// As [`free`](Self::free).
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
        // SAFETY: the caller's promise.
        unsafe {
            self.free_as(
                memory,
                block,
                (layout, requester.scope),
                mark,
                moved_to,
                |finding| {
                    Operation::of_free(self, detected_at, requester, mark, layout).report(finding);
                },
            );
        }
    }

    /// `report` receives the findings about the block.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[inline(always)]
    unsafe fn free_as<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        (layout, scope): (Layout, Scope),
        mark: BlockMark,
        moved_to: Option<usize>,
        report: impl Fn(GuardFinding),
    ) {
        let mut later = DeferredReports::new();
        // SAFETY: the caller's promise.
        unsafe { self.free_unreported(memory, block, (layout, scope), mark, moved_to, &mut later) };
        if !later.is_empty() {
            later.report_all(self, |finding, whose| match whose {
                Subject::Own => report(finding),
                Subject::Other => Operation::of_others(self).report(finding),
            });
        }
    }

    /// As [`free_as`](Self::free_as). Findings are added to `later`, to be reported when the free is complete.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[inline(always)]
    pub(super) unsafe fn free_unreported<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        (layout, scope): (Layout, Scope),
        mark: BlockMark,
        moved_to: Option<usize>,
        later: &mut DeferredReports,
    ) {
        let address = block.as_ptr().expose_provenance();
        let slots = self.slots_at(address);
        // Only profiles need the allocation.
        // SAFETY: the caller's promise.
        let known = || unsafe { self.known_freed(address) };
        let allocated = if self.options.profile {
            known().and_then(Result::ok).map(|known| known.allocated)
        } else {
            None
        };
        let freed = match (slots, &self.cookies) {
            (Some(slots), _) => {
                slots.free(address, layout, scope, mark, moved_to, &mut |finding| {
                    later.note(finding, Subject::Own)
                })
            }
            (None, Some(cookies)) => {
                let late = &mut |finding| later.note(finding, Subject::Other);
                // SAFETY: all of this guard's cookies are over `memory`; the rest is the caller's promise.
                let outcome =
                    unsafe { cookies.free(memory, address, layout, scope, mark, moved_to, late) };
                if let Some(finding) = outcome.finding {
                    later.note(finding, Subject::Own);
                }
                outcome.freed
            }
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
        if let (Some(sites), Some(allocated)) = (&self.sites, allocated) {
            sites.freed(allocated.site, size, allocated.serial, mark.serial);
        }
    }

    /// # Safety
    /// As [`HostAllocator::deallocate`].
    #[inline]
    unsafe fn pass_back<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        layout: Layout,
        scope: Scope,
    ) {
        // SAFETY: the caller's promise.
        unsafe { memory.deallocate(block, layout, scope) };
        self.tally.add(Count::OffFreed, layout.size());
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
            let moved = self.allocate_for(memory, new, false, requester)?;
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
