//! Looking at every block that lives or waits.

use super::Cookies;
use super::header_words::HeaderWords;
use super::keys::Stage;
use super::memory::{poison, read_header, write_header, write_pad, write_tail};
use super::peek::Header;
use super::plan::{HEADER, tail_len};
use super::record::{CookieRecord, Life, Listed};
use crate::block::{FoundTogether, GuardFinding, HeldBlock, Known};

/// Records that are looked at without letting the quarantine go.
const STRETCH: u32 = 128;
/// Faults that are remembered until it is let go.
const REMEMBERED: usize = 8;

impl Cookies {
    /// Tells of every live and every waiting block. No lock is held in the calls, which may take and free blocks; what others take or
    /// free meanwhile may be missing or, as it goes over, be there twice.
    pub(crate) fn for_each(&self, told: &mut dyn FnMut(&Known)) {
        for listed in self.table.all().filter_map(CookieRecord::read) {
            if matches!(listed.life, Life::Live | Life::Waiting) {
                told(&listed.known());
            }
        }
    }

    /// Looks at what stands around every live block and at every byte of those that wait. What is wrong is told and put right, so it
    /// is told once. Other threads may take and free meanwhile. No lock is held in the calls.
    pub(crate) fn check(&self, found: &mut FoundTogether<'_>) {
        let mut number = 0;
        while number < self.table.issued() {
            let mut faults = ReportBuffer::default();
            let held = self.quarantine.hold();
            let stop = number.saturating_add(STRETCH).min(self.table.issued());
            while number < stop && faults.room() >= 2 {
                if let Some(record) = self.table.nth(number) {
                    self.check_one(record, &mut faults);
                }
                number += 1;
            }
            drop(held);
            found(&mut faults.faults.into_iter().flatten());
        }
    }

    /// The quarantine is held: a block that waits now does so until it is let go.
    fn check_one(&self, record: &CookieRecord, faults: &mut ReportBuffer) {
        match record.read() {
            Some(listed) if listed.life == Life::Live => self.check_live(record, &listed, faults),
            Some(listed) if listed.life == Life::Waiting => {
                self.check_waiting(record, &listed, faults)
            }
            _ => {}
        }
    }

    /// The quarantine is held: a block that is listed now keeps its memory, though it may be freed meanwhile.
    fn check_live(&self, record: &CookieRecord, listed: &Listed, faults: &mut ReportBuffer) {
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
            for fault in self.mend_held(start, words).into_iter().flatten() {
                faults.add(fault);
            }
        }
    }

    fn check_waiting(&self, record: &CookieRecord, listed: &Listed, faults: &mut ReportBuffer) {
        let (start, words, sum) = (listed.start, listed.words, listed.sum);
        if self.is_poisoned(start, words, sum) {
            return;
        }
        let Some(fault) = self.write_after_free(record) else {
            return;
        };
        faults.add(fault);
        // SAFETY: a block in quarantine, which is held.
        unsafe { write_header(start, words, self.keys.turned(sum, Stage::Freed)) };
        // SAFETY: as above; light blocks do not wait.
        unsafe { write_tail(start, words.size(), sum) };
        // SAFETY: as above.
        unsafe { poison(start, words.size()) };
        // SAFETY: as above.
        unsafe { write_pad(&self.keys, start, words.align().max(HEADER)) };
    }

    /// The live or waiting block that has the byte at `address`, its header and tail included. Walks the table.
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

    /// What waits. The few that left quarantine and are kept by caches are not counted: nothing is found in them any more.
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
        // Where the header is not damaged there, it says which record it is.
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

/// Faults found while a lock was held.
#[derive(Default)]
struct ReportBuffer {
    faults: [Option<GuardFinding>; REMEMBERED],
    count: usize,
}

impl ReportBuffer {
    fn room(&self) -> usize {
        REMEMBERED - self.count
    }

    fn add(&mut self, fault: GuardFinding) {
        if let Some(place) = self.faults.get_mut(self.count) {
            *place = Some(fault);
            self.count += 1;
        }
    }
}
