//! Looking at every block that lives or waits.

use super::Cookies;
use super::give::peek;
use super::keys::Stage;
use super::memory::{POISON, fill, read_header, write_header, write_pad, write_tail};
use super::plan::{HEADER, tail_len};
use super::quarantine::{ENTRIES, Waiting};
use super::words::Words;
use crate::block::{Fault, Held, Known, Mark, State};

/// Records that are looked at without letting the quarantine go.
const STRETCH: u32 = 128;
/// Faults that are remembered until it is let go.
const REMEMBERED: usize = 8;

impl Cookies {
    /// Tells of every live and every waiting block. No lock is held in the calls, which may take and free blocks; what others take or
    /// free meanwhile may be missing or, as it goes over, be there twice.
    pub(crate) fn for_each(&self, told: &mut dyn FnMut(&Known)) {
        for (start, words) in self.live_blocks() {
            told(&words.known(start, State::Live, Mark::default()));
        }
        for chunk in self.lanes.chunks().chain(self.quarantine.chunks()) {
            let mut batch = [Waiting::default(); ENTRIES];
            let held = self.quarantine.hold();
            let blocks = batch.iter_mut().zip(chunk.blocks()).map(|(to, from)| *to = from).count();
            drop(held);
            for block in batch.iter().take(blocks) {
                told(&block.known());
            }
        }
    }

    /// Looks at what stands around every live block and at every byte of those that wait. What is wrong is told and put right, so it
    /// is told once. Other threads may take and free meanwhile. No lock is held in the calls.
    pub(crate) fn check(&self, found: &mut dyn FnMut(Fault)) {
        let mut token = 0;
        while token < self.table.given_out() {
            let mut faults = Remembered::default();
            let held = self.quarantine.hold();
            let stop = token.saturating_add(STRETCH).min(self.table.given_out());
            while token < stop && faults.room() >= 2 {
                self.check_live(token, &mut faults);
                token += 1;
            }
            drop(held);
            faults.tell(found);
        }
        for chunk in self.lanes.chunks().chain(self.quarantine.chunks()) {
            let mut place = 0;
            loop {
                let mut faults = Remembered::default();
                let held = self.quarantine.hold();
                let mut more = false;
                for block in chunk.blocks().skip(place) {
                    if faults.room() == 0 {
                        more = true;
                        break;
                    }
                    self.check_waiting(&block, &mut faults);
                    place += 1;
                }
                drop(held);
                faults.tell(found);
                if !more {
                    break;
                }
            }
        }
    }

    /// The quarantine is held: a block that is listed now keeps its memory, though it may be freed meanwhile.
    fn check_live(&self, token: u32, faults: &mut Remembered) {
        let Some(record) = self.table.record(token) else { return };
        let Some((start, words)) = record.read().filter(|(_, words)| !words.light()) else { return };
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

    fn check_waiting(&self, block: &Waiting, faults: &mut Remembered) {
        if self.rests(block.address, block.words, block.sum) {
            return;
        }
        let (Some(fault), true) = self.unrest(block) else { return };
        faults.add(fault);
        let (start, words) = (block.address, block.words);
        // SAFETY: a block in quarantine, which is held.
        unsafe { write_header(start, words, self.keys.turned(block.sum, Stage::Freed)) };
        // SAFETY: as above.
        unsafe { fill(start, POISON, words.size()) };
        // SAFETY: as above; light blocks do not wait.
        unsafe { write_tail(start, words.size(), block.sum) };
        // SAFETY: as above.
        unsafe { write_pad(&self.keys, start, words.align().max(HEADER)) };
    }

    /// The live or waiting block that has the byte at `address`, its header and tail included. Walks the table.
    pub(crate) fn find(&self, address: usize) -> Option<Known> {
        let has = |start: usize, words: Words| {
            let behind = if words.light() { 0 } else { tail_len(words.size()) };
            (start.wrapping_sub(HEADER)..start.wrapping_add(words.size()).wrapping_add(behind)).contains(&address)
        };
        let live = self.live_blocks().find(|(start, words)| has(*start, *words));
        match live {
            Some((start, words)) => Some(words.known(start, State::Live, Mark::default())),
            None => self.waiting(|block| has(block.address, block.words)).map(|block| block.known()),
        }
    }

    /// What waits. Nothing else is held beside live blocks.
    pub(crate) fn held(&self) -> Held {
        let _held = self.quarantine.hold();
        let mut sum = Held::default();
        for chunk in self.lanes.chunks().chain(self.quarantine.chunks()) {
            sum.quarantined += chunk.blocks().count() as u64;
            sum.quarantined_bytes += chunk.bytes() as u64;
        }
        sum
    }

    fn live_blocks(&self) -> impl Iterator<Item = (usize, Words)> {
        (0..self.table.given_out()).filter_map(|token| self.table.record(token)?.read())
    }

    /// What the live block at `start` is listed as.
    pub(super) fn listed(&self, start: usize) -> Option<Words> {
        // Where the header is not damaged there, it says which record it is.
        let token = peek(start).and_then(|(words, _)| self.table.record(words.token())?.read());
        let near = token.filter(|(listed, _)| *listed == start);
        near.or_else(|| self.live_blocks().find(|(listed, _)| *listed == start)).map(|(_, words)| words)
    }

    /// `words`, where the live block at `start` is listed as that.
    pub(super) fn listed_as(&self, start: usize, words: Words) -> Option<Words> {
        let (listed, found) = self.table.record(words.token())?.read()?;
        (listed == start && found == words).then_some(words)
    }

    /// The waiting block that `wanted` accepts.
    pub(super) fn waiting(&self, wanted: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let _held = self.quarantine.hold();
        self.lanes.chunks().chain(self.quarantine.chunks()).find_map(|chunk| chunk.blocks().find(|block| wanted(block)))
    }
}

/// Faults found while a lock was held.
#[derive(Default)]
struct Remembered {
    faults: [Option<Fault>; REMEMBERED],
    count: usize,
}

impl Remembered {
    fn room(&self) -> usize {
        REMEMBERED - self.count
    }

    fn add(&mut self, fault: Fault) {
        if let Some(place) = self.faults.get_mut(self.count) {
            *place = Some(fault);
            self.count += 1;
        }
    }

    fn tell(self, found: &mut dyn FnMut(Fault)) {
        self.faults.into_iter().flatten().for_each(found);
    }
}
