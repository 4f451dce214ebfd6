//! Verifies all live and quarantined blocks.

use super::Cookies;
use super::header_words::HeaderWords;
use super::keys::Stage;
use super::memory::{poison, read_header, write_header, write_pad, write_tail};
use super::peek::Header;
use super::plan::{HEADER, tail_len};
use super::record::{CookieRecord, Life, Listed};
use crate::block::{FindingSink, GuardFinding, HeldBlock, Known};

/// Records that are verified under one lock of the quarantine.
const STRETCH: u32 = 128;
/// Findings kept until the lock is released.
const REMEMBERED: usize = 8;

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
        let mut number = 0;
        while number < self.table.issued() {
            let mut findings = ReportBuffer::default();
            let held = self.quarantine.hold();
            let stop = number.saturating_add(STRETCH).min(self.table.issued());
            while number < stop && findings.room() >= 2 {
                if let Some(record) = self.table.nth(number) {
                    self.check_one(record, &mut findings);
                }
                number += 1;
            }
            drop(held);
            found(&mut findings.findings.into_iter().flatten());
        }
    }

    /// The quarantine is locked, so no block leaves it.
    fn check_one(&self, record: &CookieRecord, findings: &mut ReportBuffer) {
        match record.read() {
            Some(listed) if listed.life == Life::Live => self.check_live(record, &listed, findings),
            Some(listed) if listed.life == Life::Waiting => {
                self.check_waiting(record, &listed, findings)
            }
            _ => {}
        }
    }

    /// The quarantine is locked: a listed block keeps its memory, though it may be freed meanwhile.
    fn check_live(&self, record: &CookieRecord, listed: &Listed, findings: &mut ReportBuffer) {
        let (start, words) = (listed.start, listed.words);
        if words.header_only() {
            return;
        }
        // SAFETY: a block that was listed while the quarantine is held.
        let header = unsafe { read_header(start) };
        let sum = self.keys.sum(start, words, Stage::Live);
        if header == (words, sum) && self.is_whole(start, words, sum) {
            return;
        }
        if record.still(start, words) {
            for finding in self.mend_held(start, words).into_iter().flatten() {
                findings.add(finding);
            }
        }
    }

    fn check_waiting(&self, record: &CookieRecord, listed: &Listed, findings: &mut ReportBuffer) {
        let (start, words, sum) = (listed.start, listed.words, listed.sum);
        if self.is_poisoned(start, words, sum) {
            return;
        }
        let Some(finding) = self.write_after_free(record) else {
            return;
        };
        findings.add(finding);
        // SAFETY: a block in quarantine, which is held.
        unsafe { write_header(start, words, self.keys.turned(sum, Stage::Freed)) };
        // SAFETY: as above; header-only blocks do not wait.
        unsafe { write_tail(start, words.size(), sum) };
        // SAFETY: as above.
        unsafe { poison(start, words.size()) };
        // SAFETY: as above.
        unsafe { write_pad(&self.keys, start, words.align().max(HEADER)) };
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

    /// The quarantined blocks, without recycled ones, which are not verified any more.
    pub(crate) fn held(&self) -> HeldBlock {
        let _held = self.quarantine.hold();
        let mut sum = HeldBlock::default();
        for chunk in self.caches.chunks().chain(self.quarantine.chunks()) {
            sum.quarantined += chunk.len() as u64;
            sum.quarantined_bytes += chunk.bytes() as u64;
        }
        sum
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

/// Findings made while a lock was held.
#[derive(Default)]
struct ReportBuffer {
    findings: [Option<GuardFinding>; REMEMBERED],
    count: usize,
}

impl ReportBuffer {
    fn room(&self) -> usize {
        REMEMBERED - self.count
    }

    fn add(&mut self, finding: GuardFinding) {
        if let Some(place) = self.findings.get_mut(self.count) {
            *place = Some(finding);
            self.count += 1;
        }
    }
}
