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
//! An owner's release that is to find all of its entries free, or change nothing, asks in the same way, with CLOSING in the place of DEAD: a
//! hold that it missed reads CLOSING, lets go without having looked at anything, and asks again when the release is decided.
//!
//! Only the thread of the slot makes a word of 0 another; whoever has the hold makes it 0 again, on any thread.

use core::ptr::{NonNull, null_mut};

use super::entry::{CLOSING, DEAD, Entry, LIVE};
use super::records::{RECORDS, WORDS};
use crate::sync::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

/// All zeros is one without holds.
#[derive(Default)]
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
    pub(super) records: [AtomicPtr<Record>; RECORDS],
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

    /// Puts a record in its place, unless one is there by now.
    pub(super) fn put(&self, slot: usize, record: NonNull<Record>) -> bool {
        let place = self.records.get(slot);
        place.is_some_and(|place| place.compare_exchange(null_mut(), record.as_ptr(), SeqCst, Acquire).is_ok())
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

/// Holds the entry if it lives, and `is_meant` says so after that. Otherwise nothing is held, and it says whether to [sweep](last), and
/// to look again where it lives then.
#[inline(always)]
pub(super) fn hold(record: Option<&Record>, entry: &Entry, number: u32, is_meant: impl FnOnce() -> bool) -> Result<Word, bool> {
    let word = publish(record, entry, number);
    let state = entry.state.load(SeqCst);
    if state == LIVE && is_meant() {
        return Ok(word);
    }
    // SAFETY: published just above, in a record that lives.
    let dead = unsafe { retract(word, entry) };
    // By now it may be decided: whoever met it closed looks again all the same.
    Err(dead || state == CLOSING)
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

/// Takes it back; true where the entry is dead, or about to be, so that somebody has to see whether this was the last.
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
    matches!(entry.state.load(SeqCst), DEAD | CLOSING)
}

/// From the record to the entry's count.
///
/// # Safety
/// As for [`retract`]; from now on the hold stands at `None`.
pub(super) unsafe fn count(word: Word, entry: &Entry) {
    if let Some(word) = word {
        // In this order: whoever looks whether it is held sees one of the two.
        entry.cold.refs.fetch_add(1, SeqCst);
        // SAFETY: the caller: a word of a record that lives.
        unsafe { word.as_ref() }.swap(0, SeqCst);
    }
}

/// Makes a live entry dead: nobody holds it from now on who did not before. True where nobody did: it is the caller's to destroy. With the
/// lock.
pub(super) fn condemn(records: &Records, entry: &Entry, number: u32) -> bool {
    entry.state.store(DEAD, SeqCst);
    last(records, entry, number)
}

/// True where it is dead, nobody holds it, and nobody is destroying it: then it is the caller's to destroy. With the lock.
pub(super) fn last(records: &Records, entry: &Entry, number: u32) -> bool {
    let mine = entry.state.load(SeqCst) == DEAD && entry.cold.dying.load(Relaxed) == 0 && is_free(records, entry, number);
    if mine {
        entry.cold.dying.store(1, Relaxed);
    }
    mine
}

/// Nobody holds it any more, and, of a dead one, nobody will. With the lock.
pub(super) fn is_free(records: &Records, entry: &Entry, number: u32) -> bool {
    // In this order: who moves from a word to the count counts first.
    !records.name(number) && entry.cold.refs.load(SeqCst) == 0
}

/// Nobody holds a live entry from now on who did not before, until it is [live again](reopen) or [gone](doom). True where nobody does. With
/// the lock, until then.
pub(super) fn close(records: &Records, entry: &Entry, number: u32) -> bool {
    entry.state.store(CLOSING, SeqCst);
    is_free(records, entry, number)
}

/// Whoever asks holds it, as before. With the lock.
pub(super) fn reopen(entry: &Entry) {
    entry.state.store(LIVE, SeqCst);
}

/// Makes a [closed](close) entry that nobody holds dead, and the caller's to destroy. Who names it now met it closed: that is no hold, and
/// is not waited for. With the lock.
pub(super) fn doom(entry: &Entry) {
    entry.cold.dying.store(1, Relaxed);
    entry.state.store(DEAD, SeqCst);
}
