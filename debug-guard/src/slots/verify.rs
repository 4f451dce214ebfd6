//! Verifies and lists blocks independently of frees.

use core::sync::atomic::Ordering::Relaxed;

use super::Slots;
use super::record::SlotKind;
use super::redzone;
use crate::block::{FindingSink, HeldBlock, Known};

impl Slots {
    /// Verifies what is around every live block, and every freed one within reach. Returns the number of findings.
    ///
    /// Changes are repaired, so that each is reported once. Other threads may continue meanwhile.
    pub(crate) fn check(&self, found: &mut FindingSink<'_>) -> usize {
        let mut count = 0;
        for (cell, record) in self.table.all() {
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
                // SAFETY: the cell keeps a freed block of this place and size; the lists are locked.
                let written = unsafe { redzone::poison_changed(place.start, shape.size, true) };
                written.map(|written| {
                    // SAFETY: within that block.
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

    /// Calls `each` for every live block, in no order. Blocks allocated or freed meanwhile may be missing.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Known)) {
        for (cell, record) in self.table.all() {
            let word = record.word();
            if word.kind() == SlotKind::Live {
                each(&self.known_of(cell, word, record));
            }
        }
    }

    /// Quarantined blocks, pages and addresses.
    pub(crate) fn held(&self) -> HeldBlock {
        let quarantined = u64::from(self.lists.lock().waiting());
        HeldBlock {
            quarantined,
            quarantined_bytes: quarantined * self.geometry.page_bytes() as u64,
            pages: self.provided.load(Relaxed) as u64,
            reserved: (self.pages.pages() * self.geometry.page_bytes()) as u64,
        }
    }
}
