use super::record::{CellRecord, SlotKind};
use super::{Slots, redzone};
use crate::block::{FindingSink, Known};

impl Slots {
    /// Changes are repaired, so that each is reported once. Returns the number of findings.
    pub(crate) fn check(&self, found: &mut FindingSink<'_>) -> usize {
        let mut count = 0;
        for (cell, record) in self.cells() {
            let word = record.word();
            if !matches!(word.kind(), SlotKind::Live | SlotKind::Kept) {
                continue;
            }
            // With this lock no thread frees the block or lets it leave quarantine.
            let lists = self.lists.lock();
            if record.word() != word {
                continue;
            }
            let shape = word.shape();
            let place = self.geometry.place(cell, shape);
            let redzone = self.mended_redzone(place, shape).unwrap_or_default();
            let block = self.known_of(cell, word, record);
            let late = if word.kind() == SlotKind::Kept && shape.size > 0 {
                // SAFETY: the cell rule (`slots`): a freed block; the lists are locked.
                let written = unsafe { redzone::poison_changed(place.start, shape.size, true) };
                written.map(|written| {
                    // SAFETY: the cell rule: within that block.
                    unsafe { redzone::fill(written.first, written.span, redzone::FREED) };
                    self.late(cell, record, written)
                })
            } else {
                None
            };
            drop(lists);
            found(&mut redzone.findings(block).chain(late).inspect(|_| count += 1));
        }
        count
    }

    fn cells(&self) -> impl Iterator<Item = (u32, &CellRecord)> {
        (0..self.table.count()).filter_map(|cell| Some((cell, self.table.get(cell)?)))
    }

    /// Blocks allocated or freed meanwhile may be missing.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Known)) {
        for (cell, record) in self.cells() {
            let word = record.word();
            if word.kind() == SlotKind::Live {
                each(&self.known_of(cell, word, record));
            }
        }
    }

    pub(crate) fn reserved(&self) -> u64 {
        (self.pages.pages() * self.geometry.page_bytes()) as u64
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> (u32, usize) {
        let waiting = self.lists.lock().waiting();
        (waiting, self.provided.load(core::sync::atomic::Ordering::Relaxed))
    }
}
