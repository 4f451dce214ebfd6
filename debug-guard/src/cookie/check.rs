//! Verifies all live and quarantined blocks.

use super::Cookies;
use super::layout::HeaderWords;
use super::layout::Stage;
use super::layout::{HEADER, tail_len};
use super::memory::Header;
use super::memory::{
    header_changes, pad_changes, pad_holds, poison, poison_changes, poison_holds, read_header,
    write_header, write_pad, write_tail,
};
use super::record::{CookieRecord, Life, Listed};
use crate::block::{FindingSink, GuardFinding, HeldBlock, Known};
use crate::report_kind::ReportKind;

impl Cookies {
    /// Calls `told` for every live and quarantined block, with no lock held. Blocks that other threads allocate or free meanwhile may be
    /// missing or come twice.
    pub(crate) fn for_each(&self, told: &mut dyn FnMut(&Known)) {
        for listed in self.table.all().filter_map(CookieRecord::read) {
            if matches!(listed.life, Life::Live | Life::Waiting) {
                told(&listed.known());
            }
        }
    }

    /// Verifies what stands around every live block, and every byte of quarantined ones. Changes are repaired, so each is reported once.
    /// Other threads may allocate and free meanwhile. No lock is held in the calls.
    pub(crate) fn check(&self, found: &mut FindingSink<'_>) {
        for record in self.table.all() {
            let Some(words) = record.read().map(|listed| listed.words) else {
                continue;
            };
            let number = self.quarantine.number(words);
            let shard = self.quarantine.shard(number).lock();
            let findings = match record.read().filter(|listed| listed.words == words) {
                Some(Listed {
                    start,
                    sum,
                    life: Life::Live,
                    ..
                }) => {
                    // SAFETY: a live block of ours, whose shard is locked.
                    let header = unsafe { read_header(start) };
                    if header == (words, sum) && self.is_whole(start, words, sum) {
                        [None; 2]
                    } else {
                        self.mend(start, words, sum)
                    }
                }
                Some(listed) if listed.life == Life::Waiting => {
                    [self.mend_freed(record, &listed), None]
                }
                _ => [None; 2],
            };
            drop(shard);
            found(&mut findings.into_iter().flatten());
        }
    }

    /// The change of a quarantined block, which is repaired. Its shard is locked.
    fn mend_freed(&self, record: &CookieRecord, listed: &Listed) -> Option<GuardFinding> {
        let (start, words, sum) = (listed.start, listed.words, listed.sum);
        if self.is_poisoned(start, words, sum) {
            return None;
        }
        let finding = self.write_after_free(record)?;
        // SAFETY: a block in quarantine, whose shard is locked.
        unsafe { write_header(start, words, self.keys.turned(sum, Stage::Freed)) };
        // SAFETY: as above; header-only blocks do not wait.
        unsafe { write_tail(start, words.size(), sum) };
        // SAFETY: as above.
        unsafe { poison(start, words.size()) };
        // SAFETY: as above.
        unsafe { write_pad(&self.keys, start, words.align().max(HEADER)) };
        Some(finding)
    }

    /// True if header, pad and poison of a freed block are as its free wrote them.
    #[inline(always)]
    pub(super) fn is_poisoned(&self, start: usize, words: HeaderWords, sum: u64) -> bool {
        // SAFETY: blocks in quarantine are ours.
        let header = unsafe { read_header(start) };
        header == (words, self.keys.turned(sum, Stage::Freed))
            // SAFETY: as above.
            && unsafe { poison_holds(start, words.size(), sum) }
            // SAFETY: as above; `front` as in its plan.
            && (words.align() <= HEADER || unsafe { pad_holds(&self.keys, start, words.align()) })
    }

    /// The finding of a write to a freed block: to its bytes, its header or its pad, in this order.
    #[cold]
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
        let known = Some(listed.known());
        Some(GuardFinding::of_change(
            ReportKind::UseAfterFree,
            known,
            changed,
        ))
    }

    /// The live or quarantined block with the byte at `address`, header and tail included. Walks the table.
    pub(crate) fn find(&self, address: usize) -> Option<Known> {
        let has = |start: usize, words: HeaderWords| {
            let behind = if words.header_only() {
                0
            } else {
                tail_len(words.size())
            };
            (start.wrapping_sub(HEADER)..start.wrapping_add(words.size()).wrapping_add(behind))
                .contains(&address)
        };
        let with = |listed: &Listed| has(listed.start, listed.words);
        let listed = self
            .table
            .all()
            .find_map(|record| record.live().filter(with))
            .or_else(|| self.freed(with))?;
        Some(listed.known())
    }

    /// The quarantined blocks, without spare ones, which are not verified any more.
    pub(crate) fn held(&self) -> HeldBlock {
        let (quarantined, quarantined_bytes) = self.quarantine.waiting();
        HeldBlock {
            quarantined,
            quarantined_bytes,
            ..HeldBlock::default()
        }
    }

    /// The live block at `start`.
    pub(super) fn listed(
        &self,
        start: usize,
        header: Option<Header>,
    ) -> Option<(&CookieRecord, HeaderWords)> {
        let here = |record: &CookieRecord| {
            record
                .live()
                .filter(|listed| listed.start == start)
                .map(|listed| listed.words)
        };
        // An undamaged header names the record.
        let near = header.and_then(|(words, _)| self.table.record(words.token()));
        let near = near.and_then(|record| Some((record, here(record)?)));
        near.or_else(|| {
            self.table
                .all()
                .find_map(|record| Some((record, here(record)?)))
        })
    }

    /// The freed block that `wanted` accepts.
    pub(super) fn freed(&self, wanted: impl Fn(&Listed) -> bool) -> Option<Listed> {
        self.table.all().find_map(|record| {
            record
                .read()
                .filter(|listed| listed.is_freed() && wanted(listed))
        })
    }
}
