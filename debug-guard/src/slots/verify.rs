//! Verifies and lists blocks independently of frees: all, live ones, queued ones.

use super::Slots;
use super::fill;
use super::record::CellRecord;
use super::slot_region::SlotRegion;
use super::slot_state::{SlotKind, SlotState};
use super::table::CHUNK;
use crate::block::{FoundTogether, GuardFinding, HeldBlock, Known};
use crate::os::Pages;

impl<P: Pages> Slots<P> {
    /// Looks at what is around every live block, and at every freed one within reach. How many faults `found` heard of.
    ///
    /// What was changed is written back, so that the next look tells what is new. Other threads may go on meanwhile.
    pub(crate) fn check(&self, found: &mut FoundTogether<'_>) -> usize {
        let mut count = 0;
        self.for_each_record(|ground, cell, record, word| {
            // Nobody frees it meanwhile, or has it expire.
            let (home, all) = match word.kind() {
                SlotKind::Live => (Some(self.stashes.at(word.cache_number())), None),
                SlotKind::Kept => (None, Some(self.stashes.hold_all())),
                _ => return,
            };
            // The records of a chunk that died meanwhile may serve other cells by now: then the word, the same again, is another block's.
            let still_here = ground
                .record(cell)
                .is_some_and(|now| core::ptr::eq(now, record));
            if record.word() != word || !still_here {
                return;
            }
            let shape = word.shape();
            let place = ground.geometry.place(cell, shape);
            let around = self.redzone(ground, place, shape);
            self.mend(around);
            let block = self.known_of(ground, cell, word, record);
            let late = (word.kind() == SlotKind::Kept && shape.size > 0)
                .then(|| self.verify_quarantined(cell, record, place.start, shape.size))
                .flatten();
            drop((home, all));
            found(&mut around.faults(block).chain(late).inspect(|_| count += 1));
        });
        count
    }

    fn verify_quarantined(
        &self,
        cell: u32,
        record: &CellRecord,
        start: usize,
        size: usize,
    ) -> Option<GuardFinding> {
        // SAFETY: a freed block within reach; whoever wants it waits for us.
        let written = unsafe { fill::poison_changed(start, size) }?;
        // SAFETY: within that block.
        unsafe { fill::fill(written.first, written.span, fill::FREED) };
        Some(self.late(cell, record, written))
    }

    /// Every live block, in no particular order. Blocks taken or given meanwhile may be among them or not.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Known)) {
        self.for_each_record(|ground, cell, record, word| {
            if word.kind() == SlotKind::Live {
                each(&self.known_of(ground, cell, word, record));
            }
        });
    }

    /// What is held beside live blocks, and in all.
    pub(crate) fn held(&self) -> HeldBlock {
        let mut held = HeldBlock::default();
        self.for_each_record(|_, _, _, word| {
            if word.kind() == SlotKind::Kept {
                held.quarantined += 1;
                held.quarantined_bytes += word.shape().size as u64;
            }
        });
        for ground in self.regions() {
            held.pages += ground.provided() as u64;
            held.reserved += ground.reserved_bytes() as u64;
        }
        held
    }

    fn regions(&self) -> impl Iterator<Item = &SlotRegion<P>> {
        core::iter::once(&self.small).chain(self.large())
    }

    fn for_each_record(&self, mut each: impl FnMut(&SlotRegion<P>, u32, &CellRecord, SlotState)) {
        for ground in self.regions() {
            let used =
                (0..ground.table.chunks()).filter(|&number| ground.table.chunk(number).is_some());
            for cell in used.flat_map(|number| number * CHUNK..(number + 1) * CHUNK) {
                if let Some(record) = ground.record(cell) {
                    each(ground, cell, record, record.word());
                }
            }
        }
    }
}
