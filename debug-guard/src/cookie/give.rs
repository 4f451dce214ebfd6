//! Giving a block back.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use alloc_core::{HostAllocator, Scope};

use super::keys::Stage;
use super::memory::{
    header_changes, pad_changes, pad_holds, poison, poison_changes, poison_holds, read_header, tail_holds, write_sum,
};
use super::plan::{HEADER, is_plain, plain, plan};
use super::quarantine::Claimed;
use super::record::{Life, Listed, Record};
use super::words::Words;
use super::{Cookies, registry};
use crate::Mode;
use crate::block::{Fault, Freed, Given, Known, Mark, State};
use crate::os;
use crate::report::ReportKind;

/// No system has smaller pages.
const LEAST_PAGE: usize = 4096;

/// Blocks that leave quarantine together and are together no larger stay with their thread for its next requests.
const KEPT: usize = 4096;

impl Cookies {
    /// Frees the block at `address`, if it is one that may be freed like this. `layout` and `scope` are what it is said to be of, where
    /// the caller knows. `late` hears of other blocks: what those that leave quarantine now show; it may allocate and free.
    ///
    /// # Safety
    /// `memory` is what blocks are taken from. Nobody uses the block any more.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "as the keeper of pages has it, and what a cookie needs beside")]
    pub(crate) unsafe fn give<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        address: usize,
        layout: Option<Layout>,
        scope: Option<Scope>,
        mark: Mark,
        moved_to: Option<usize>,
        late: &mut dyn FnMut(Fault),
    ) -> Given {
        if let Some((record, words, sum)) = self.live(address)
            && agrees(words, layout, scope)
            && self.is_whole(address, words, sum)
        {
            // SAFETY: the caller; a live block.
            let freed = unsafe { self.retire(memory, address, record, words, sum, mark, moved_to, late) };
            if freed.is_some() {
                return Given { freed, fault: None };
            }
        }
        // SAFETY: the caller.
        unsafe { self.give_in_doubt(memory, address, layout, scope, mark, moved_to, late) }
    }

    /// As [`give`](Self::give) where nothing is wrong and the thread's chunk has room: nobody is called and nothing is told. Answers false,
    /// having done nothing, for all that is not so.
    ///
    /// # Safety
    /// Nobody uses the block any more.
    #[inline(always)]
    pub(crate) unsafe fn give_plainly(&self, address: usize, layout: Layout, scope: Scope, mark: Mark) -> bool {
        let Some((chunk, len)) = self.lanes.own().and_then(|lane| self.quarantine.room(lane)) else { return false };
        let Some((record, words, sum)) = self.live(address) else { return false };
        let size = layout.size();
        let plain = words.is_exactly(size, layout.align(), scope) && self.quarantine.stages(size);
        if !plain || !self.stands(address, words, sum) {
            return false;
        }
        // SAFETY: the caller; a live block that is not a light one.
        let waits = unsafe { self.lay_to_rest(address, record, size, sum, mark, 0) };
        waits && chunk.push(len, record, size)
    }

    /// As [`give`](Self::give), where something is wrong.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "those of `give`")]
    unsafe fn give_in_doubt<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        address: usize,
        layout: Option<Layout>,
        scope: Option<Scope>,
        mark: Mark,
        moved_to: Option<usize>,
        late: &mut dyn FnMut(Fault),
    ) -> Given {
        match self.judge(address, layout, scope, late) {
            Ok((record, words, fault)) => {
                let sum = self.keys.sum(address, words, Stage::Live);
                // SAFETY: the caller; a live block.
                let freed = unsafe { self.retire(memory, address, record, words, sum, mark, moved_to, late) };
                let twice = || bad(ReportKind::DoubleFree, Some(words.known(address, State::Freed, Mark::default())), address);
                Given { fault: if freed.is_some() { fault } else { Some(twice()) }, freed }
            }
            Err(fault) => Given { freed: None, fault: Some(fault) },
        }
    }

    /// Puts a live block into quarantine if it may wait, or gives it back. `None` where another thread was faster.
    ///
    /// # Safety
    /// As [`give`](Self::give); the block is listed.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "those of `give`, and what the header said")]
    unsafe fn retire<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        address: usize,
        record: &Record,
        words: Words,
        sum: u64,
        mark: Mark,
        moved_to: Option<usize>,
        late: &mut dyn FnMut(Fault),
    ) -> Option<Freed> {
        let size = words.size();
        let staged = self.quarantine.stages(size);
        if words.light() || !(staged || self.quarantine.takes(size)) {
            if !record.free(address, mark, 0) {
                return None;
            }
            // SAFETY: the caller.
            unsafe { self.let_go_at_once(memory, record, words.light()) };
        } else {
            // SAFETY: the caller; a live block that is not a light one.
            if !unsafe { self.lay_to_rest(address, record, size, sum, mark, moved_to.unwrap_or(0)) } {
                return None;
            }
            let waits = staged && self.lanes.run(|lane| self.quarantine.push(lane, record, size));
            if !waits {
                // SAFETY: the caller.
                unsafe { self.make_room(memory, record, size, late) };
            }
        }
        Some(Freed { size, mode: if words.light() { Mode::Off } else { Mode::Cookie } })
    }

    /// Poisons a live block that is freed now, and may wait then; false where another thread was faster.
    ///
    /// # Safety
    /// The live block at `address`, not a light one; nobody uses it any more.
    #[inline(always)]
    unsafe fn lay_to_rest(&self, address: usize, record: &Record, size: usize, sum: u64, mark: Mark, moved: usize) -> bool {
        if !record.free(address, mark, moved) {
            return false;
        }
        // SAFETY: the caller.
        unsafe { write_sum(address, self.keys.turned(sum, Stage::Freed)) };
        // SAFETY: the caller.
        unsafe { poison(address, size) };
        record.wait(address);
        true
    }

    /// The record of the live block at `address`, what its header says, and its sum. Reads nothing that cannot be read.
    #[inline(always)]
    pub(super) fn live(&self, address: usize) -> Option<(&Record, Words, u64)> {
        let (words, sum) = peek(address)?;
        let record = self.table.record(words.token())?;
        (record.lives(address) && self.keys.sum(address, words, Stage::Live) == sum).then_some((record, words, sum))
    }

    /// True where what stands around a live block is as it was written, but for the header.
    #[inline(always)]
    pub(super) fn is_whole(&self, start: usize, words: Words, sum: u64) -> bool {
        words.light() || self.stands(start, words, sum)
    }

    /// As [`is_whole`](Self::is_whole), for a block that is not light.
    #[inline(always)]
    fn stands(&self, start: usize, words: Words, sum: u64) -> bool {
        // SAFETY: a block of ours, not a light one.
        let tail = unsafe { tail_holds(start, words.size(), sum) };
        // SAFETY: as above; `front` as in its plan.
        tail && (words.align() <= HEADER || unsafe { pad_holds(&self.keys, start, words.align()) })
    }

    /// Frees a block, off the list by now, that does not wait.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[inline]
    unsafe fn let_go_at_once<A: HostAllocator + ?Sized>(&self, memory: &A, record: &Record, light: bool) {
        if !light {
            // Who looks for damage may be looking at it: waits for that.
            drop(self.quarantine.hold());
        }
        // SAFETY: a block of ours, this thread's alone.
        unsafe { self.let_go(memory, record) };
    }

    /// Gives the allocator behind its block back.
    ///
    /// # Safety
    /// A block of ours that this thread alone has.
    #[inline]
    pub(super) unsafe fn let_go<A: HostAllocator + ?Sized>(&self, memory: &A, record: &Record) {
        let (start, words, sum) = record.own();
        record.end();
        // SAFETY: the caller.
        unsafe { write_sum(start, self.keys.turned(sum, Stage::Gone)) };
        match self.lanes.own() {
            Some(lane) => lane.push(record, &self.table),
            None => self.lanes.with(|lane| lane.push(record, &self.table)),
        }
        let plan = if is_plain(words.align(), words.light()) {
            plain(words.size())
        } else {
            plan(words.size(), words.align(), words.light())
        };
        let Some(plan) = plan else { return };
        let Some(base) = NonNull::new(with_exposed_provenance_mut(start.wrapping_sub(plan.front))) else { return };
        // SAFETY: taken with this layout and scope.
        unsafe { memory.deallocate(base, plan.whole, words.scope()) };
    }

    /// Puts a block that waits into quarantine after others had to leave.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[cold]
    #[inline(never)]
    unsafe fn make_room<A: HostAllocator + ?Sized>(&self, memory: &A, record: &Record, size: usize, late: &mut dyn FnMut(Fault)) {
        // What left before and nobody asked for.
        while let Some(left) = self.lanes.own().and_then(|lane| lane.pop_left(&self.table)) {
            // SAFETY: verified when it left; this thread's.
            unsafe { self.let_go(memory, left) };
        }
        let mut claimed = Claimed::default();
        let large = !self.quarantine.stages(size);
        let mut waits = large && self.lanes.run(|lane| self.quarantine.push(lane, record, size));
        while !waits {
            let turned = self.lanes.run(|lane| {
                let turned = self.quarantine.rotate(lane, &self.table, &mut claimed);
                waits = turned && self.quarantine.push(lane, record, size);
                turned
            });
            if !turned {
                // There are no chunks: it cannot wait.
                let held = self.quarantine.hold();
                record.claim();
                drop(held);
                // SAFETY: a block of ours, claimed just now.
                return unsafe { self.let_go(memory, record) };
            }
            // SAFETY: the caller.
            unsafe { self.release(memory, &claimed, late) };
        }
        // A large one goes on to the queue at once.
        if large && self.lanes.run(|lane| self.quarantine.rotate(lane, &self.table, &mut claimed)) {
            // SAFETY: the caller.
            unsafe { self.release(memory, &claimed, late) };
        }
        if self.quarantine.is_due() {
            self.lanes.collect(&self.quarantine);
        }
        while self.quarantine.relieve(&self.table, &mut claimed) {
            // SAFETY: the caller.
            unsafe { self.release(memory, &claimed, late) };
        }
    }

    /// Verifies blocks that left quarantine. Small ones stay with the lane for the next requests like theirs, the others are given back.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[inline(always)]
    unsafe fn release<A: HostAllocator + ?Sized>(&self, memory: &A, claimed: &Claimed<'_>, late: &mut dyn FnMut(Fault)) {
        let lane = self.lanes.own().filter(|_| claimed.bytes <= KEPT);
        for record in claimed.blocks() {
            let (start, words, sum) = record.own();
            let stays = self.rests(start, words, sum) && lane.is_some_and(|lane| lane.push_left(record));
            if !stays {
                // SAFETY: it was in quarantine, and was claimed.
                unsafe { self.release_one(memory, record, late) };
            }
        }
    }

    /// Tells what was done to a block that left quarantine, and gives it back.
    ///
    /// # Safety
    /// As [`give`](Self::give); the block was claimed.
    #[inline(never)]
    unsafe fn release_one<A: HostAllocator + ?Sized>(&self, memory: &A, record: &Record, late: &mut dyn FnMut(Fault)) {
        let (start, words, sum) = record.own();
        if !self.rests(start, words, sum)
            && let Some(fault) = self.unrest(record)
        {
            late(fault);
        }
        // SAFETY: the caller.
        unsafe { self.let_go(memory, record) };
    }

    /// True where a freed block, and what stands around it, is as its free left it.
    #[inline(always)]
    pub(super) fn rests(&self, start: usize, words: Words, sum: u64) -> bool {
        // SAFETY: blocks in quarantine are ours.
        let (found, freed) = unsafe { read_header(start) };
        found.same(words)
            && freed == self.keys.turned(sum, Stage::Freed)
            // SAFETY: as above.
            && unsafe { poison_holds(start, words.size(), sum) }
            // SAFETY: as above; `front` as in its plan.
            && (words.align() <= HEADER || unsafe { pad_holds(&self.keys, start, words.align()) })
    }

    /// What was done to a freed block.
    #[cold]
    #[inline(never)]
    pub(super) fn unrest(&self, record: &Record) -> Option<Fault> {
        let listed = record.read()?;
        let (start, words) = (listed.start, listed.words);
        // SAFETY: as in `rests`.
        let object = unsafe { poison_changes(start, words.size(), listed.sum) };
        // SAFETY: as above.
        let header = || unsafe { header_changes(&self.keys, start, words, Stage::Freed) };
        // SAFETY: as above.
        let pad = || unsafe { pad_changes(&self.keys, start, words.align().max(HEADER)) };
        let changed = object.or_else(header).or_else(pad)?;
        let block = Some(listed.known());
        Some(Fault { kind: ReportKind::UseAfterFree, block, address: changed.first, changed: Some(changed), owner: None })
    }

    /// Verifies and frees what waits and gives everything back. Live blocks stay valid, and strange to everybody.
    ///
    /// # Safety
    /// `memory` is what blocks were taken from.
    pub(crate) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A, late: &mut dyn FnMut(Fault)) {
        for record in self.table.all() {
            let Some(listed) = record.read().filter(Listed::is_freed) else { continue };
            if listed.life == Life::Waiting
                && !self.rests(listed.start, listed.words, listed.sum)
                && let Some(fault) = self.unrest(record)
            {
                late(fault);
            }
            // SAFETY: freed, and nobody else is here.
            unsafe { self.let_go(memory, record) };
        }
        registry::leave(self.seat);
        // SAFETY: the caller; borrowed for this call alone, so nobody refers to anything.
        unsafe { self.quarantine.close(memory) };
        // SAFETY: as above; the seat has been left.
        unsafe { self.lanes.close(memory) };
        // SAFETY: as above.
        unsafe { self.table.close(memory) };
    }
}

/// True where the block is said to be what it is.
#[inline(always)]
pub(super) fn agrees(words: Words, layout: Option<Layout>, scope: Option<Scope>) -> bool {
    if let (Some(layout), Some(scope)) = (layout, scope) {
        return words.is(layout.size(), layout.align(), scope);
    }
    layout.is_none_or(|layout| layout.size() == words.size() && layout.align() == words.align())
        && scope.is_none_or(|scope| scope == words.scope())
}

/// The four words in front of `address`, if there is memory, and if blocks may begin there at all.
#[inline(always)]
pub(super) fn peek(address: usize) -> Option<(Words, u64)> {
    if !address.is_multiple_of(16) || address < HEADER {
        return None;
    }
    let first = address.wrapping_sub(HEADER);
    // SAFETY: where there is no net, whoever frees a pointer has memory in front of it: it was an allocator's.
    let one = unsafe { os::read_u64(first) }?;
    if address % LEAST_PAGE < HEADER {
        // SAFETY: as above.
        unsafe { os::read_u64(address.wrapping_sub(8)) }?;
    }
    // SAFETY: both of its ends have just been read, and no page ends between.
    let (Words([_, two, three]), sum) = unsafe { read_header(address) };
    Some((Words([one, two, three]), sum))
}

/// A fault of a free that frees nothing.
pub(super) fn bad(kind: ReportKind, block: Option<Known>, address: usize) -> Fault {
    Fault { kind, block, address, changed: None, owner: None }
}
