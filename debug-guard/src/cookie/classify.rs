//! Which mistake a bad free is, and the damage to a block that may be freed. It is for mistakes only, so it may walk
//! the whole table.

use super::Cookies;
use super::layout::{HEADER, HeaderWords, Stage};
use super::memory::{
    Header, header_changes, pad_changes, pad_holds, peek, peek_freed, tail_changes, tail_holds, write_header,
    write_pad, write_tail,
};
use super::record::CookieRecord;
use crate::block::{BlockMark, BlockState, GuardFinding, Known};
use crate::report_kind::ReportKind;

impl Cookies {
    /// The block is live, its shard locked.
    #[inline(always)]
    pub(super) fn is_whole(&self, start: usize, words: HeaderWords, sum: u64) -> bool {
        if words.header_only() {
            return true;
        }
        // SAFETY: the block rule (`memory.rs`); not header-only.
        let tail = unsafe { tail_holds(start, words.size(), sum) };
        // SAFETY: the block rule; `front` as in its plan.
        tail && (words.align() <= HEADER || unsafe { pad_holds(&self.keys, start, words.align()) })
    }

    /// Repairs what it finds, so that each change is reported once. The block's shard is locked.
    #[cold]
    pub(super) fn mend(&self, start: usize, words: HeaderWords, sum: u64) -> [Option<GuardFinding>; 2] {
        let (size, front) = (words.size(), words.align().max(HEADER));
        // SAFETY: the block rule (`memory.rs`): live, its shard locked.
        let header = unsafe { header_changes(&self.keys, start, words, Stage::Live) };
        // SAFETY: the block rule.
        unsafe { write_header(start, words, sum) };
        let (pad, tail) = if words.header_only() {
            (None, None)
        } else {
            // SAFETY: the block rule; not header-only.
            let pad = unsafe { pad_changes(&self.keys, start, front) };
            // SAFETY: the block rule; not header-only.
            unsafe { write_pad(&self.keys, start, front) };
            // SAFETY: the block rule; not header-only.
            let tail = unsafe { tail_changes(start, size, sum) };
            // SAFETY: the block rule; not header-only.
            unsafe { write_tail(start, size, sum) };
            (pad, tail)
        };
        let block = Some(words.known(start, BlockState::Live, BlockMark::default()));
        let finding = |kind, changed| GuardFinding::of_change(kind, block, changed);
        let below = header.map(|changed| {
            let reaches = changed.first.wrapping_add(changed.span) > start.wrapping_sub(8);
            let kind = if reaches { ReportKind::Underflow } else { ReportKind::HeaderDamaged };
            finding(kind, changed)
        });
        let below = below.or_else(|| pad.map(|changed| finding(ReportKind::Underflow, changed)));
        let kind = if size == 0 { ReportKind::ZeroSizeAccess } else { ReportKind::Overflow };
        [below, tail.map(|changed| finding(kind, changed))]
    }

    /// The live block that begins at `address`, which may be any: the header is read without a fault, or, if the
    /// system cannot do that, all records are searched instead.
    ///
    /// # Errors
    /// The finding that a free of this pointer would be.
    #[expect(clippy::result_large_err, reason = "a finding is rare, and there is no box to put it into")]
    pub(crate) fn validate_pointer(&self, address: usize) -> Result<Known, GuardFinding> {
        self.validate_with_header(address, peek(address))
    }

    /// # Errors
    /// As for [`validate_pointer`](Self::validate_pointer).
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[expect(clippy::result_large_err, reason = "as above")]
    pub(crate) unsafe fn validate_freed(&self, address: usize) -> Result<Known, GuardFinding> {
        // SAFETY: the free contract.
        self.validate_with_header(address, unsafe { peek_freed(address) })
    }

    #[expect(clippy::result_large_err, reason = "as above")]
    fn validate_with_header(&self, address: usize, header: Option<Header>) -> Result<Known, GuardFinding> {
        let live = self.live(address, header);
        live.or_else(|| self.listed(address, header))
            .map(|(_, (words, _))| words.known(address, BlockState::Live, BlockMark::default()))
            .ok_or_else(|| self.classify_bad_free(address, header))
    }

    #[cold]
    pub(super) fn classify_bad_free(&self, address: usize, header: Option<Header>) -> GuardFinding {
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
            if let Some(block) = self.original(words) {
                return GuardFinding::new(ReportKind::HeaderMoved, Some(block), address);
            }
        }
        match self.find(address) {
            Some(block) => GuardFinding::new(ReportKind::InteriorFree, Some(block), address),
            None => GuardFinding::new(ReportKind::ForeignFree, None, address),
        }
    }

    fn original(&self, words: HeaderWords) -> Option<Known> {
        let listed = self.table.record(words.token()).and_then(CookieRecord::read);
        match listed.filter(|listed| listed.words == words) {
            Some(listed) => Some(listed.known()),
            None => self.freed(|block| block.words == words).map(|block| block.known()),
        }
    }
}
