//! Verifies and lists blocks independently of frees: all, live ones, queued ones.

use super::Slots;
use super::fill;
use super::record::CellRecord;
use super::slot_region::SlotRegion;
use super::slot_state::{SlotKind, SlotState};
use super::table::CHUNK;
use crate::block::{FindingSink, GuardFinding, HeldBlock, Known};
use crate::os::Pages;

impl<P: Pages> Slots<P> {
    /// Looks at what is around every live block, and at every freed one within reach. How many faults `found` heard of.
    ///
    /// Changes are repaired, so that each is reported once. Other threads may continue meanwhile.
    pub(crate) fn check(&self, found: &mut FindingSink<'_>) -> usize {
        let mut count = 0;
        self.for_each_record(|region, cell, record, word| {
            // With these locks no thread frees the block or lets it expire.
            let (cache_number, all) = match word.kind() {
                SlotKind::Live => (Some(self.caches.at(word.cache_number())), None),
                SlotKind::Kept => (None, Some(self.caches.hold_all())),
                _ => return,
            };
            // The records of a chunk that died meanwhile may serve other cells: then the same word is another block's.
            let still_here = region
                .record(cell)
                .is_some_and(|now| core::ptr::eq(now, record));
            if record.word() != word || !still_here {
                return;
            }
            let shape = word.shape();
            let place = region.geometry.place(cell, shape);
            let redzone = self.redzone(region, place, shape);
            self.mend(redzone);
            let block = self.known_of(region, cell, word, record);
            let late = (word.kind() == SlotKind::Kept && shape.size > 0)
                // SAFETY: the cell keeps a freed block of this place and size; the caches are locked.
                .then(|| unsafe { self.verify_quarantined(cell, record, place.start, shape.size) })
                .flatten();
            drop((cache_number, all));
            found(&mut redzone.findings(block).chain(late).inspect(|_| count += 1));
        });
        count
    }

    /// # Safety
    /// `start` and `size` are those of the accessible freed block that the cell keeps, and the caches are locked.
    unsafe fn verify_quarantined(
        &self,
        cell: u32,
        record: &CellRecord,
        start: usize,
        size: usize,
    ) -> Option<GuardFinding> {
        // SAFETY: the caller's promise.
        let written = unsafe { fill::poison_changed(start, size) }?;
        // SAFETY: within that block.
        unsafe { fill::fill(written.first, written.span, fill::FREED) };
        Some(self.late(cell, record, written))
    }

    /// Calls `each` for every live block, in no order. Blocks allocated or freed meanwhile may be missing.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Known)) {
        self.for_each_record(|region, cell, record, word| {
            if word.kind() == SlotKind::Live {
                each(&self.known_of(region, cell, word, record));
            }
        });
    }

    /// Quarantined blocks, pages and addresses.
    pub(crate) fn held(&self) -> HeldBlock {
        let mut held = HeldBlock::default();
        self.for_each_record(|_, _, _, word| {
            if word.kind() == SlotKind::Kept {
                held.quarantined += 1;
                held.quarantined_bytes += word.shape().size as u64;
            }
        });
        for region in self.regions() {
            held.pages += region.provided() as u64;
            held.reserved += region.reserved_bytes() as u64;
        }
        held
    }

    fn regions(&self) -> impl Iterator<Item = &SlotRegion<P>> {
        core::iter::once(&self.small).chain(self.large())
    }

    fn for_each_record(&self, mut each: impl FnMut(&SlotRegion<P>, u32, &CellRecord, SlotState)) {
        for region in self.regions() {
            let used =
                (0..region.table.chunks()).filter(|&number| region.table.chunk(number).is_some());
            for cell in used.flat_map(|number| number * CHUNK..(number + 1) * CHUNK) {
                if let Some(record) = region.record(cell) {
                    each(region, cell, record, record.word());
                }
            }
        }
    }
}
