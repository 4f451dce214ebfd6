//! Giving a block back.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use alloc_core::{HostAllocator, Scope};

use super::keys::Stage;
use super::memory::{
    POISON, fill, header_changes, pad_changes, pad_holds, poison_changes, poison_holds, read_header, tail_changes, tail_holds,
    write_sum,
};
use super::plan::{HEADER, is_plain, plain, plan};
use super::quarantine::{Entry, Waiting};
use super::words::{Words, when};
use super::{Cookies, registry};
use crate::Mode;
use crate::block::{Fault, Freed, Given, Known, Mark, State};
use crate::os;
use crate::report::ReportKind;

/// No system has smaller pages.
const LEAST_PAGE: usize = 4096;

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
        if let Some((words, sum)) = self.live(address)
            && agrees(words, layout, scope)
            && self.is_whole(address, words, sum)
        {
            // SAFETY: the caller; a live block.
            let freed = unsafe { self.retire(memory, address, words, sum, mark, moved_to, late) };
            if freed.is_some() {
                return Given { freed, fault: None };
            }
        }
        // SAFETY: the caller.
        unsafe { self.give_in_doubt(memory, address, layout, scope, mark, moved_to, late) }
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
            Ok((words, fault)) => {
                let sum = self.keys.sum(address, words, Stage::Live);
                // SAFETY: the caller; a live block.
                let freed = unsafe { self.retire(memory, address, words, sum, mark, moved_to, late) };
                let twice = || bad(ReportKind::DoubleFree, Some(words.known(address, State::Freed, Mark::default())), address);
                Given { fault: if freed.is_some() { fault } else { Some(twice()) }, freed }
            }
            Err(fault) => Given { freed: None, fault: Some(fault) },
        }
    }

    /// Takes a live block off the list, and into quarantine if it may wait. `None` where another thread was faster.
    ///
    /// # Safety
    /// As [`give`](Self::give); the block is listed.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "those of `give`, and what the header said")]
    unsafe fn retire<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        address: usize,
        words: Words,
        sum: u64,
        mark: Mark,
        moved_to: Option<usize>,
        late: &mut dyn FnMut(Fault),
    ) -> Option<Freed> {
        let (size, token) = (words.size(), words.token());
        // Made where it is used: in registers as long as it goes no further than a chunk.
        let block = || Waiting { address, words, sum, given: when(mark), site: mark.site.0, moved: moved_to.unwrap_or(0) };
        if !self.table.record(token)?.leave(address) {
            return None;
        }
        let staged = self.quarantine.stages(size);
        if words.light() || !(staged || self.quarantine.takes(size)) {
            // SAFETY: the caller.
            unsafe { self.let_go_at_once(memory, address, words, sum) };
        } else {
            // SAFETY: a live block of ours.
            unsafe { write_sum(address, self.keys.turned(sum, Stage::Freed)) };
            // SAFETY: as above; nobody uses it.
            unsafe { fill(address, POISON, size) };
            let waits = match self.lanes.own() {
                Some(lane) => {
                    lane.push(token, &self.table);
                    staged && self.quarantine.push(lane, &block())
                }
                None => {
                    let block = block();
                    self.lanes.with(move |lane| {
                        lane.push(token, &self.table);
                        staged && self.quarantine.push(lane, &block)
                    })
                }
            };
            if !waits {
                // SAFETY: the caller.
                unsafe { self.make_room(memory, block(), late) };
            }
        }
        Some(Freed { size, mode: if words.light() { Mode::Off } else { Mode::Cookie } })
    }

    /// What the header in front of `address` says, where it is that of a live block, and its sum. Reads nothing that cannot be read.
    #[inline(always)]
    pub(super) fn live(&self, address: usize) -> Option<(Words, u64)> {
        let (words, sum) = peek(address)?;
        self.table.record(words.token())?.holds(address, words, sum).then_some((words, sum))
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
    unsafe fn let_go_at_once<A: HostAllocator + ?Sized>(&self, memory: &A, address: usize, words: Words, sum: u64) {
        let token = words.token();
        match self.lanes.own() {
            Some(lane) => lane.push(token, &self.table),
            None => self.lanes.with(move |lane| lane.push(token, &self.table)),
        }
        if !words.light() {
            // Who looks for damage may be looking at it: waits for that.
            drop(self.quarantine.hold());
        }
        // SAFETY: a block of ours, in no list.
        unsafe { self.let_go(memory, address, words, sum) };
    }

    /// Gives the allocator behind its block back.
    ///
    /// # Safety
    /// A block of ours that is in no list any more.
    #[inline(always)]
    unsafe fn let_go<A: HostAllocator + ?Sized>(&self, memory: &A, start: usize, words: Words, sum: u64) {
        // SAFETY: the caller.
        unsafe { write_sum(start, self.keys.turned(sum, Stage::Gone)) };
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

    /// Puts `block` into quarantine after others had to leave.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[cold]
    #[inline(never)]
    unsafe fn make_room<A: HostAllocator + ?Sized>(&self, memory: &A, block: Waiting, late: &mut dyn FnMut(Fault)) {
        let large = !self.quarantine.stages(block.words.size());
        while !(large && self.lanes.run(|lane| self.quarantine.push(lane, &block))) {
            let Some((chunk, blocks)) = self.lanes.run(|lane| self.quarantine.rotate(lane)) else {
                // Calls within calls have all chunks: it cannot wait.
                drop(self.quarantine.hold());
                // SAFETY: a block of ours, in no list.
                return unsafe { self.let_go(memory, block.address, block.words, block.sum) };
            };
            // SAFETY: the caller.
            unsafe { self.release(memory, chunk.former(blocks), late) };
            let waits = self.lanes.run(|lane| {
                self.quarantine.settle(lane, chunk);
                !large && self.quarantine.push(lane, &block)
            });
            if waits {
                break;
            }
        }
        // A large one goes on to the queue at once.
        if large && let Some((chunk, blocks)) = self.lanes.run(|lane| self.quarantine.rotate(lane)) {
            // SAFETY: the caller.
            unsafe { self.release(memory, chunk.former(blocks), late) };
            self.lanes.run(|lane| self.quarantine.settle(lane, chunk));
        }
        if self.quarantine.is_due() {
            self.lanes.collect(&self.quarantine);
        }
        while let Some((chunk, blocks)) = self.quarantine.relieve() {
            // SAFETY: the caller.
            unsafe { self.release(memory, chunk.former(blocks), late) };
            self.quarantine.keep(chunk);
        }
    }

    /// Verifies blocks that left quarantine and gives them back.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[inline(always)]
    unsafe fn release<A: HostAllocator + ?Sized>(&self, memory: &A, blocks: &[Entry], late: &mut dyn FnMut(Fault)) {
        for entry in blocks {
            let (start, words, sum) = entry.header();
            if !self.rests(start, words, sum) && !self.told_of(entry, late) {
                continue;
            }
            // SAFETY: it was in quarantine, and is not any more.
            unsafe { self.let_go(memory, start, words, sum) };
        }
    }

    /// Tells what was done to a freed block; false where it is ours no more.
    #[cold]
    #[inline(never)]
    fn told_of(&self, entry: &Entry, late: &mut dyn FnMut(Fault)) -> bool {
        let (fault, ours) = self.unrest(&entry.load());
        if let Some(fault) = fault {
            late(fault);
        }
        ours
    }

    /// True where a freed block, and what stands around it, is as its free left it.
    #[inline(always)]
    pub(super) fn rests(&self, start: usize, words: Words, sum: u64) -> bool {
        // SAFETY: blocks in quarantine are ours.
        let (found, freed) = unsafe { read_header(start) };
        found.same(words)
            && freed == self.keys.turned(sum, Stage::Freed)
            && self.stands(start, words, sum)
            // SAFETY: as above.
            && unsafe { poison_holds(start, words.size()) }
    }

    /// What was done to a freed block, and false where it is ours no more: two threads freed it at the same instant.
    #[cold]
    pub(super) fn unrest(&self, block: &Waiting) -> (Option<Fault>, bool) {
        let (start, words) = (block.address, block.words);
        let known = block.known();
        // SAFETY: as in `rests`.
        let (found, sum) = unsafe { read_header(start) };
        if self.keys.stage(start, found, sum).is_some_and(|stage| stage != Stage::Freed || found != words) {
            let kind = ReportKind::DoubleFree;
            return (Some(Fault { kind, block: Some(known), address: start, changed: None, owner: None }), false);
        }
        let front = words.align().max(HEADER);
        // SAFETY: as in `rests`.
        let object = unsafe { poison_changes(start, words.size()) };
        // SAFETY: as above.
        let tail = || unsafe { tail_changes(start, words.size(), block.sum) };
        // SAFETY: as above.
        let header = || unsafe { header_changes(&self.keys, start, words, Stage::Freed) };
        // SAFETY: as above.
        let pad = || unsafe { pad_changes(&self.keys, start, front) };
        let changed = object.or_else(tail).or_else(header).or_else(pad);
        let fault = changed.map(|changed| Fault {
            kind: ReportKind::UseAfterFree,
            block: Some(known),
            address: changed.first,
            changed: Some(changed),
            owner: None,
        });
        (fault, true)
    }

    /// Verifies and frees what waits and gives everything back. Live blocks stay valid, and strange to everybody.
    ///
    /// # Safety
    /// `memory` is what blocks were taken from.
    pub(crate) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A, late: &mut dyn FnMut(Fault)) {
        for chunk in self.lanes.chunks().chain(self.quarantine.chunks()) {
            let blocks = chunk.empty();
            // SAFETY: the caller.
            unsafe { self.release(memory, chunk.former(blocks), late) };
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
    if first / LEAST_PAGE != address.wrapping_sub(8) / LEAST_PAGE {
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
