//! Writes after free: the header, pad and poison of a block in quarantine, compared with what its free wrote.

use super::Cookies;
use super::header_words::HeaderWords;
use super::keys::Stage;
use super::memory::{
    header_changes, pad_changes, pad_holds, poison_changes, poison_holds, read_header,
};
use super::plan::HEADER;
use super::record::CookieRecord;
use crate::block::GuardFinding;
use crate::report_kind::ReportKind;

impl Cookies {
    /// True if header, pad and poison of a freed block are as its free wrote them.
    #[inline(always)]
    pub(super) fn is_poisoned(&self, start: usize, words: HeaderWords, sum: u64) -> bool {
        // SAFETY: blocks in quarantine are ours.
        let (found, freed) = unsafe { read_header(start) };
        found.same(words)
            && freed == self.keys.turned(sum, Stage::Freed)
            // SAFETY: as above.
            && unsafe { poison_holds(start, words.size(), sum) }
            // SAFETY: as above; `front` as in its plan.
            && (words.align() <= HEADER || unsafe { pad_holds(&self.keys, start, words.align()) })
    }

    /// The finding of a write to a freed block: to its bytes, its header or its pad, in this order.
    #[cold]
    #[inline(never)]
    pub(super) fn write_after_free(&self, record: &CookieRecord) -> Option<GuardFinding> {
        let listed = record.read()?;
        let (start, words) = (listed.start, listed.words);
        // SAFETY: as in `is_poisoned`.
        let object = unsafe { poison_changes(start, words.size(), listed.sum) };
        // SAFETY: as above.
        let header = || unsafe { header_changes(&self.keys, start, words, Stage::Freed) };
        // SAFETY: as above.
        let pad = || unsafe { pad_changes(&self.keys, start, words.align().max(HEADER)) };
        let changed = object.or_else(header).or_else(pad)?;
        Some(GuardFinding::of_change(
            ReportKind::UseAfterFree,
            Some(listed.known()),
            changed,
        ))
    }
}
