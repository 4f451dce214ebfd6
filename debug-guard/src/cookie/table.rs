//! The records of all blocks: they list blocks, replace damaged headers, and name who freed quarantined blocks.
//!
//! ```text
//!  segments   | 0 |   1   |       2       | ..     1024, 2048, 4096, .. records; they never move
//! ```
//! A block's token says where its record is: five bits for the segment, the others for the place in it. Threads keep some records each ([`ThreadCache`](super::thread_cache::ThreadCache)), so that taking and
//! giving back touches nothing that is shared; the rest is here, in a list through the records' first words, under a lock.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::record::CookieRecord;
use crate::lock::{ForkSafeSpinLock, SpinLockGuard};

/// Records of the first segment, as a power of two; each further one has twice as many.
const FIRST: u32 = 10;
/// As many as five bits of a token can number.
const SEGMENTS: u32 = 32;
/// Maximum number of segments: the last has as many records as the other bits can number.
const MAX_SEGMENTS: u32 = u32::BITS - SEGMENTS.trailing_zeros() - FIRST + 1;
/// The end of the list of unused tokens.
const NONE: u32 = u32::MAX;

/// All records.
#[derive(Debug)]
pub(super) struct RecordTable {
    segments: [AtomicPtr<CookieRecord>; SEGMENTS as usize],
    lock: ForkSafeSpinLock,
    /// Changed under the lock, as the next two.
    unused: AtomicU32,
    /// Records issued so far: the first ones of all segments.
    fresh: AtomicU32,
    grown: AtomicU32,
}

impl RecordTable {
    pub(super) const fn new() -> Self {
        Self {
            segments: [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS as usize],
            lock: ForkSafeSpinLock::new(),
            unused: AtomicU32::new(NONE),
            fresh: AtomicU32::new(0),
            grown: AtomicU32::new(0),
        }
    }

    /// The record with this token.
    #[inline(always)]
    pub(super) fn record(&self, token: u32) -> Option<&CookieRecord> {
        let (segment, place) = (token % SEGMENTS, token / SEGMENTS);
        let records = NonNull::new(self.segments.get(segment as usize)?.load(Acquire))?;
        if (place >> segment) >> FIRST != 0 {
            return None;
        }
        // SAFETY: segment `k` has 2^(FIRST + k) records.
        let record = unsafe { records.add(place as usize) };
        // SAFETY: records are made of atomics, live as long as the table, and all zeros is one.
        Some(unsafe { record.as_ref() })
    }

    /// The `number`-th record that was issued.
    pub(super) fn nth(&self, number: u32) -> Option<&CookieRecord> {
        self.record(token(number))
    }

    /// Number of records issued so far.
    pub(super) fn issued(&self) -> u32 {
        self.fresh.load(Acquire)
    }

    /// Locks the table. A list that a thread was changing when the process forked is dropped in the child: its tokens are not used again.
    fn hold(&self) -> SpinLockGuard<'_> {
        let held = self.lock.lock();
        if held.is_inherited() {
            self.unused.store(NONE, Relaxed);
        }
        held
    }

    /// Passes up to `most` unused records to `keep`. Returns their number.
    pub(super) fn draw<'t>(&'t self, most: usize, mut keep: impl FnMut(&'t CookieRecord)) -> usize {
        let _held = self.hold();
        for drawn in 0..most {
            let unused = self.unused.load(Relaxed);
            let record = match self.record(unused).filter(|_| unused != NONE) {
                Some(record) => {
                    self.unused
                        .store(record.next().load(Relaxed) as u32, Relaxed);
                    record
                }
                None => {
                    let fresh = self.fresh.load(Relaxed);
                    let Some(record) = self
                        .nth(fresh)
                        .filter(|_| u64::from(fresh) < room(self.grown.load(Relaxed)))
                    else {
                        return drawn;
                    };
                    record.number(token(fresh));
                    self.fresh.store(fresh + 1, Release);
                    record
                }
            };
            keep(record);
        }
        most
    }

    /// Adds unused records to the list.
    pub(super) fn put<'t>(&self, records: impl Iterator<Item = &'t CookieRecord>) {
        let _held = self.hold();
        for record in records {
            record
                .next()
                .store(u64::from(self.unused.load(Relaxed)), Relaxed);
            self.unused.store(record.token(), Relaxed);
        }
    }

    /// All records issued so far.
    pub(super) fn all(&self) -> impl Iterator<Item = &CookieRecord> {
        (0..self.issued()).filter_map(|number| self.nth(number))
    }

    /// Adds a segment, unless another thread was faster.
    pub(super) fn grow<A: HostAllocator + ?Sized>(&self, memory: &A) -> Result<(), AllocError> {
        let number = self.grown.load(Acquire);
        let place = self
            .segments
            .get(number as usize)
            .filter(|_| number < MAX_SEGMENTS)
            .ok_or(AllocError)?;
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
            // SAFETY: allocated above, not shared.
            unsafe { memory.deallocate(records, layout, Scope::Instance) };
        }
        Ok(())
    }

    /// As it is in a child, where a thread that was left behind held the lock.
    #[cfg(test)]
    pub(super) fn leave_behind(&mut self) {
        self.lock = ForkSafeSpinLock::left_behind();
    }

    /// Frees all segments.
    ///
    /// # Safety
    /// `memory` is what it grew with, and no record is referred to any more.
    pub(super) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A) {
        for (number, place) in (0..).zip(&mut self.segments) {
            let records = core::mem::replace(place.get_mut(), core::ptr::null_mut());
            if let (Some(records), Some(layout)) = (NonNull::new(records), segment(number)) {
                // SAFETY: allocated in `grow` with this layout and scope.
                unsafe { memory.deallocate(records.cast(), layout, Scope::Instance) };
            }
        }
    }
}

/// The token of the `number`-th record of all segments.
const fn token(number: u32) -> u32 {
    let place = number as u64 + (1 << FIRST);
    let power = place.ilog2();
    ((place ^ 1 << power) as u32 * SEGMENTS) | (power - FIRST)
}

/// The number of records in this many segments.
const fn room(segments: u32) -> u64 {
    ((1 << segments) - 1) << FIRST
}

fn segment(number: u32) -> Option<Layout> {
    Layout::array::<CookieRecord>(1_usize.checked_shl(FIRST + number)?).ok()
}
