//! References to shaders in use: words in a record of the thread's own, so that a hit writes nothing that other threads read.
//!
//! ```text
//!   record of a thread slot    | word 0 | word 1 | .. | word 13 | hint | top | hits |       a word: null, or the address of a block
//!
//!   acquire:  word <- value of the place    (SeqCst)      delete:   place <- null          (SeqCst)
//!             read the place again          (SeqCst)                read all words and refs (SeqCst)
//!   release:  word <- null                  (SeqCst)
//!             read the place again          (SeqCst): changed -> sweep
//! ```
//! If an acquire and a delete run at once, at least one sees the other: an acquire that the delete missed reads another value in the place,
//! and clears its word. It reads nothing of the block before that, because the block may be gone. If a release and a delete run at once, at
//! least one sees that no reference is left, and destroys the shader. Places never move, so reading one after the release is sound; if it
//! changed for another reason, the only cost is a useless sweep. While a shader is referenced its block is not reused, so a place that
//! names the block again names the same shader.
//!
//! A growing table empties the places of the older table after it has published the newer one: references through an older place were
//! acquired before.
//!
//! A release of an owner whose shaders must all be unreferenced follows the same protocol, with closed places instead of empty ones: an
//! acquire that it missed reads a closed place, clears its word, and tries again after the decision.
//!
//! A word may name, for a moment, a block that the thread has no reference to: the shader was removed, and another shader uses the block. A
//! delete that sees this word puts that shader in the list of dead, referenced entries; the thread, which knows only the address, searches
//! that list ([`RefAttempt::Gone`]).
//!
//! A record is published before its first word is written, and pointers to records are read with SeqCst, as words are: if a delete does not
//! see a record, the acquires in it see the delete. The same holds for `top`, above which no word was ever written; usually a delete reads
//! only the first word.
//!
//! Only the slot's thread sets a null word of its record; any thread that has the reference clears the word. All threads share the common
//! record, and claim its words by compare-exchange.

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

/// Index of the common record, behind those of the threads.
pub(super) const COMMON: usize = RECORDS;

/// All zeros is a record without references.
#[derive(Default)]
#[repr(C, align(128))]
pub(super) struct RefRecord {
    words: [Word; WORDS],
    /// The word that was free last. Used only by the slot's thread.
    hint: AtomicU32,
    /// The highest word that was ever written, or is about to be. Written by the slot's thread; in the common record it only grows.
    top: AtomicU32,
    /// Hits of the slot's present and earlier threads. Written only by the slot's thread.
    hits: AtomicU64,
}

pub(super) struct RefRecords {
    pub(super) records: [AtomicPtr<RefRecord>; RECORDS + 1],
    /// Above the last slot that has a record or is about to have one.
    end: AtomicU32,
}

/// The word of a reference, and the place where the shader was found.
#[derive(Clone, Copy)]
pub(super) struct RefSlot {
    pub(super) word: NonNull<Word>,
    pub(super) place: NonNull<BucketPlace>,
}

/// Result of an attempt to acquire a reference through a place.
pub(super) enum RefAttempt {
    /// Acquired.
    Yes(NonNull<ShaderHeader>, RefSlot),
    /// The place is empty.
    Empty,
    /// The shader was removed or closed meanwhile, and a word may have named its block for a moment: the caller must sweep the dead entry
    /// of that block.
    Gone(NonNull<ShaderHeader>),
    /// No word is free. Nothing was changed.
    Full,
}

impl RefRecords {
    pub(super) const fn new() -> Self {
        Self {
            records: [const { AtomicPtr::new(null_mut()) }; RECORDS + 1],
            end: AtomicU32::new(0),
        }
    }

    /// The record of the calling thread's slot.
    #[inline(always)]
    pub(super) fn of(&self, slot: Option<usize>) -> Option<&RefRecord> {
        // SAFETY: a record lives as long as this value.
        unsafe { self.records.get(slot?)?.load(Acquire).as_ref() }
    }

    /// Publishes a record, unless the slot has one.
    pub(super) fn put(&self, slot: usize, record: NonNull<RefRecord>) -> bool {
        let Some(place) = self.records.get(slot) else {
            return false;
        };
        // First, because a thread that finds the record may acquire at once.
        if slot < RECORDS {
            self.end.fetch_max(slot as u32 + 1, SeqCst);
        }
        place
            .compare_exchange(null_mut(), record.as_ptr(), SeqCst, Acquire)
            .is_ok()
    }

    /// All published records.
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

    /// True if a word names the block. Requires the lock.
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

    /// Number of references in records at this moment.
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

    /// Hits by threads that have a record.
    pub(super) fn hits(&self) -> u64 {
        self.each()
            .fold(0, |sum, record| sum.wrapping_add(record.hits.load(Relaxed)))
    }
}

impl RefRecord {
    /// Names the block in a word, before the thread checks that the block is still there. `None` if all words are used.
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

    /// The words that may name a block.
    #[inline]
    fn used(&self) -> impl Iterator<Item = &Word> {
        let top = self.top.load(SeqCst) as usize;
        self.words.iter().take(top + 1)
    }

    /// As [`publish`](Self::publish), in the common record, where other threads claim words too.
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

    #[inline(always)]
    pub(super) fn count_hit(&self) {
        self.hits
            .store(self.hits.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// Acquires a reference through a place, in the thread's record or the common one.
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
    // The payload may begin in the next cache line.
    prefetch(block.as_ptr().wrapping_add(1));
    match publish(records, record, block) {
        Some(word) => confirm(word, place, block),
        None => RefAttempt::Full,
    }
}

/// Names the block in a word. The caller must check afterwards whether the block is still there.
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

/// Reads the place again: if it still names the block, the reference is acquired. Returns the pointer read now: the earlier one may point
/// to a former block at the same address, and must not be used for this block.
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

/// Releases a reference. True if the shader may be dead: then a thread must check whether this was the last reference.
///
/// # Safety
/// `at` must be a reference to `block` that was not released before; record and table must live.
#[inline(always)]
pub(super) unsafe fn release(at: RefSlot, block: NonNull<ShaderHeader>) -> bool {
    // SAFETY: the caller: a word of a record that lives.
    unsafe { at.word.as_ref() }.swap(null_mut(), SeqCst);
    // SAFETY: the caller: a place of a table that lives.
    unsafe { at.place.as_ref() }.load(SeqCst) != block.as_ptr()
}

/// Releases a counted reference. True if the shader is dead: then a thread must check as above.
pub(super) fn release_counted(entry: &CacheEntry) -> bool {
    entry.refs.fetch_sub(1, SeqCst);
    entry.state.load(SeqCst) == DEAD
}

/// Moves a reference from its record to the entry's count.
///
/// # Safety
/// `at` must be a reference to a shader of this entry; from now on the reference is in the count.
pub(super) unsafe fn move_to_count(at: RefSlot, entry: &CacheEntry) {
    // In this order, a thread that checks for references sees at least one of the two.
    entry.refs.fetch_add(1, SeqCst);
    // SAFETY: the caller: a word of a record that lives.
    unsafe { at.word.as_ref() }.swap(null_mut(), SeqCst);
}

/// Makes a live entry dead, after its removal from the table: no new reference can be acquired. True if it is unreferenced: then the caller
/// must destroy it. Requires the lock.
pub(super) fn condemn(records: &RefRecords, entry: &CacheEntry) -> bool {
    entry.state.store(DEAD, SeqCst);
    is_last(records, entry)
}

/// True if the entry is dead and unreferenced, and no thread was chosen to destroy it: then the caller must destroy it. Requires the lock.
pub(super) fn is_last(records: &RefRecords, entry: &CacheEntry) -> bool {
    let mine = entry.state.load(SeqCst) == DEAD
        && entry.is_being_destroyed.load(Relaxed) == 0
        && is_free(records, entry);
    if mine {
        entry.is_being_destroyed.store(1, Relaxed);
    }
    mine
}

/// True if the entry is unreferenced; for a dead entry that is final. Requires the lock.
pub(super) fn is_free(records: &RefRecords, entry: &CacheEntry) -> bool {
    // In this order, because `move_to_count` counts the reference before it clears the word.
    !entry.block().is_some_and(|block| records.name(block)) && entry.refs.load(SeqCst) == 0
}

/// Prevents new references to a live entry until it is [live again](reopen) or [dead](mark_dead). True if it is unreferenced. Requires the
/// lock until then.
pub(super) fn close(
    records: &RefRecords,
    entry: &CacheEntry,
    place: &BucketPlace,
    block: NonNull<ShaderHeader>,
) -> bool {
    place.store(block.as_ptr().map_addr(|addr| addr | CLOSED), SeqCst);
    is_free(records, entry)
}

/// As [`close`], for an eviction. If the entry is referenced, reopens it; the thread that releases the last reference then sees that the
/// cache is over its limits, or that it may be. Requires the lock.
#[inline]
pub(super) fn close_to_evict(
    records: &RefRecords,
    is_over_limits: &AtomicU32,
    entry: &CacheEntry,
    place: &BucketPlace,
    block: NonNull<ShaderHeader>,
) -> bool {
    let close = || {
        // Counted references are visible without closing the place.
        if entry.refs.load(SeqCst) != 0 {
            return false;
        }
        let is_free = close(records, entry, place, block);
        if !is_free {
            reopen(place, block);
        }
        is_free
    };
    // Usually the entry is unreferenced: then `is_over_limits`, which every release reads, is not written.
    if close() {
        return true;
    }
    if is_over_limits.load(Relaxed) != 0 {
        return false;
    }
    is_over_limits.store(1, SeqCst);
    // A release before this store did not see it.
    close()
}

/// Opens a closed place: lookups acquire the shader as before. Requires the lock.
pub(super) fn reopen(place: &BucketPlace, block: NonNull<ShaderHeader>) {
    place.store(block.as_ptr(), Release);
}

/// Makes a [closed](close), unreferenced entry that left the table dead; the caller must destroy it. Words that name it now are of lookups
/// that found it closed: they are no references, and the caller need not wait for them. Requires the lock.
pub(super) fn mark_dead(entry: &CacheEntry) {
    entry.is_being_destroyed.store(1, Relaxed);
    entry.state.store(DEAD, Relaxed);
}
