//! What is wrong with a pointer that may not be freed as it is, and what was done to a block that may.
//!
//! All of this is for the case that something is wrong: it may walk the whole table.

use core::alloc::Layout;

use alloc_core::Scope;

use super::give::{agrees, bad, peek};
use super::keys::Stage;
use super::memory::{header_changes, mend_header, mend_tail, pad_changes, tail_changes, write_pad};
use super::plan::HEADER;
use super::record::Record;
use super::words::Words;
use super::{Cookies, registry};
use crate::block::{Changed, Fault, Known, Mark, State};
use crate::report::ReportKind;

impl Cookies {
    /// `Ok`: a live block that is freed now, and what was done to it. `Err`: nothing is freed. What one free has to tell beside that
    /// goes to `late`.
    #[cold]
    #[inline(never)]
    #[expect(clippy::result_large_err, reason = "a fault is rare, and there is no box to put it into")]
    pub(super) fn judge(
        &self,
        address: usize,
        layout: Option<Layout>,
        scope: Option<Scope>,
        late: &mut dyn FnMut(Fault),
    ) -> Result<(&Record, Words, Option<Fault>), Fault> {
        let (record, words) = match self.live(address) {
            Some((record, words, _)) => (record, words),
            None => self.listed(address).ok_or_else(|| self.accuse(address))?,
        };
        // What was said of the block is wrong, the block is certain: it goes.
        let mut told = (!agrees(words, layout, scope)).then(|| mismatch(address, words, layout));
        if !words.light() || self.live(address).is_none() {
            for fault in self.mend(address, words).into_iter().flatten() {
                if told.is_none() { told = Some(fault) } else { late(fault) }
            }
        }
        Ok((record, words, told))
    }

    /// What was done to a live block. Each change is put right, so that it is told once, and the next one anew.
    pub(super) fn mend(&self, start: usize, words: Words) -> [Option<Fault>; 2] {
        let held = self.quarantine.hold();
        if self.listed_as(start, words).is_none() && self.live(start).is_none_or(|(_, live, _)| live != words) {
            return [None; 2];
        }
        let faults = self.mend_held(start, words);
        drop(held);
        faults
    }

    /// As [`mend`](Self::mend), for a block that stays what it is meanwhile: the quarantine is held, and it is listed.
    pub(super) fn mend_held(&self, start: usize, words: Words) -> [Option<Fault>; 2] {
        let (size, front, light) = (words.size(), words.align().max(HEADER), words.light());
        let sum = self.keys.sum(start, words, Stage::Live);
        // SAFETY: a live block of ours.
        let header = unsafe { header_changes(&self.keys, start, words, Stage::Live) };
        // SAFETY: as above, and not a light one.
        let pad = if light { None } else { unsafe { pad_changes(&self.keys, start, front) } };
        // SAFETY: as above.
        let tail = if light { None } else { unsafe { tail_changes(start, size, sum) } };
        if header.is_some() {
            // SAFETY: as above.
            unsafe { mend_header(start, words, sum) };
        }
        if pad.is_some() {
            // SAFETY: as above.
            unsafe { write_pad(&self.keys, start, front) };
        }
        if tail.is_some() {
            // SAFETY: as above.
            unsafe { mend_tail(start, size, sum) };
        }
        let told = |kind, changed: Changed| Fault {
            kind,
            block: Some(words.known(start, State::Live, Mark::default())),
            address: changed.first,
            changed: Some(changed),
            owner: None,
        };
        let below = header.map(|changed| {
            let reaches = changed.first.wrapping_add(changed.span) > start.wrapping_sub(8);
            told(if reaches { ReportKind::Underflow } else { ReportKind::HeaderDamaged }, changed)
        });
        let below = below.or_else(|| pad.map(|changed| told(ReportKind::Underflow, changed)));
        let kind = if size == 0 { ReportKind::ZeroSizeAccess } else { ReportKind::Overflow };
        [below, tail.map(|changed| told(kind, changed))]
    }

    /// Exactly the start of a live block?
    ///
    /// # Errors
    /// What a free of this pointer would be.
    #[expect(clippy::result_large_err, reason = "a fault is rare, and there is no box to put it into")]
    pub(crate) fn vet(&self, address: usize) -> Result<Known, Fault> {
        let words = self.live(address).map(|(_, words, _)| words).or_else(|| Some(self.listed(address)?.1));
        words.map(|words| words.known(address, State::Live, Mark::default())).ok_or_else(|| self.accuse(address))
    }

    /// Why a pointer cannot be freed that is no live block's.
    #[cold]
    fn accuse(&self, address: usize) -> Fault {
        let header = peek(address);
        if let Some(block) = self.freed(|block| block.start == address) {
            return bad(ReportKind::DoubleFree, Some(block.known()), address);
        }
        if let Some((words, sum)) = header {
            if self.keys.stage(address, words, sum).is_some() {
                return bad(ReportKind::DoubleFree, Some(words.known(address, State::Freed, Mark::default())), address);
            }
            let other = registry::others(self.seat, |keys| keys.stage(address, words, sum));
            if let Some((stage, guard)) = other {
                let state = if stage == Stage::Live { State::Live } else { State::Freed };
                let block = words.known(address, state, Mark::default());
                return Fault { owner: Some(guard), ..bad(ReportKind::WrongGuard, Some(block), address) };
            }
            if let Some(block) = self.original(words) {
                return bad(ReportKind::HeaderMoved, Some(block), address);
            }
        }
        match self.find(address) {
            Some(block) => bad(ReportKind::InteriorFree, Some(block), address),
            None => bad(ReportKind::ForeignFree, None, address),
        }
    }

    /// The block whose header says just this.
    fn original(&self, words: Words) -> Option<Known> {
        let listed = self.table.record(words.token()).and_then(Record::read);
        match listed.filter(|listed| listed.words == words) {
            Some(listed) => Some(listed.known()),
            None => self.freed(|block| block.words == words).map(|block| block.known()),
        }
    }
}

fn mismatch(address: usize, words: Words, layout: Option<Layout>) -> Fault {
    let kind = match layout {
        Some(layout) if layout.size() != words.size() => ReportKind::SizeMismatch,
        Some(layout) if layout.align() != words.align() => ReportKind::AlignmentMismatch,
        _ => ReportKind::ScopeMismatch,
    };
    bad(kind, Some(words.known(address, State::Live, Mark::default())), address)
}
