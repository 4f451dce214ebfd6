//! Looking at blocks without being asked by their owners: all of them, live ones, what waits.

use super::around::Around;
use super::bytes;
use super::ground::Ground;
use super::pages::Pages;
use super::record::Record;
use super::table::CHUNK;
use super::word::{Kind, Word};
use super::{Found, Slots};
use crate::block::{Fault, Held, Known};

impl<P: Pages> Slots<P> {
    /// Looks at what is around every live block, and at every freed one within reach. How many faults `found` heard of.
    ///
    /// What was changed is written back, so that the next look tells what is new. Other threads may go on meanwhile.
    pub(crate) fn check(&self, found: &mut Found<'_>) -> usize {
        let mut count = 0;
        self.for_each_record(|ground, cell, record, word| {
            // Nobody frees it meanwhile, or has it expire.
            let (home, all) = match word.kind() {
                Kind::Live => (Some(self.stashes.at(word.home())), None),
                Kind::Kept => (None, Some(self.stashes.hold_all())),
                _ => return,
            };
            // The records of a chunk that died meanwhile may serve other cells by now: then the word, the same again, is another block's.
            let still_here = ground.record(cell).is_some_and(|now| core::ptr::eq(now, record));
            if record.word() != word || !still_here {
                return;
            }
            let around = self.look_around(ground, cell, word);
            let block = self.known_of(ground, cell, word, record);
            let late = if word.kind() == Kind::Kept { self.look_within(ground, cell, record, word) } else { None };
            drop((home, all));
            for fault in around.faults(block).chain(late) {
                count += 1;
                found(fault);
            }
        });
        count
    }

    fn look_around(&self, ground: &Ground<P>, cell: u32, word: Word) -> Around {
        let around = self.around(ground, ground.geometry.place(cell, word.shape()), word.shape());
        self.mend(around);
        around
    }

    fn look_within(&self, ground: &Ground<P>, cell: u32, record: &Record, word: Word) -> Option<Fault> {
        let shape = word.shape();
        if shape.size == 0 {
            return None;
        }
        let place = ground.geometry.place(cell, shape);
        // SAFETY: a freed block within reach; whoever wants it waits for us.
        let written = unsafe { bytes::poison_changed(place.start, shape.size) }?;
        // SAFETY: within that block.
        unsafe { bytes::fill(written.first, written.span, bytes::FREED) };
        Some(self.late(cell, record, written))
    }

    /// Every live block, in no particular order. Blocks taken or given meanwhile may be among them or not.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Known)) {
        self.for_each_record(|ground, cell, record, word| {
            if word.kind() == Kind::Live {
                each(&self.known_of(ground, cell, word, record));
            }
        });
    }

    /// What is held beside live blocks, and in all.
    pub(crate) fn held(&self) -> Held {
        let mut held = Held::default();
        self.for_each_record(|_, _, _, word| {
            if word.kind() == Kind::Kept {
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
