//! Giving a block back.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use alloc_core::{HostAllocator, Scope};

use super::keys::Stage;
use super::memory::{
    POISON, fill, header_changes, pad_changes, pad_holds, poison_changes, poison_holds, read_header, tail_changes, tail_holds,
    write_sum,
};
use super::plan::{HEADER, plan};
use super::quarantine::{Batch, Quarantine, Waiting};
use super::words::{Words, when};
use super::{Cookies, registry};
use crate::block::{Fault, Freed, Given, Mark};
use crate::os;
use crate::report::ReportKind;

impl Cookies {
    /// Frees the block at `address`, if it is one that may be freed like this. `layout` and `scope` are what it is said to be of, where
    /// the caller knows. `late` hears of other blocks: what those that leave quarantine now show; it may allocate and free.
    ///
    /// # Safety
    /// `memory` is what blocks are taken from. Nobody uses the block any more.
    #[inline]
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
        let (words, fault) = match self.live(address) {
            Some(words) if agrees(words, layout, scope) && self.is_whole(address, words) => (words, None),
            _ => match self.judge(address, layout, scope, late) {
                Ok((words, fault)) => (words, fault),
                Err(fault) => return Given { freed: None, fault: Some(fault) },
            },
        };
        let light = words.light();
        let block = Waiting { address, words, given: when(mark), site: mark.site.0, moved: moved_to.unwrap_or(0) };
        if let Some(record) = self.table.record(words.token())
            && record.leave(address)
        {
            self.lanes.with(|lane| lane.push(words.token(), &self.table));
        }
        if light || !self.quarantine.takes(words.size()) {
            if !light {
                // Who looks for damage may be looking at it: waits for that.
                drop(self.quarantine.hold());
            }
            // SAFETY: a live block of ours, taken off the list by this call.
            unsafe { self.let_go(memory, address, words) };
        } else {
            // SAFETY: a live block of ours.
            unsafe { write_sum(address, self.keys.sum(address, words, Stage::Freed)) };
            // SAFETY: as above; nobody uses it.
            unsafe { fill(address, POISON, words.size()) };
            if !self.lanes.with(|lane| self.quarantine.push(lane, &block)) {
                // SAFETY: the caller.
                unsafe { self.make_room(memory, block, late) };
            }
        }
        Given {
            freed: Some(Freed { size: words.size(), mode: if light { crate::Mode::Off } else { crate::Mode::Cookie } }),
            fault,
        }
    }

    /// What the header in front of `address` says, where it is that of a live block. Reads nothing that cannot be read.
    #[inline]
    pub(super) fn live(&self, address: usize) -> Option<Words> {
        let (words, sum) = peek(address)?;
        (self.keys.sum(address, words, Stage::Live) == sum).then_some(words)
    }

    /// True where what stands around a live block is as it was written, but for the header.
    #[inline]
    pub(super) fn is_whole(&self, start: usize, words: Words) -> bool {
        if words.light() {
            return true;
        }
        let front = if words.align() > HEADER { words.align() } else { HEADER };
        // SAFETY: a live block of ours, not a light one.
        let tail = unsafe { tail_holds(&self.keys, start, words.size()) };
        // SAFETY: as above; `front` as in its plan.
        tail && (front == HEADER || unsafe { pad_holds(&self.keys, start, front) })
    }

    /// Gives the allocator behind its block back.
    ///
    /// # Safety
    /// A block of ours that is in no list any more; `words` are its own.
    #[inline]
    unsafe fn let_go<A: HostAllocator + ?Sized>(&self, memory: &A, start: usize, words: Words) {
        // SAFETY: the caller.
        unsafe { write_sum(start, self.keys.sum(start, words, Stage::Gone)) };
        let Some(plan) = plan(words.size(), words.align(), words.light()) else { return };
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
        let mut batch = Batch::default();
        loop {
            let (taken, pushed) = self.lanes.with(|lane| {
                let taken = self.quarantine.rotate(lane, &mut batch);
                (taken, self.quarantine.push(lane, &block))
            });
            // SAFETY: the caller.
            unsafe { self.release(memory, batch.iter().take(taken), late) };
            if pushed {
                break;
            }
        }
        loop {
            let taken = self.quarantine.relieve(&mut batch);
            if taken == 0 {
                break;
            }
            // SAFETY: the caller.
            unsafe { self.release(memory, batch.iter().take(taken), late) };
        }
    }

    /// Verifies blocks that left quarantine and gives them back.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    unsafe fn release<'b, A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        blocks: impl Iterator<Item = &'b Waiting>,
        late: &mut dyn FnMut(Fault),
    ) {
        for block in blocks {
            if !self.rests(block) {
                let (fault, ours) = self.unrest(block);
                if let Some(fault) = fault {
                    late(fault);
                }
                if !ours {
                    continue;
                }
            }
            // SAFETY: it was in quarantine, and is not any more.
            unsafe { self.let_go(memory, block.address, block.words) };
        }
    }

    /// True where a freed block, and what stands around it, is as its free left it.
    #[inline]
    pub(super) fn rests(&self, block: &Waiting) -> bool {
        let (start, size) = (block.address, block.words.size());
        // SAFETY: blocks in quarantine are ours.
        let header = unsafe { read_header(start) };
        header == (block.words, self.keys.sum(start, block.words, Stage::Freed))
            && self.is_whole(start, block.words)
            // SAFETY: as above.
            && unsafe { poison_holds(start, size) }
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
        // SAFETY: as in `rests`, each.
        let changed = unsafe { poison_changes(start, words.size()) }
            .or_else(|| unsafe { tail_changes(&self.keys, start, words.size()) })
            .or_else(|| unsafe { header_changes(&self.keys, start, words, Stage::Freed) })
            .or_else(|| unsafe { pad_changes(&self.keys, start, words.align().max(HEADER)) });
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
        let mut batch = Batch::default();
        for chunk in self.lanes.chunks().chain(self.quarantine.chunks()) {
            let taken = Quarantine::empty_out(chunk, &mut batch);
            // SAFETY: the caller.
            unsafe { self.release(memory, batch.iter().take(taken), late) };
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
#[inline]
pub(super) fn agrees(words: Words, layout: Option<Layout>, scope: Option<Scope>) -> bool {
    layout.is_none_or(|layout| layout.size() == words.size() && layout.align() == words.align())
        && scope.is_none_or(|scope| scope == words.scope())
}

/// The four words in front of `address`, if there is memory, and if blocks may begin there at all.
#[inline]
pub(super) fn peek(address: usize) -> Option<(Words, u64)> {
    if !address.is_multiple_of(16) || address < HEADER {
        return None;
    }
    // SAFETY: where there is no net, whoever frees a pointer has memory in front of it: it was an allocator's.
    let at = |back: usize| unsafe { os::read_u64(address.wrapping_sub(back)) };
    Some((Words([at(32)?, at(24)?, at(16)?]), at(8)?))
}

/// A fault of a free that frees nothing.
pub(super) fn bad(kind: ReportKind, block: Option<crate::block::Known>, address: usize) -> Fault {
    Fault { kind, block, address, changed: None, owner: None }
}
