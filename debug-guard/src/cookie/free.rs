//! Frees a block: verification, poison, quarantine, and release to the allocator behind.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use alloc_core::{HostAllocator, Scope};

use super::header_words::HeaderWords;
use super::keys::Stage;
use super::memory::{pad_holds, poison, tail_holds, write_sum};
use super::peek::{Header, peek_freed};
use super::plan::{HEADER, is_plain, plain, plan};
use super::quarantine::Claimed;
use super::record::{CookieRecord, Life, Listed};
use super::{Cookies, registry};
use crate::block::{BlockMark, BlockState, FreeRecord, Freed, GuardFinding};
use crate::mode::Mode;
use crate::report_kind::ReportKind;

/// Blocks that leave quarantine together are recycled by their thread if they are together no larger.
const RECYCLED_BYTES: usize = 4096;

impl Cookies {
    /// Frees the block at `address`, if it is certain. `late` receives findings about other blocks, which leave quarantine now; it may
    /// allocate and free.
    ///
    /// # Safety
    /// Blocks come from `memory`. The block is no longer used. If the system [catches no reads](crate::os::CATCHES_READS), [`HEADER`] bytes
    /// can be read in front of `address`.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "as the keeper of pages has it, and what a cookie needs beside"
    )]
    pub(crate) unsafe fn free<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        address: usize,
        layout: Layout,
        scope: Scope,
        mark: BlockMark,
        moved_to: Option<usize>,
        late: &mut dyn FnMut(GuardFinding),
    ) -> FreeRecord {
        // SAFETY: the caller's promise.
        let header = unsafe { peek_freed(address) };
        if let Some((record, words, sum)) = self.live(address, header)
            && words.is(layout.size(), layout.align(), scope)
            && self.is_whole(address, words, sum)
        {
            // SAFETY: the caller; a live block.
            let freed =
                unsafe { self.retire(memory, address, record, words, sum, mark, moved_to, late) };
            if freed.is_some() {
                return FreeRecord {
                    freed,
                    finding: None,
                };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.free_verified(memory, address, layout, scope, mark, moved_to, late) }
    }

    /// As [`free`](Self::free), if there is no finding and the thread's chunk has room: calls no allocator. Otherwise does nothing and
    /// returns false.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[inline(always)]
    pub(crate) unsafe fn free_fast(
        &self,
        address: usize,
        layout: Layout,
        scope: Scope,
        mark: BlockMark,
    ) -> bool {
        let Some((chunk, len)) = self
            .caches
            .own()
            .and_then(|cache| self.quarantine.room(cache))
        else {
            return false;
        };
        // SAFETY: the caller's promise.
        let header = unsafe { peek_freed(address) };
        let Some((record, words, sum)) = self.live(address, header) else {
            return false;
        };
        let size = layout.size();
        let plain = words.is_exactly(size, layout.align(), scope) && self.quarantine.stages(size);
        if !plain || !self.header_is_intact(address, words, sum) {
            return false;
        }
        // SAFETY: the caller; a live block that is not header-only.
        let waits = unsafe { self.poison_block(address, record, size, sum, mark, 0) };
        waits && chunk.push(len, record, size)
    }

    /// As [`free`](Self::free), if a check failed.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "those of `give`")]
    unsafe fn free_verified<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        address: usize,
        layout: Layout,
        scope: Scope,
        mark: BlockMark,
        moved_to: Option<usize>,
        late: &mut dyn FnMut(GuardFinding),
    ) -> FreeRecord {
        // SAFETY: the caller's promise.
        let header = unsafe { peek_freed(address) };
        match self.examine(address, header, layout, scope, late) {
            Ok((record, words, finding)) => {
                let sum = self.keys.sum(address, words, Stage::Live);
                // SAFETY: the caller; a live block.
                let freed = unsafe {
                    self.retire(memory, address, record, words, sum, mark, moved_to, late)
                };
                let twice = || {
                    GuardFinding::new(
                        ReportKind::DoubleFree,
                        Some(words.known(address, BlockState::Freed, BlockMark::default())),
                        address,
                    )
                };
                FreeRecord {
                    finding: if freed.is_some() {
                        finding
                    } else {
                        Some(twice())
                    },
                    freed,
                }
            }
            Err(finding) => FreeRecord {
                freed: None,
                finding: Some(finding),
            },
        }
    }

    /// Quarantines a live block, or releases it if it may not wait. `None` if another thread was faster.
    ///
    /// # Safety
    /// As [`free`](Self::free); the block is listed.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "those of `give`, and what the header said"
    )]
    unsafe fn retire<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        address: usize,
        record: &CookieRecord,
        words: HeaderWords,
        sum: u64,
        mark: BlockMark,
        moved_to: Option<usize>,
        late: &mut dyn FnMut(GuardFinding),
    ) -> Option<Freed> {
        let size = words.size();
        let staged = self.quarantine.stages(size);
        if words.header_only() || !(staged || self.quarantine.takes(size)) {
            if !record.free(address, mark, 0) {
                return None;
            }
            // SAFETY: the caller's promise.
            unsafe { self.release_unqueued(memory, record, words.header_only()) };
        } else {
            // SAFETY: the caller; a live block that is not header-only.
            if !unsafe {
                self.poison_block(address, record, size, sum, mark, moved_to.unwrap_or(0))
            } {
                return None;
            }
            let waits = staged
                && self
                    .caches
                    .run(|cache| self.quarantine.push(cache, record, size));
            if !waits {
                // SAFETY: the caller's promise.
                unsafe { self.make_room(memory, record, size, late) };
            }
        }
        Some(Freed {
            size,
            mode: if words.header_only() {
                Mode::Off
            } else {
                Mode::Cookie
            },
        })
    }

    /// Poisons a live block and marks it as waiting; false if another thread was faster.
    ///
    /// # Safety
    /// The live block at `address`, not header-only; it is no longer used.
    #[inline(always)]
    unsafe fn poison_block(
        &self,
        address: usize,
        record: &CookieRecord,
        size: usize,
        sum: u64,
        mark: BlockMark,
        moved: usize,
    ) -> bool {
        if !record.free(address, mark, moved) {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { write_sum(address, self.keys.turned(sum, Stage::Freed)) };
        // SAFETY: the caller's promise.
        unsafe { poison(address, size) };
        record.wait(address);
        true
    }

    /// The record of the live block at `address`, its header's words and sum. `header` was read there.
    #[inline(always)]
    pub(super) fn live(
        &self,
        address: usize,
        header: Option<Header>,
    ) -> Option<(&CookieRecord, HeaderWords, u64)> {
        let (words, sum) = header?;
        let record = self.table.record(words.token())?;
        (record.lives(address) && self.keys.sum(address, words, Stage::Live) == sum)
            .then_some((record, words, sum))
    }

    /// True if tail and pad of a live block are as they were written.
    #[inline(always)]
    pub(super) fn is_whole(&self, start: usize, words: HeaderWords, sum: u64) -> bool {
        words.header_only() || self.header_is_intact(start, words, sum)
    }

    /// As [`is_whole`](Self::is_whole), for a block that is not header-only.
    #[inline(always)]
    fn header_is_intact(&self, start: usize, words: HeaderWords, sum: u64) -> bool {
        // SAFETY: a block of ours, not header-only.
        let tail = unsafe { tail_holds(start, words.size(), sum) };
        // SAFETY: as above; `front` as in its plan.
        tail && (words.align() <= HEADER || unsafe { pad_holds(&self.keys, start, words.align()) })
    }

    /// Frees a block that does not wait. It is not listed any more.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[inline]
    unsafe fn release_unqueued<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        record: &CookieRecord,
        header_only: bool,
    ) {
        if !header_only {
            // Waits for a check that may read the block.
            drop(self.quarantine.hold());
        }
        // SAFETY: a block of ours, this thread's alone.
        unsafe { self.release_block(memory, record) };
    }

    /// Returns a block to the allocator behind.
    ///
    /// # Safety
    /// A block of ours that this thread alone has.
    #[inline]
    pub(super) unsafe fn release_block<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        record: &CookieRecord,
    ) {
        let (start, words, sum) = record.own();
        record.end();
        // SAFETY: the caller's promise.
        unsafe { write_sum(start, self.keys.turned(sum, Stage::Gone)) };
        match self.caches.own() {
            Some(cache) => cache.keep(record, &self.table),
            None => self.caches.with(|cache| cache.keep(record, &self.table)),
        }
        let plan = if is_plain(words.align(), words.header_only()) {
            plain(words.size())
        } else {
            plan(words.size(), words.align(), words.header_only())
        };
        let Some(plan) = plan else { return };
        let Some(base) = NonNull::new(with_exposed_provenance_mut(start.wrapping_sub(plan.front)))
        else {
            return;
        };
        // SAFETY: taken with this layout and scope.
        unsafe { memory.deallocate(base, plan.whole, words.scope()) };
    }

    /// Quarantines a block after others left.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[cold]
    #[inline(never)]
    unsafe fn make_room<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        record: &CookieRecord,
        size: usize,
        late: &mut dyn FnMut(GuardFinding),
    ) {
        // Recycled blocks that no request used.
        while let Some(left) = self
            .caches
            .own()
            .and_then(|cache| cache.recycled.pop(&self.table))
        {
            // SAFETY: verified when it left; this thread's.
            unsafe { self.release_block(memory, left) };
        }
        let mut claimed = Claimed::default();
        let large = !self.quarantine.stages(size);
        let mut waits = large
            && self
                .caches
                .run(|cache| self.quarantine.push(cache, record, size));
        while !waits {
            let turned = self.caches.run(|cache| {
                let turned = self.quarantine.rotate(cache, &self.table, &mut claimed);
                waits = turned && self.quarantine.push(cache, record, size);
                turned
            });
            if !turned {
                // There are no chunks: it cannot wait.
                let held = self.quarantine.hold();
                record.claim();
                drop(held);
                // SAFETY: a block of ours, claimed just now.
                return unsafe { self.release_block(memory, record) };
            }
            // SAFETY: the caller's promise.
            unsafe { self.release(memory, &claimed, late) };
        }
        // A large block is queued at once.
        if large
            && self
                .caches
                .run(|cache| self.quarantine.rotate(cache, &self.table, &mut claimed))
        {
            // SAFETY: the caller's promise.
            unsafe { self.release(memory, &claimed, late) };
        }
        if self.quarantine.is_due() {
            self.caches.collect(&self.quarantine);
        }
        while self.quarantine.relieve(&self.table, &mut claimed) {
            // SAFETY: the caller's promise.
            unsafe { self.release(memory, &claimed, late) };
        }
    }

    /// Verifies blocks that left quarantine. Small ones are recycled by the cache, the others released.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[inline(always)]
    unsafe fn release<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        claimed: &Claimed<'_>,
        late: &mut dyn FnMut(GuardFinding),
    ) {
        let cache = self
            .caches
            .own()
            .filter(|_| claimed.bytes <= RECYCLED_BYTES);
        for record in claimed.blocks() {
            let (start, words, sum) = record.own();
            let stays = self.is_poisoned(start, words, sum)
                && cache.is_some_and(|cache| cache.recycled.push(record));
            if !stays {
                // SAFETY: it was in quarantine, and was claimed.
                unsafe { self.release_one(memory, record, late) };
            }
        }
    }

    /// Reports a write after free to a block that left quarantine, and frees it.
    ///
    /// # Safety
    /// As [`free`](Self::free); the block was claimed.
    #[inline(never)]
    unsafe fn release_one<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        record: &CookieRecord,
        late: &mut dyn FnMut(GuardFinding),
    ) {
        let (start, words, sum) = record.own();
        if !self.is_poisoned(start, words, sum)
            && let Some(finding) = self.write_after_free(record)
        {
            late(finding);
        }
        // SAFETY: the caller's promise.
        unsafe { self.release_block(memory, record) };
    }

    /// Verifies and frees the quarantine and all own memory. Live blocks stay valid, and unknown to every guard.
    ///
    /// # Safety
    /// Blocks come from `memory`. Afterwards this value is dropped and not used: counts and queues are not reset.
    pub(crate) unsafe fn close<A: HostAllocator + ?Sized>(
        &mut self,
        memory: &A,
        late: &mut dyn FnMut(GuardFinding),
    ) {
        for record in self.table.all() {
            let Some(listed) = record.read().filter(Listed::is_freed) else {
                continue;
            };
            if listed.life == Life::Waiting
                && !self.is_poisoned(listed.start, listed.words, listed.sum)
                && let Some(finding) = self.write_after_free(record)
            {
                late(finding);
            }
            // SAFETY: freed, and no other thread uses the cookies.
            unsafe { self.release_block(memory, record) };
        }
        registry::leave(self.slot);
        // SAFETY: the caller; borrowed for this call alone, so there are no references.
        unsafe { self.quarantine.close(memory) };
        // SAFETY: as above; the slot has been left.
        unsafe { self.caches.close(memory) };
        // SAFETY: as above.
        unsafe { self.table.close(memory) };
    }
}
