use super::Cookies;
use super::layout::{HEADER, HeaderWords, Stage, tail_len};
use super::memory::{
    Header, header_changes, pad_changes, pad_holds, poison, poison_changes, poison_holds, read_header, write_header,
    write_pad, write_tail,
};
use super::record::{CookieRecord, Life, Listed};
use crate::block::{FindingSink, GuardFinding, Known};
use crate::report_kind::ReportKind;

impl Cookies {
    /// `told` is called with no lock held.
    pub(crate) fn for_each(&self, told: &mut dyn FnMut(&Known)) {
        for listed in self.table.all().filter_map(CookieRecord::read) {
            if matches!(listed.life, Life::Live | Life::Waiting) {
                told(&listed.known());
            }
        }
    }

    /// Changes are repaired, so each is reported once. `found` is called with no lock held.
    pub(crate) fn check(&self, found: &mut FindingSink<'_>) {
        for record in self.table.all() {
            let Some(words) = record.read().map(|listed| listed.words) else {
                continue;
            };
            let number = self.quarantine.number(words);
            let shard = self.quarantine.shard(number).lock();
            let findings = match record.read().filter(|listed| listed.words == words) {
                Some(Listed { start, sum, life: Life::Live, .. }) => {
                    // SAFETY: the block rule: a live block whose shard is locked.
                    let header = unsafe { read_header(start) };
                    if header == (words, sum) && self.is_whole(start, words, sum) {
                        [None; 2]
                    } else {
                        self.mend(start, words, sum)
                    }
                }
                Some(listed) if listed.life == Life::Waiting => [self.mend_freed(record, &listed), None],
                _ => [None; 2],
            };
            drop(shard);
            found(&mut findings.into_iter().flatten());
        }
    }

    /// The block's shard is locked.
    fn mend_freed(&self, record: &CookieRecord, listed: &Listed) -> Option<GuardFinding> {
        let (start, words, sum) = (listed.start, listed.words, listed.sum);
        if self.is_poisoned(start, words, sum) {
            return None;
        }
        let finding = self.write_after_free(record)?;
        // SAFETY: the block rule: in quarantine, its shard locked.
        unsafe { write_header(start, words, self.keys.turned(sum, Stage::Freed)) };
        // SAFETY: the block rule; header-only blocks do not wait.
        unsafe { write_tail(start, words.size(), sum) };
        // SAFETY: the block rule.
        unsafe { poison(start, words.size()) };
        // SAFETY: the block rule.
        unsafe { write_pad(&self.keys, start, words.align().max(HEADER)) };
        Some(finding)
    }

    #[inline(always)]
    pub(super) fn is_poisoned(&self, start: usize, words: HeaderWords, sum: u64) -> bool {
        // SAFETY: the block rule: in quarantine.
        let header = unsafe { read_header(start) };
        header == (words, self.keys.turned(sum, Stage::Freed))
            // SAFETY: the block rule: in quarantine.
            && unsafe { poison_holds(start, words.size(), sum) }
            // SAFETY: the block rule; `front` as in its plan.
            && (words.align() <= HEADER || unsafe { pad_holds(&self.keys, start, words.align()) })
    }

    #[cold]
    pub(super) fn write_after_free(&self, record: &CookieRecord) -> Option<GuardFinding> {
        let listed = record.read()?;
        let (start, words) = (listed.start, listed.words);
        // SAFETY: the block rule: in quarantine.
        let object = unsafe { poison_changes(start, words.size(), listed.sum) };
        // SAFETY: the block rule: in quarantine.
        let header = || unsafe { header_changes(&self.keys, start, words, Stage::Freed) };
        // SAFETY: the block rule: in quarantine.
        let pad = || unsafe { pad_changes(&self.keys, start, words.align().max(HEADER)) };
        let changed = object.or_else(header).or_else(pad)?;
        let known = Some(listed.known());
        Some(GuardFinding::of_change(ReportKind::UseAfterFree, known, changed))
    }

    /// Walks the table.
    pub(crate) fn find(&self, address: usize) -> Option<Known> {
        let has = |start: usize, words: HeaderWords| {
            let behind = if words.header_only() { 0 } else { tail_len(words.size()) };
            (start.wrapping_sub(HEADER)..start.wrapping_add(words.size()).wrapping_add(behind)).contains(&address)
        };
        let with = |listed: &Listed| has(listed.start, listed.words);
        let listed = self.table.all().find_map(|record| record.live().filter(with)).or_else(|| self.freed(with))?;
        Some(listed.known())
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> (u64, u64) {
        self.quarantine.waiting()
    }

    pub(super) fn listed(&self, start: usize, header: Option<Header>) -> Option<(&CookieRecord, Header)> {
        let here = |record: &CookieRecord| {
            record.live().filter(|listed| listed.start == start).map(|listed| (listed.words, listed.sum))
        };
        // An undamaged header names the record.
        let near = header.and_then(|(words, _)| self.table.record(words.token()));
        let near = near.and_then(|record| Some((record, here(record)?)));
        near.or_else(|| self.table.all().find_map(|record| Some((record, here(record)?))))
    }

    pub(super) fn freed(&self, wanted: impl Fn(&Listed) -> bool) -> Option<Listed> {
        self.table.all().find_map(|record| record.read().filter(|listed| listed.is_freed() && wanted(listed)))
    }
}
