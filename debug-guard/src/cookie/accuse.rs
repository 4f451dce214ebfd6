//! Which mistake a bad free is, and the damage to a block that may be freed. Runs for mistakes only, so it may walk the whole table.

use core::alloc::Layout;

use alloc_core::Scope;

use super::header_words::HeaderWords;
use super::keys::Stage;
use super::memory::{header_changes, mend_header, mend_tail, pad_changes, tail_changes, write_pad};
use super::peek::{Header, peek, peek_freed};
use super::plan::HEADER;
use super::record::CookieRecord;
use super::{Cookies, registry};
use crate::block::{BlockMark, BlockState, GuardFinding, Known};
use crate::report_kind::ReportKind;

impl Cookies {
    /// `Ok`: a live block to free, and the first finding about it. `Err`: nothing is freed. Further findings are passed to `late`.
    #[cold]
    #[inline(never)]
    #[expect(
        clippy::result_large_err,
        reason = "a finding is rare, and there is no box to put it into"
    )]
    pub(super) fn examine(
        &self,
        address: usize,
        header: Option<Header>,
        layout: Layout,
        scope: Scope,
        late: &mut dyn FnMut(GuardFinding),
    ) -> Result<(&CookieRecord, HeaderWords, Option<GuardFinding>), GuardFinding> {
        let live = self.live(address, header);
        let (record, words) = match live {
            Some((record, words, _)) => (record, words),
            None => self
                .listed(address, header)
                .ok_or_else(|| self.accuse(address, header))?,
        };
        // Layout or scope are wrong, but the block is certain: it is freed.
        let agrees = words.is(layout.size(), layout.align(), scope);
        let mut told = (!agrees).then(|| mismatch(address, words, layout));
        if !words.header_only() || live.is_none() {
            for finding in self.mend(address, words).into_iter().flatten() {
                if told.is_none() {
                    told = Some(finding)
                } else {
                    late(finding)
                }
            }
        }
        Ok((record, words, told))
    }

    /// Repairs the changes around a live block, so that each is reported once.
    pub(super) fn mend(&self, start: usize, words: HeaderWords) -> [Option<GuardFinding>; 2] {
        let held = self.quarantine.hold();
        let record = self.table.record(words.token());
        if !record.is_some_and(|record| record.still(start, words))
            && self
                .live(start, peek(start))
                .is_none_or(|(_, live, _)| live != words)
        {
            return [None; 2];
        }
        let findings = self.mend_held(start, words);
        drop(held);
        findings
    }

    /// As [`mend`](Self::mend), for a listed block, with the quarantine locked.
    pub(super) fn mend_held(&self, start: usize, words: HeaderWords) -> [Option<GuardFinding>; 2] {
        let (size, front, header_only) =
            (words.size(), words.align().max(HEADER), words.header_only());
        let sum = self.keys.sum(start, words, Stage::Live);
        // SAFETY: a live block of ours.
        let header = unsafe { header_changes(&self.keys, start, words, Stage::Live) };
        let pad = if header_only {
            None
        } else {
            // SAFETY: as above, and not header-only.
            unsafe { pad_changes(&self.keys, start, front) }
        };
        let tail = if header_only {
            None
        } else {
            // SAFETY: as above.
            unsafe { tail_changes(start, size, sum) }
        };
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
        let block = Some(words.known(start, BlockState::Live, BlockMark::default()));
        let finding = |kind, changed| GuardFinding::of_change(kind, block, changed);
        let below = header.map(|changed| {
            let reaches = changed.first.wrapping_add(changed.span) > start.wrapping_sub(8);
            finding(
                if reaches {
                    ReportKind::Underflow
                } else {
                    ReportKind::HeaderDamaged
                },
                changed,
            )
        });
        let below = below.or_else(|| pad.map(|changed| finding(ReportKind::Underflow, changed)));
        let kind = if size == 0 {
            ReportKind::ZeroSizeAccess
        } else {
            ReportKind::Overflow
        };
        [below, tail.map(|changed| finding(kind, changed))]
    }

    /// The live block that begins at `address`. Any address is valid: the header is read without a fault, or, if the system cannot do that,
    /// all records are searched instead.
    ///
    /// # Errors
    /// The finding that a free of this pointer would be.
    #[expect(
        clippy::result_large_err,
        reason = "a finding is rare, and there is no box to put it into"
    )]
    pub(crate) fn validate_pointer(&self, address: usize) -> Result<Known, GuardFinding> {
        self.vet_by(address, peek(address))
    }

    /// As [`validate_pointer`](Self::validate_pointer), for a free.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[expect(clippy::result_large_err, reason = "as above")]
    pub(crate) unsafe fn vet_freed(&self, address: usize) -> Result<Known, GuardFinding> {
        // SAFETY: the caller's promise.
        self.vet_by(address, unsafe { peek_freed(address) })
    }

    #[expect(clippy::result_large_err, reason = "as above")]
    fn vet_by(&self, address: usize, header: Option<Header>) -> Result<Known, GuardFinding> {
        let words = self.live(address, header).map(|(_, words, _)| words);
        let words = words.or_else(|| Some(self.listed(address, header)?.1));
        words
            .map(|words| words.known(address, BlockState::Live, BlockMark::default()))
            .ok_or_else(|| self.accuse(address, header))
    }

    /// The finding of a free of a pointer that is no live block's.
    #[cold]
    fn accuse(&self, address: usize, header: Option<Header>) -> GuardFinding {
        if let Some(block) = self.freed(|block| block.start == address) {
            return GuardFinding::new(ReportKind::DoubleFree, Some(block.known()), address);
        }
        if let Some((words, sum)) = header {
            if self.keys.stage(address, words, sum).is_some() {
                return GuardFinding::new(
                    ReportKind::DoubleFree,
                    Some(words.known(address, BlockState::Freed, BlockMark::default())),
                    address,
                );
            }
            let other = registry::others(self.slot, |keys| keys.stage(address, words, sum));
            if let Some((stage, guard)) = other {
                let state = if stage == Stage::Live {
                    BlockState::Live
                } else {
                    BlockState::Freed
                };
                let block = words.known(address, state, BlockMark::default());
                return GuardFinding {
                    owner: Some(guard),
                    ..GuardFinding::new(ReportKind::WrongGuard, Some(block), address)
                };
            }
            if let Some(block) = self.original(words) {
                return GuardFinding::new(ReportKind::HeaderMoved, Some(block), address);
            }
        }
        match self.find(address) {
            Some(block) => GuardFinding::new(ReportKind::InteriorFree, Some(block), address),
            None => GuardFinding::new(ReportKind::ForeignFree, None, address),
        }
    }

    /// The block that this header was written for.
    fn original(&self, words: HeaderWords) -> Option<Known> {
        let listed = self
            .table
            .record(words.token())
            .and_then(CookieRecord::read);
        match listed.filter(|listed| listed.words == words) {
            Some(listed) => Some(listed.known()),
            None => self
                .freed(|block| block.words == words)
                .map(|block| block.known()),
        }
    }
}

fn mismatch(address: usize, words: HeaderWords, layout: Layout) -> GuardFinding {
    let kind = if layout.size() != words.size() {
        ReportKind::SizeMismatch
    } else if layout.align() != words.align() {
        ReportKind::AlignmentMismatch
    } else {
        ReportKind::ScopeMismatch
    };
    GuardFinding::new(
        kind,
        Some(words.known(address, BlockState::Live, BlockMark::default())),
        address,
    )
}
