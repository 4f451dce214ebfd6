//! One line of the table: seven places, and a word that says at a glance which of them may be meant.
//!
//! ```text
//!   0        8       ..      48       56       64
//!   | slot 0 | slot 1 | .. | slot 6 | meta     |       slot: hash[63:32] << 32 | number of the entry + 1; 0 is empty
//!   meta, bytes 0 to 6: 0x80 | hash[63:57] of the slot, 0 where that is empty; byte 7: how many passed by since it was full
//! ```
//! Readers take no lock: a writer fills a slot before its tag, and clears the tag before the slot. What a reader finds is a hint, which
//! the entry itself confirms.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Places of a bucket.
pub(super) const SLOTS: usize = 7;
/// A count that sticks: so many passed by that nobody counts any more.
const MANY: u64 = 0xFF;
const ONES: u64 = 0x0001_0101_0101_0101;
const TOPS: u64 = 0x0080_8080_8080_8080;

/// All zeros is an empty one.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    slots: [AtomicU64; SLOTS],
    meta: AtomicU64,
}

/// What a hash looks like in a bucket.
#[derive(Clone, Copy)]
pub(super) struct Sought {
    tags: u64,
    high: u64,
}

impl Sought {
    #[inline(always)]
    pub(super) const fn new(hash: u64) -> Self {
        Self { tags: ONES * (0x80 | hash >> 57), high: hash >> 32 }
    }

    const fn tag(self) -> u64 {
        self.tags & 0xFF
    }
}

impl Bucket {
    /// Calls `each` with the entries that may be meant, until it says that one is; answers whether to go on in the next bucket.
    #[inline(always)]
    pub(super) fn search<R>(&self, sought: Sought, each: &mut impl FnMut(u32) -> Option<R>) -> Result<R, bool> {
        let meta = self.meta.load(Acquire);
        // A byte of 0 where the tag is that of the slot; some others may look so too, and fail at the next comparison.
        let other = (meta ^ sought.tags) & (u64::MAX >> 8);
        let mut matches = other.wrapping_sub(ONES) & !other & TOPS;
        while matches != 0 {
            let place = matches.trailing_zeros() as usize / 8;
            if let Some(entry) = self.slots.get(place).and_then(|slot| named(slot.load(Acquire), sought))
                && let Some(found) = each(entry)
            {
                return Ok(found);
            }
            matches &= matches - 1;
        }
        Err(meta >> 56 != 0)
    }

    /// Puts an entry in; false where all places are taken. The writer's.
    pub(super) fn put(&self, sought: Sought, entry: u32) -> bool {
        let meta = self.meta.load(Relaxed);
        let Some(place) = (0..SLOTS).find(|place| meta >> (place * 8) & 0xFF == 0) else { return false };
        let Some(slot) = self.slots.get(place) else { return false };
        slot.store(sought.high << 32 | (u64::from(entry) + 1), Release);
        self.meta.store(meta | sought.tag() << (place * 8), Release);
        true
    }

    /// Takes an entry out; false where it is not here. The writer's.
    pub(super) fn take(&self, sought: Sought, entry: u32) -> bool {
        let word = sought.high << 32 | (u64::from(entry) + 1);
        let Some(place) = self.slots.iter().position(|slot| slot.load(Relaxed) == word) else { return false };
        let meta = self.meta.load(Relaxed);
        self.meta.store(meta & !(0xFF << (place * 8)), Release);
        if let Some(slot) = self.slots.get(place) {
            slot.store(0, Release);
        }
        true
    }

    /// An entry goes on to the next bucket, before it is put there. The writer's.
    pub(super) fn passed(&self) {
        let meta = self.meta.load(Relaxed);
        if meta >> 56 < MANY {
            self.meta.store(meta + (1 << 56), Release);
        }
    }

    /// One that had passed is gone. The writer's.
    pub(super) fn passed_back(&self) {
        let meta = self.meta.load(Relaxed);
        if (1..MANY).contains(&(meta >> 56)) {
            self.meta.store(meta - (1 << 56), Release);
        }
    }

    /// What is in it. The writer's.
    pub(super) fn entries(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter_map(|slot| (slot.load(Relaxed) as u32).checked_sub(1))
    }
}

/// The entry that a slot names, if it has these upper bits of the hash.
#[inline(always)]
const fn named(word: u64, sought: Sought) -> Option<u32> {
    if word >> 32 == sought.high { (word as u32).checked_sub(1) } else { None }
}
