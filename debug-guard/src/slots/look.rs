//! Looking at blocks without being asked by their owners: all of them, live ones, what waits.

use super::bytes;
use super::ground::Ground;
use super::pages::Pages;
use super::record::Record;
use super::table::CHUNK;
use super::word::{Kind, Word};
use super::{Found, Slots};
use crate::block::{Held, Known};

impl<P: Pages> Slots<P> {
    /// Looks at what is around every live block, and at every freed one within reach. How many faults `found` heard of.
    ///
    /// What was changed is written back, so that the next look tells what is new. Other threads may go on meanwhile.
    pub(crate) fn check(&self, found: &mut Found<'_>) -> usize {
        let mut count = 0;
        self.for_each_record(|ground, cell, record, word| {
            let looked = match word.kind() {
                Kind::Live => Kind::LiveLooked,
                Kind::Kept => Kind::KeptLooked,
                _ => return,
            };
            if record.advance(word, looked).is_err() {
                return;
            }
            let shape = word.shape();
            let place = ground.geometry.place(cell, shape);
            let around = self.around(ground, place, shape);
            self.mend(around);
            let mut late = None;
            if looked == Kind::KeptLooked {
                // SAFETY: a freed block within reach; whoever wants it waits for us.
                let written = unsafe { bytes::poison_changed(place.start, shape.size, true) };
                late = written.map(|changed| self.late(cell, record, changed));
                if let Some(changed) = written {
                    // SAFETY: within that block.
                    unsafe { bytes::fill(changed.first, changed.span, bytes::FREED) };
                }
            }
            let block = self.known_of(ground, cell, word, record);
            record.set(word);
            for fault in around.faults(block).chain(late) {
                count += 1;
                found(fault);
            }
        });
        count
    }

    /// Every live block, in no particular order. Blocks taken or given meanwhile may be among them or not.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Known)) {
        self.for_each_record(|ground, cell, record, word| {
            if word.kind().is_live() {
                each(&self.known_of(ground, cell, word, record));
            }
        });
    }

    /// What is held beside live blocks, and in all.
    pub(crate) fn held(&self) -> Held {
        let mut held = Held::default();
        self.for_each_record(|_, _, _, word| {
            if matches!(word.kind(), Kind::Kept | Kind::KeptLooked) {
                held.quarantined += 1;
                held.quarantined_bytes += word.shape().size as u64;
            }
        });
        for ground in self.grounds() {
            held.pages += ground.provided() as u64;
            held.reserved += ground.reserved_bytes() as u64;
        }
        held
    }

    /// Bytes of the allocator behind that records take.
    pub(crate) fn record_bytes(&self) -> usize {
        self.grounds().map(|ground| ground.table.bytes()).sum()
    }

    fn grounds(&self) -> impl Iterator<Item = &Ground<P>> {
        core::iter::once(&self.small).chain(self.large())
    }

    fn for_each_record(&self, mut each: impl FnMut(&Ground<P>, u32, &Record, Word)) {
        for ground in self.grounds() {
            let used = (0..ground.table.chunks()).filter(|&number| ground.table.chunk(number).is_some());
            for cell in used.flat_map(|number| number * CHUNK..(number + 1) * CHUNK) {
                if let Some(record) = ground.record(cell) {
                    each(ground, cell, record, record.word());
                }
            }
        }
    }
}
