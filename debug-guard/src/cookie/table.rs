//! Where every live block is written down a second time: to list them, and to know what a damaged header said.
//!
//! ```text
//!  segments   | 0 |   1   |       2       | ..     1024, 2048, 4096, .. records; they never move
//!  record     address of the object, or 0 | words 0, 1, 2 and the sum of its header while it lives
//! ```
//! A block's token is the number of its record. Threads keep some tokens each ([`Lane`](super::lane::Lane)), so that taking and
//! giving back touches nothing that is shared; the rest is here, in a list through the records' first words, under a lock.
//!
//! A record is read while it may be changing: the second word (with the serial) is written first and the address last, and a free
//! clears the address before it touches anything else, so [`Record::read`] sees one block's words or none.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence,
};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::words::Words;
use crate::lock::{Held, Lock};

/// Records of the first segment, as a power of two; each further one has twice as many.
const FIRST: u32 = 10;
const SEGMENTS: usize = (u32::BITS - FIRST) as usize;
/// The end of the list of unused tokens.
const NONE: u32 = u32::MAX;

/// A live block; all zeros where there is none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Record {
    address: AtomicUsize,
    words: [AtomicU64; 3],
    sum: AtomicU64,
}

impl Record {
    /// Lists a block.
    #[inline(always)]
    pub(super) fn enter(&self, address: usize, words: Words, sum: u64) {
        let ([zero, one, two], [a, b, c]) = (&self.words, words.0);
        two.store(c, Relaxed);
        fence(Release);
        one.store(b, Relaxed);
        zero.store(a, Relaxed);
        self.sum.store(sum, Relaxed);
        self.address.store(address, Release);
    }

    /// Takes the block at `address` off the list; false where another thread has just done so. What is done to the block after this is
    /// seen by nobody who does not see this.
    #[inline(always)]
    pub(super) fn leave(&self, address: usize) -> bool {
        let ours = self.address.compare_exchange(address, 0, Acquire, Relaxed).is_ok();
        fence(Release);
        ours
    }

    /// True where just this block is listed. For whoever is about to free it: nobody else changes the record then.
    #[inline(always)]
    pub(super) fn holds(&self, address: usize, words: Words, sum: u64) -> bool {
        let ([zero, one, two], [a, b, c]) = (&self.words, words.0);
        let changed =
            (zero.load(Relaxed) ^ a) | (one.load(Relaxed) ^ b) | (two.load(Relaxed) ^ c) | (self.sum.load(Relaxed) ^ sum);
        self.address.load(Relaxed) == address && changed == 0
    }

    /// The block that is listed: address and words of one moment.
    #[inline]
    pub(super) fn read(&self) -> Option<(usize, Words)> {
        let [zero, one, two] = &self.words;
        let stamp = two.load(Relaxed);
        fence(Acquire);
        let address = self.address.load(Acquire);
        if address == 0 {
            return None;
        }
        let words = Words([zero.load(Relaxed), one.load(Relaxed), stamp]);
        fence(Acquire);
        (self.address.load(Acquire) == address && two.load(Relaxed) == stamp).then_some((address, words))
    }

    /// True where `read` would still give the same.
    pub(super) fn still(&self, address: usize, words: Words) -> bool {
        fence(Acquire);
        self.read() == Some((address, words))
    }
}

/// All records.
#[derive(Debug)]
pub(super) struct Table {
    segments: [AtomicPtr<Record>; SEGMENTS],
    lock: Lock,
    /// Changed under the lock, as the next two.
    unused: AtomicU32,
    /// Tokens from this on were never given out.
    fresh: AtomicU32,
    grown: AtomicU32,
}

impl Table {
    pub(super) const fn new() -> Self {
        Self {
            segments: [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS],
            lock: Lock::new(),
            unused: AtomicU32::new(NONE),
            fresh: AtomicU32::new(0),
            grown: AtomicU32::new(0),
        }
    }

    /// The record with this number, where there is one by now.
    #[inline(always)]
    pub(super) fn record(&self, token: u32) -> Option<&Record> {
        let place = u64::from(token) + (1 << FIRST);
        let power = place.ilog2();
        let segment = NonNull::new(self.segments.get((power - FIRST) as usize)?.load(Acquire))?;
        // SAFETY: segment `k` has 2^(FIRST + k) records, and `place` less its highest bit is below that.
        let record = unsafe { segment.add((place ^ 1 << power) as usize) };
        // SAFETY: records are made of atomics, live as long as the table, and all zeros is one.
        Some(unsafe { record.as_ref() })
    }

    /// Tokens below this have been given out at some time.
    pub(super) fn given_out(&self) -> u32 {
        self.fresh.load(Acquire)
    }

    /// The lock. A list that a thread was changing when the process forked is given up in the child: its tokens are not used again.
    fn hold(&self) -> Held<'_> {
        let held = self.lock.lock();
        if held.is_inherited() {
            self.unused.store(NONE, Relaxed);
        }
        held
    }

    /// Fills `tokens` as far as unused ones go; how many that were.
    pub(super) fn draw(&self, tokens: &mut [u32]) -> usize {
        let _held = self.hold();
        let mut drawn = 0;
        for token in tokens {
            let unused = self.unused.load(Relaxed);
            if let Some(record) = self.record(unused).filter(|_| unused != NONE) {
                let [next, ..] = &record.words;
                self.unused.store(next.load(Relaxed) as u32, Relaxed);
                *token = unused;
            } else {
                let fresh = self.fresh.load(Relaxed);
                if u64::from(fresh) >= room(self.grown.load(Relaxed)) {
                    break;
                }
                self.fresh.store(fresh + 1, Release);
                *token = fresh;
            }
            drawn += 1;
        }
        drawn
    }

    /// Takes tokens back whose records are empty.
    pub(super) fn put(&self, tokens: impl Iterator<Item = u32>) {
        let _held = self.hold();
        for token in tokens {
            if let Some(record) = self.record(token) {
                let [next, ..] = &record.words;
                next.store(u64::from(self.unused.load(Relaxed)), Relaxed);
                self.unused.store(token, Relaxed);
            }
        }
    }

    /// Makes room for more tokens. Another thread may have done so meanwhile; then nothing is taken.
    pub(super) fn grow<A: HostAllocator + ?Sized>(&self, memory: &A) -> Result<(), AllocError> {
        let number = self.grown.load(Acquire);
        let place = self.segments.get(number as usize).ok_or(AllocError)?;
        let layout = segment(number).ok_or(AllocError)?;
        let records = memory.allocate_zeroed(layout, Scope::Instance)?;
        let held = self.hold();
        let first = self.grown.load(Relaxed) == number;
        if first {
            place.store(records.cast().as_ptr(), Release);
            self.grown.store(number + 1, Release);
        }
        drop(held);
        if !first {
            // SAFETY: taken above, shown to nobody.
            unsafe { memory.deallocate(records, layout, Scope::Instance) };
        }
        Ok(())
    }

    /// As it is in a child, where a thread that was left behind held the lock.
    #[cfg(test)]
    pub(super) fn leave_behind(&mut self) {
        self.lock = Lock::left_behind();
    }

    /// Gives all segments back.
    ///
    /// # Safety
    /// `memory` is what it grew with, and no record is referred to any more.
    pub(super) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A) {
        for (number, place) in (0..).zip(&mut self.segments) {
            let records = core::mem::replace(place.get_mut(), core::ptr::null_mut());
            if let (Some(records), Some(layout)) = (NonNull::new(records), segment(number)) {
                // SAFETY: taken in `grow` with this layout and scope.
                unsafe { memory.deallocate(records.cast(), layout, Scope::Instance) };
            }
        }
        self.fresh = AtomicU32::new(0);
    }
}

/// How many records so many segments have.
const fn room(segments: u32) -> u64 {
    ((1 << segments) - 1) << FIRST
}

fn segment(number: u32) -> Option<Layout> {
    Layout::array::<Record>(1_usize.checked_shl(FIRST + number)?).ok()
}
