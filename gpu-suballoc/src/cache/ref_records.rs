//! Who uses a shader right now: a word in a record of the thread's own, so that a hit writes nothing that others read.
//!
//! ```text
//!   record of a thread slot    | word 0 | word 1 | .. | word 13 | hint | top | hits |       a word: null, or where the shader's block lies
//!
//!   hold:     word <- what the place said   (SeqCst)      delete:   place <- null          (SeqCst)
//!             read the place again          (SeqCst)                read all words and refs (SeqCst)
//!   release:  word <- null                  (SeqCst)
//!             read the place again          (SeqCst): another -> sweep
//! ```
//! Of a hold and a delete at once at least one sees the other: a hold that the delete missed reads another word in the place, and lets go.
//! Nothing of the block is read before that: it may be gone. Of a release and a delete at once at least one sees that nobody holds any
//! more, and destroys. Places never move, so reading one after the release is sound; if it changed meanwhile for another reason, the worst
//! is a sweep for nothing. While the shader is held its block is nobody else's, so a place that has it again has the same shader.
//!
//! A growth empties the places of the older table, after the newer one is there: who holds by an older place did so before.
//!
//! An owner's release that is to find all of its shaders free, or change nothing, asks in the same way, with the place closed instead of
//! empty: a hold that it missed reads a closed place, lets go, and asks again when the release is decided.
//!
//! A word may name, for a moment, a block that the thread does not hold: it was gone before, and lies there again as another shader's. A
//! delete that sees it leaves the shader to the dead, and the thread, which knows the address alone, looks among them ([`RefAttempt::Gone`]).
//!
//! A record is put in its place before its first word is written, and places of records are read like words (SeqCst too): a delete that
//! does not see the record is one that its holds see. The same goes for `top`, behind which no word of a record was ever written: mostly the first
//! is all that a delete reads.
//!
//! Only the thread of the slot makes a null word of its record another; whoever has the hold makes it null again, on any thread. The
//! common record is everybody's, who claim a word of it by compare-exchange.

use core::ptr::{NonNull, null_mut};

use super::bucket::{BucketPlace, CLOSED};
use super::entry::{CacheEntry, DEAD, ShaderHeader};
use super::records::{RECORDS, WORDS};
use crate::prefetch::prefetch;
use crate::sync::{
    AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

type Word = AtomicPtr<ShaderHeader>;

/// The common record, behind those of the threads.
pub(super) const COMMON: usize = RECORDS;

/// All zeros is one without holds.
#[derive(Default)]
#[repr(C, align(128))]
pub(super) struct RefRecord {
    words: [Word; WORDS],
    /// Where a word was free last. The thread's own.
    hint: AtomicU32,
    /// The highest word that was ever written, or is about to be. The thread's own; the common record's only grows.
    top: AtomicU32,
    /// How often the thread, and those that had the slot before, found what it asked for. The thread's own.
    hits: AtomicU64,
}

/// The records of a cache.
pub(super) struct RefRecords {
    pub(super) records: [AtomicPtr<RefRecord>; RECORDS + 1],
    /// Behind the last slot that has one, or is about to.
    end: AtomicU32,
}

/// Where a hold stands, and where the shader was found.
#[derive(Clone, Copy)]
pub(super) struct RefSlot {
    pub(super) word: NonNull<Word>,
    pub(super) place: NonNull<BucketPlace>,
}

/// What became of an attempt to hold what a place says.
pub(super) enum RefAttempt {
    /// It is held, there.
    Yes(NonNull<ShaderHeader>, RefSlot),
    /// There is nothing.
    Empty,
    /// It went meanwhile, or is about to, and was named for a moment: whoever is dead and lies there is to be swept.
    Gone(NonNull<ShaderHeader>),
    /// No word is free. Nothing happened.
    Full,
}

impl RefRecords {
    pub(super) const fn new() -> Self {
        Self {
            records: [const { AtomicPtr::new(null_mut()) }; RECORDS + 1],
            end: AtomicU32::new(0),
        }
    }

    /// The record of this slot, which is the calling thread's.
    #[inline(always)]
    pub(super) fn of(&self, slot: Option<usize>) -> Option<&RefRecord> {
        // SAFETY: a record lives as long as this value.
        unsafe { self.records.get(slot?)?.load(Acquire).as_ref() }
    }

    /// Puts a record in its place, unless one is there by now.
    pub(super) fn put(&self, slot: usize, record: NonNull<RefRecord>) -> bool {
        let Some(place) = self.records.get(slot) else {
            return false;
        };
        // First: who finds the record may hold at once.
        if slot < RECORDS {
            self.end.fetch_max(slot as u32 + 1, SeqCst);
        }
        place
            .compare_exchange(null_mut(), record.as_ptr(), SeqCst, Acquire)
            .is_ok()
    }

    /// Those that there are.
    fn each(&self) -> impl Iterator<Item = &RefRecord> {
        let end = self.end.load(SeqCst) as usize;
        self.records
            .iter()
            .take(end)
            .chain(self.records.get(COMMON))
            .filter_map(|place| {
                // SAFETY: a record lives as long as this value.
                unsafe { place.load(SeqCst).as_ref() }
            })
    }

    /// Some word names the block. With the lock.
    pub(super) fn name(&self, block: NonNull<ShaderHeader>) -> bool {
        let names = |place: &AtomicPtr<RefRecord>| {
            // SAFETY: a record lives as long as this value.
            let record = unsafe { place.load(SeqCst).as_ref() };
            record.is_some_and(|record| {
                record
                    .used()
                    .any(|there| there.load(SeqCst) == block.as_ptr())
            })
        };
        let end = self.end.load(SeqCst) as usize;
        self.records.iter().take(end).any(names) || self.records.get(COMMON).is_some_and(names)
    }

    /// How many holds there are in records. As of now.
    pub(super) fn count(&self) -> usize {
        self.each()
            .map(|record| {
                record
                    .used()
                    .filter(|word| !word.load(Relaxed).is_null())
                    .count()
            })
            .sum()
    }

    /// How often threads with records found what they asked for.
    pub(super) fn hits(&self) -> u64 {
        self.each()
            .fold(0, |sum, record| sum.wrapping_add(record.hits.load(Relaxed)))
    }
}

impl RefRecord {
    /// The thread says that it holds the block, before anybody looked whether it is there. `None` where all words are taken.
    #[inline(always)]
    fn publish(&self, block: NonNull<ShaderHeader>) -> Option<NonNull<Word>> {
        let hint = self.hint.load(Relaxed) as usize;
        let word = match self
            .words
            .get(hint)
            .filter(|word| word.load(Relaxed).is_null())
        {
            Some(word) => word,
            None => self.another()?,
        };
        word.swap(block.as_ptr(), SeqCst);
        Some(NonNull::from(word))
    }

    #[cold]
    fn another(&self) -> Option<&Word> {
        let free = self
            .words
            .iter()
            .position(|word| word.load(Relaxed).is_null())? as u32;
        self.hint.store(free, Relaxed);
        if self.top.load(Relaxed) < free {
            self.top.store(free, SeqCst);
        }
        self.words.get(free as usize)
    }

    /// The words that may name something.
    #[inline]
    fn used(&self) -> impl Iterator<Item = &Word> {
        let top = self.top.load(SeqCst) as usize;
        self.words.iter().take(top + 1)
    }

    /// As [`publish`](Self::publish), in a word that others may want too.
    fn claim(&self, block: NonNull<ShaderHeader>) -> Option<NonNull<Word>> {
        let last = WORDS as u32 - 1;
        if self.top.load(Relaxed) < last {
            self.top.store(last, SeqCst);
        }
        let claimed = |word: &&Word| {
            word.compare_exchange(null_mut(), block.as_ptr(), SeqCst, Relaxed)
                .is_ok()
        };
        self.words.iter().find(claimed).map(NonNull::from)
    }

    /// The thread found what it asked for.
    #[inline(always)]
    pub(super) fn count_hit(&self) {
        self.hits
            .store(self.hits.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// Holds what the place says, in the thread's record, or in the common one.
#[inline(always)]
pub(super) fn acquire(
    records: &RefRecords,
    record: Option<&RefRecord>,
    place: &BucketPlace,
) -> RefAttempt {
    let Some(block) = NonNull::new(place.load(Acquire)) else {
        return RefAttempt::Empty;
    };
    if block.addr().get() & CLOSED != 0 {
        return RefAttempt::Gone(block);
    }
    prefetch(block.as_ptr());
    // The payload may begin in the next line.
    prefetch(block.as_ptr().wrapping_add(1));
    match publish(records, record, block) {
        Some(word) => confirm(word, place, block),
        None => RefAttempt::Full,
    }
}

/// Says that the block is held. Whether it is there is to be looked at afterwards.
#[inline(always)]
pub(super) fn publish(
    records: &RefRecords,
    record: Option<&RefRecord>,
    block: NonNull<ShaderHeader>,
) -> Option<NonNull<Word>> {
    record
        .and_then(|record| record.publish(block))
        .or_else(|| claim(records, block))
}

#[cold]
fn claim(records: &RefRecords, block: NonNull<ShaderHeader>) -> Option<NonNull<Word>> {
    records.of(Some(COMMON))?.claim(block)
}

/// Looks again: what is still there is held. By the pointer that is read now: what was read before may be one to the block that lay there
/// then, which is no pointer to this one, alike as they look.
#[inline(always)]
pub(super) fn confirm(
    word: NonNull<Word>,
    place: &BucketPlace,
    block: NonNull<ShaderHeader>,
) -> RefAttempt {
    match NonNull::new(place.load(SeqCst)) {
        Some(there) if there == block => RefAttempt::Yes(
            there,
            RefSlot {
                word,
                place: NonNull::from(place),
            },
        ),
        _ => {
            // SAFETY: a word of a record, which lives as long as the cache.
            unsafe { word.as_ref() }.swap(null_mut(), SeqCst);
            RefAttempt::Gone(block)
        }
    }
}

/// Lets go; true where the shader may be dead, so that somebody has to see whether this was the last.
///
/// # Safety
/// `at` is where the block is held, let go for the first time; record and table live.
#[inline(always)]
pub(super) unsafe fn release(at: RefSlot, block: NonNull<ShaderHeader>) -> bool {
    // SAFETY: the caller: a word of a record that lives.
    unsafe { at.word.as_ref() }.swap(null_mut(), SeqCst);
    // SAFETY: the caller: a place of a table that lives.
    unsafe { at.place.as_ref() }.load(SeqCst) != block.as_ptr()
}

/// Lets a counted hold go; true as above.
pub(super) fn release_counted(entry: &CacheEntry) -> bool {
    entry.refs.fetch_sub(1, SeqCst);
    entry.state.load(SeqCst) == DEAD
}

/// From the record to the entry's count.
///
/// # Safety
/// `at` is where a shader of this entry is held; from now on it is held in the count.
pub(super) unsafe fn move_to_count(at: RefSlot, entry: &CacheEntry) {
    // In this order: whoever looks whether it is held sees one of the two.
    entry.refs.fetch_add(1, SeqCst);
    // SAFETY: the caller: a word of a record that lives.
    unsafe { at.word.as_ref() }.swap(null_mut(), SeqCst);
}

/// Makes a live entry dead, after it was taken out of the table: nobody holds it from now on who did not before. True where nobody did: it
/// is the caller's to destroy. With the lock.
pub(super) fn condemn(records: &RefRecords, entry: &CacheEntry) -> bool {
    entry.state.store(DEAD, SeqCst);
    is_last(records, entry)
}

/// True where it is dead, nobody holds it, and nobody is destroying it: then it is the caller's to destroy. With the lock.
pub(super) fn is_last(records: &RefRecords, entry: &CacheEntry) -> bool {
    let mine = entry.state.load(SeqCst) == DEAD
        && entry.is_being_destroyed.load(Relaxed) == 0
        && is_free(records, entry);
    if mine {
        entry.is_being_destroyed.store(1, Relaxed);
    }
    mine
}

/// Nobody holds it any more, and, of a dead one, nobody will. With the lock.
pub(super) fn is_free(records: &RefRecords, entry: &CacheEntry) -> bool {
    // In this order: who moves from a word to the count counts first.
    !entry.block().is_some_and(|block| records.name(block)) && entry.refs.load(SeqCst) == 0
}

/// Nobody holds a live entry from now on who did not before, until it is [live again](reopen) or [gone](mark_dead). True where nobody does. With
/// the lock, until then.
pub(super) fn close(
    records: &RefRecords,
    entry: &CacheEntry,
    place: &BucketPlace,
    block: NonNull<ShaderHeader>,
) -> bool {
    place.store(block.as_ptr().map_addr(|addr| addr | CLOSED), SeqCst);
    is_free(records, entry)
}

/// As [`close`], for who evicts it where nobody holds it. Where somebody does it is open again, and whoever lets go last sees that the cache is
/// over its limits, or has to look whether it is. With the lock.
#[inline]
pub(super) fn close_to_evict(
    records: &RefRecords,
    is_over_limits: &AtomicU32,
    entry: &CacheEntry,
    place: &BucketPlace,
    block: NonNull<ShaderHeader>,
) -> bool {
    let close = || {
        // What is counted is seen from here.
        if entry.refs.load(SeqCst) != 0 {
            return false;
        }
        let is_free = close(records, entry, place, block);
        if !is_free {
            reopen(place, block);
        }
        is_free
    };
    // Mostly nobody does: then that word, which all who let go read, is not written.
    if close() {
        return true;
    }
    if is_over_limits.load(Relaxed) != 0 {
        return false;
    }
    is_over_limits.store(1, SeqCst);
    // Whoever let go before that did not see it.
    close()
}

/// Whoever asks holds it, as before. With the lock.
pub(super) fn reopen(place: &BucketPlace, block: NonNull<ShaderHeader>) {
    place.store(block.as_ptr(), Release);
}

/// Makes a [closed](close) entry that nobody holds, and that was taken out of the table, dead, and the caller's to destroy. Who names it
/// now met it closed: that is no hold, and is not waited for. With the lock.
pub(super) fn mark_dead(entry: &CacheEntry) {
    entry.is_being_destroyed.store(1, Relaxed);
    entry.state.store(DEAD, Relaxed);
}
