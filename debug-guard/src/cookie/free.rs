use core::ptr::{NonNull, with_exposed_provenance_mut};

use alloc_core::HostAllocator;

use super::Cookies;
use super::layout::{Stage, plan};
use super::memory::{Header, peek_freed, poison, write_sum};
use super::quarantine::Quarantine;
use super::record::{CookieRecord, Life, Listed};
use super::table::NONE;
use crate::block::{BlockMark, BlockState, Findings, FreeRequest, Freed, GuardFinding};
use crate::report_kind::ReportKind;

/// Larger objects are poisoned and verified without the lock.
const SHORT: usize = 4096;

impl Cookies {
    /// Frees the block if it is certain: a valid header that names the record of a live block. `found` also gets
    /// findings about other blocks, which leave quarantine now.
    ///
    /// # Safety
    /// The *free contract*: blocks come from `memory`; the block is no longer used; if the system [catches no
    /// reads](crate::os::CATCHES_READS), [`HEADER`](super::layout::HEADER) bytes can be read in front of `address`.
    #[inline]
    pub(crate) unsafe fn free<A: HostAllocator>(
        &self,
        memory: &A,
        address: usize,
        request: FreeRequest,
        found: &mut Findings<'_>,
    ) -> Option<Freed> {
        // SAFETY: the free contract.
        let header = unsafe { peek_freed(address) };
        let live = self.live(address, header);
        let is_sound = live.is_some();
        let Some((record, (words, sum))) = live.or_else(|| self.listed(address, header)) else {
            found(self.classify_bad_free(address, header));
            return None;
        };
        let size = words.size();
        let number = self.quarantine.number(words);
        let shard = self.quarantine.shard(number).lock();
        if !record.is(address, words) {
            // Another thread was faster.
            drop(shard);
            let known = words.known(address, BlockState::Freed, BlockMark::default());
            found(GuardFinding::new(ReportKind::DoubleFree, Some(known), address));
            return None;
        }
        let FreeRequest { layout, scope, .. } = request;
        if !words.is(layout.size(), layout.align(), scope) {
            let block = words.known(address, BlockState::Live, BlockMark::default());
            request.mismatches(block).for_each(&mut *found);
        }
        // A record may be damaged as well.
        let sum = if is_sound { sum } else { self.keys.sum(address, words, Stage::Live) };
        if !is_sound || !self.is_whole(address, words, sum) {
            let damage = self.mend(address, words, sum);
            damage.into_iter().flatten().for_each(&mut *found);
        }
        record.free(address, request.mark, request.moved_to.unwrap_or(0));
        if words.header_only() || !self.quarantine.takes(size) {
            drop(shard);
            // SAFETY: the block rule (`memory.rs`): this thread's alone; the free contract.
            unsafe { self.release(memory, record, None) };
        } else {
            // SAFETY: the block rule: not header-only, this thread's alone.
            unsafe { write_sum(address, self.keys.turned(sum, Stage::Freed)) };
            // SAFETY: the block rule: not header-only, this thread's alone.
            let poison = || unsafe { poison(address, size) };
            let mut shard = if size > SHORT {
                drop(shard);
                poison();
                self.quarantine.shard(number).lock()
            } else {
                poison();
                shard
            };
            record.wait(address);
            shard.push(&self.table, record, size);
            let is_new = self.quarantine.is_new(number, &mut shard);
            let limits = self.quarantine.limits(number);
            let mut oldest = shard.oldest(&self.table, limits);
            if let Some(left) = oldest.filter(|left| self.may_serve(left)) {
                // What was the spare leaves in its place.
                let former = core::mem::replace(&mut shard.spare, left.token());
                oldest = self.table.record(former).filter(|_| former != NONE);
            }
            drop(shard);
            if let Some(left) = oldest {
                // SAFETY: the block rule: out of quarantine, this thread's; the free contract.
                unsafe { self.release(memory, left, Some(&mut *found)) };
                // SAFETY: the free contract.
                unsafe { self.trim(memory, number, found) };
            }
            if is_new {
                for number in 0..self.quarantine.shards().count() {
                    // SAFETY: the free contract.
                    unsafe { self.trim(memory, number, found) };
                }
            }
        }
        Some(Freed { size, mode: words.mode() })
    }

    /// The block's shard is locked.
    #[inline(always)]
    fn may_serve(&self, left: &CookieRecord) -> bool {
        let (start, words, sum) = left.own();
        words.size() <= SHORT && words.is_plain() && self.is_poisoned(start, words, sum)
    }

    /// # Safety
    /// The free contract, for `memory`.
    unsafe fn trim<A: HostAllocator>(&self, memory: &A, number: usize, late: &mut Findings<'_>) {
        let limits = self.quarantine.limits(number);
        let oldest = || self.quarantine.shard(number).lock().oldest(&self.table, limits);
        while let Some(left) = oldest() {
            // SAFETY: the block rule: out of quarantine, this thread's; the free contract.
            unsafe { self.release(memory, left, Some(&mut *late)) };
        }
    }

    #[inline(always)]
    pub(super) fn live(&self, address: usize, header: Option<Header>) -> Option<(&CookieRecord, Header)> {
        let (words, sum) = header?;
        let record = self.table.record(words.token())?;
        (record.lives(address) && self.keys.sum(address, words, Stage::Live) == sum).then_some((record, (words, sum)))
    }

    /// A block that was in quarantine is verified for `late`.
    ///
    /// # Safety
    /// The block rule: this thread's alone; blocks come from `memory`.
    unsafe fn release<A: HostAllocator>(&self, memory: &A, record: &CookieRecord, late: Option<&mut Findings<'_>>) {
        let (start, words, sum) = record.own();
        let intact = late.is_none() || self.is_poisoned(start, words, sum);
        let finding = if intact { None } else { self.write_after_free(record) };
        record.end();
        // SAFETY: this function's contract.
        unsafe { write_sum(start, self.keys.turned(sum, Stage::Gone)) };
        let number = Quarantine::number_of_thread(words.thread());
        self.quarantine.shard(number).lock().keep(record);
        if let (Some(finding), Some(late)) = (finding, late) {
            late(finding);
        }
        // Last: an allocator that unwinds here leaves the record to the next block.
        let plan = plan(words.size(), words.align(), words.header_only());
        if let Some(plan) = plan
            && let Some(base) = NonNull::new(with_exposed_provenance_mut(start - plan.front))
        {
            // SAFETY: allocated with this layout and scope.
            unsafe { memory.deallocate(base, plan.whole, words.scope()) };
        }
    }

    /// Verifies and frees the quarantine. Live blocks stay valid, and unknown to every guard.
    ///
    /// # Safety
    /// Blocks come from `memory`. Afterwards this value is dropped: counts and lists are not reset.
    pub(crate) unsafe fn close(&mut self, memory: &dyn HostAllocator, late: &mut Findings<'_>) {
        for record in self.table.all() {
            let Some(listed) = record.read().filter(Listed::is_freed) else {
                continue;
            };
            let waits = listed.life == Life::Waiting;
            // SAFETY: the block rule: freed, and no other thread uses the cookies.
            unsafe { self.release(&memory, record, if waits { Some(&mut *late) } else { None }) };
        }
        // SAFETY: `&mut self`: there are no references; the records came from `memory`.
        unsafe { self.table.records.close(memory) };
    }
}
