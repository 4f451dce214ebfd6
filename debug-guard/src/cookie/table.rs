//! The records of all blocks: they list blocks, replace damaged headers, and name who freed quarantined blocks.
//!
//! ```text
//!  segments   | 0 |   1   |       2       | ..     1024, 2048, 4096, .. records; they never move
//! ```
//! A block's token says where its record is: five bits for the segment, the others for the place in it.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicPtr, AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::record::CookieRecord;

/// Records of the first segment, as a power of two; each further one has twice as many.
const FIRST: u32 = 10;
/// As many as five bits of a token can number.
const SEGMENTS: u32 = 32;
/// Maximum number of segments: the last has as many records as the other bits can number.
const MAX_SEGMENTS: u32 = u32::BITS - SEGMENTS.trailing_zeros() - FIRST + 1;
/// The token of no record.
pub(super) const NONE: u32 = u32::MAX;

/// All records.
#[derive(Debug)]
pub(super) struct RecordTable {
    segments: [AtomicPtr<CookieRecord>; SEGMENTS as usize],
    /// Records issued so far: the first ones of all segments.
    issued: AtomicU32,
    grown: AtomicU32,
}

impl RecordTable {
    pub(super) const fn new() -> Self {
        Self {
            segments: [const { AtomicPtr::new(null_mut()) }; SEGMENTS as usize],
            issued: AtomicU32::new(0),
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

    /// A record that never had a block; `None` if there is none before the table grows.
    #[cold]
    pub(super) fn fresh(&self) -> Option<&CookieRecord> {
        let next = |issued: u32| {
            let room = ((1_u64 << self.grown.load(Acquire)) - 1) << FIRST;
            (u64::from(issued) < room).then(|| issued + 1)
        };
        let token = token(self.issued.fetch_update(AcqRel, Acquire, next).ok()?);
        let record = self.record(token)?;
        record.number(token);
        Some(record)
    }

    /// All records issued so far.
    pub(super) fn all(&self) -> impl Iterator<Item = &CookieRecord> {
        (0..self.issued.load(Acquire)).filter_map(|number| self.record(token(number)))
    }

    /// Adds a segment, unless another thread is faster.
    pub(super) fn grow(&self, memory: &dyn HostAllocator) -> Result<(), AllocError> {
        let number = self.grown.load(Acquire);
        let place = self
            .segments
            .get(number as usize)
            .filter(|_| number < MAX_SEGMENTS)
            .ok_or(AllocError)?;
        let layout = segment(number).ok_or(AllocError)?;
        let records = memory.allocate_zeroed(layout, Scope::Instance)?;
        let mine = records.cast().as_ptr();
        if place
            .compare_exchange(null_mut(), mine, AcqRel, Relaxed)
            .is_err()
        {
            // SAFETY: allocated above, not shared.
            unsafe { memory.deallocate(records, layout, Scope::Instance) };
        }
        self.grown.fetch_max(number + 1, AcqRel);
        Ok(())
    }

    /// Frees all segments.
    ///
    /// # Safety
    /// `memory` is what it grew with, and no record is referred to any more.
    pub(super) unsafe fn close<A: HostAllocator + ?Sized>(&mut self, memory: &A) {
        for (number, place) in (0..).zip(&mut self.segments) {
            let records = core::mem::replace(place.get_mut(), null_mut());
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

fn segment(number: u32) -> Option<Layout> {
    Layout::array::<CookieRecord>(1_usize.checked_shl(FIRST + number)?).ok()
}
