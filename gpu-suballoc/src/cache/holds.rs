//! Who uses an entry right now: a word in a record of the thread's own, so that a hit writes nothing that others read.
//!
//! ```text
//!   record of a thread slot    | word 0 | word 1 | .. | word 13 | hint | hits |       a word: 0, or number of the entry + 1
//!
//!   hold:     word <- entry   (SeqCst)      delete:   state <- DEAD  (SeqCst)
//!             read state      (SeqCst)                read all words and refs (SeqCst)
//!   release:  word <- 0       (SeqCst)
//!             read state      (SeqCst): DEAD -> sweep
//! ```
//! Of a hold and a delete at once at least one sees the other: a hold that the delete missed reads DEAD and lets go. Of a release and a
//! delete at once at least one sees that nobody holds any more, and destroys. Reading the state after the release is sound because
//! entries never move; if it was used anew meanwhile, the worst is a sweep for nothing.
//!
//! A record is put in its place before its first word is written, and places are read like words (SeqCst too): a delete that does not see
//! the record is one that its holds see.
//!
//! Only the thread of the slot makes a word of 0 another; whoever has the hold makes it 0 again, on any thread.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use alloc_core::{HostAllocator, Scope};

use super::entry::{DEAD, Entry};
use crate::sync::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

/// Threads with a record at the same time; others count in the entry.
pub(super) const RECORDS: usize = 64;
/// Holds of a thread at the same time; more count in the entry.
pub(super) const WORDS: usize = 14;

/// All zeros is one without holds.
#[repr(C, align(128))]
pub(super) struct Record {
    words: [AtomicU64; WORDS],
    /// Where a word was free last. The thread's own.
    hint: AtomicU64,
    /// How often the thread, and those that had the slot before, found what it asked for. The thread's own.
    hits: AtomicU64,
}

/// The records of a cache.
pub(super) struct Records {
    records: [AtomicPtr<Record>; RECORDS],
}

/// Where a hold stands: a word of a record, or the entry's count.
pub(super) type Word = Option<NonNull<AtomicU64>>;

impl Records {
    pub(super) const fn new() -> Self {
        Self { records: [const { AtomicPtr::new(null_mut()) }; RECORDS] }
    }

    /// The record of this slot, which is the calling thread's.
    #[inline(always)]
    pub(super) fn of(&self, slot: Option<usize>) -> Option<&Record> {
        // SAFETY: a record lives as long as this value.
        unsafe { self.records.get(slot?)?.load(Acquire).as_ref() }
    }

    /// Makes the record of the calling thread's slot. Where there is no memory for it holds are counted in the entry.
    #[cold]
    pub(super) fn make(&self, slot: usize, memory: &dyn HostAllocator) {
        let Some(place) = self.records.get(slot).filter(|place| place.load(Relaxed).is_null()) else { return };
        let Ok(block) = memory.allocate_zeroed(Layout::new::<Record>(), Scope::Cache) else { return };
        if place.compare_exchange(null_mut(), block.cast().as_ptr(), SeqCst, Acquire).is_err() {
            // SAFETY: just taken, seen by nobody.
            unsafe { memory.deallocate(block, Layout::new::<Record>(), Scope::Cache) };
        }
    }

    /// Some word names the entry. With the lock.
    pub(super) fn name(&self, entry: u32) -> bool {
        let word = u64::from(entry) + 1;
        self.records.iter().any(|place| {
            // SAFETY: a record lives as long as this value.
            let record = unsafe { place.load(SeqCst).as_ref() };
            record.is_some_and(|record| record.words.iter().any(|there| there.load(SeqCst) == word))
        })
    }

    /// How many holds there are in records. As of now.
    pub(super) fn count(&self) -> usize {
        let of = |record: &Record| record.words.iter().filter(|word| word.load(Relaxed) != 0).count();
        (0..RECORDS).filter_map(|slot| self.of(Some(slot))).map(of).sum()
    }

    /// How often threads with records found what they asked for.
    pub(super) fn hits(&self) -> u64 {
        (0..RECORDS).filter_map(|slot| self.of(Some(slot))).fold(0, |sum, record| sum.wrapping_add(record.hits.load(Relaxed)))
    }

    /// All records go. Nobody looks any more.
    pub(super) fn give_back(&mut self, memory: &dyn HostAllocator) {
        for place in &mut self.records {
            if let Some(block) = NonNull::new(core::mem::replace(place.get_mut(), null_mut())) {
                // SAFETY: taken in `make` with this layout and scope; nobody refers to it.
                unsafe { memory.deallocate(block.cast(), Layout::new::<Record>(), Scope::Cache) };
            }
        }
    }
}

impl Record {
    /// Says that this thread holds the entry, before anybody looked whether it lives. `None` where all words are taken.
    #[inline(always)]
    pub(super) fn publish(&self, entry: u32) -> Word {
        let hint = self.hint.load(Relaxed) as usize;
        let free = |place: usize| self.words.get(place).filter(|word| word.load(Relaxed) == 0);
        let word = match free(hint) {
            Some(word) => word,
            None => self.another()?,
        };
        word.swap(u64::from(entry) + 1, SeqCst);
        Some(NonNull::from(word))
    }

    /// The thread found what it asked for.
    #[inline(always)]
    pub(super) fn count_hit(&self) {
        self.hits.store(self.hits.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[cold]
    fn another(&self) -> Option<&AtomicU64> {
        let place = self.words.iter().position(|word| word.load(Relaxed) == 0)?;
        self.hint.store(place as u64, Relaxed);
        self.words.get(place)
    }
}

/// Says that the entry is held, and answers where that stands. Whether it lives is to be looked at afterwards.
#[inline(always)]
pub(super) fn publish(record: Option<&Record>, entry: &Entry, number: u32) -> Word {
    let word = record.and_then(|record| record.publish(number));
    if word.is_none() {
        entry.cold.refs.fetch_add(1, SeqCst);
    }
    word
}

/// Takes it back; true where the entry is dead, so that somebody has to see whether this was the last.
///
/// # Safety
/// `word` is what [`publish`] answered for this entry, taken back for the first time, and its record lives.
#[inline(always)]
pub(super) unsafe fn retract(word: Word, entry: &Entry) -> bool {
    match word {
        Some(word) => {
            // SAFETY: the caller: a word of a record that lives.
            unsafe { word.as_ref() }.swap(0, SeqCst);
        }
        None => {
            entry.cold.refs.fetch_sub(1, SeqCst);
        }
    }
    entry.state.load(SeqCst) == DEAD
}

/// Nobody holds it any more, and nobody will. With the lock, after it was made dead.
pub(super) fn is_free(records: &Records, entry: &Entry, number: u32) -> bool {
    // In this order: who moves from a word to the count counts first.
    !records.name(number) && entry.cold.refs.load(SeqCst) == 0
}
