//! One cache line of the table: seven places, and a word of tags that selects the places to compare.
//!
//! ```text
//!   0         8        ..      48        56       64
//!   | place 0 | place 1 | .. | place 6 | tags     |       place: address of the shader's block; null is empty
//!   tags, bytes 0 to 6: the upper 8 bits of the place's hash, 1 instead of 0, and 0 if empty; byte 7: overflow count
//! ```
//! Readers acquire no lock: a writer fills a place before its tag. A place that a reader found is a hint until the reader [has a
//! reference](super::ref_records): the block may be gone, and its memory reused.

#![forbid(unsafe_code)]

use core::ptr::{NonNull, null_mut};

use super::entry::ShaderHeader;
use crate::sync::{
    AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};

/// Places of a bucket.
pub(super) const PLACES: usize = 7;
/// Saturated overflow count: once reached, it never decreases.
const MANY: u64 = 0xFF;
const ONES: u64 = 0x0001_0101_0101_0101;
const TOPS: u64 = 0x0080_8080_8080_8080;

/// The lowest bit of a place: a thread is deciding whether to remove its shader.
pub(super) const CLOSED: usize = 1;

/// Address of a shader's block while lookups can find it here.
pub(super) type BucketPlace = AtomicPtr<ShaderHeader>;

/// All zeros is an empty bucket.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    places: [BucketPlace; PLACES],
    tags: AtomicU64,
}

/// A hash's tag, repeated for every place.
#[derive(Clone, Copy)]
pub(super) struct HashTag {
    tags: u64,
}

impl HashTag {
    #[inline(always)]
    pub(super) const fn new(hash: u64) -> Self {
        let tag = hash >> 56;
        Self {
            tags: ONES * if tag == 0 { 1 } else { tag },
        }
    }

    const fn tag(self) -> u64 {
        self.tags & 0xFF
    }

    /// The top bit of the byte of each place that may match. A false match fails when keys are compared.
    #[inline(always)]
    const fn matches(self, tags: u64) -> u64 {
        // A byte is 0 where the place has this tag.
        let other = (tags ^ self.tags) & (u64::MAX >> 8);
        other.wrapping_sub(ONES) & !other & TOPS
    }
}

/// A place that names a block. Valid until the writer changes the bucket.
pub(super) struct OccupiedPlace<'b> {
    bucket: &'b Bucket,
    pub(super) place: &'b BucketPlace,
    number: usize,
}

impl OccupiedPlace<'_> {
    /// Removes the block. No new reference to it can be acquired from here.
    #[inline(always)]
    pub(super) fn clear(self) {
        let tags = self.bucket.tags.load(Relaxed);
        self.bucket
            .tags
            .store(tags & !(0xFF << (self.number * 8)), Release);
        // A lookup gets no reference from a closed place, so the order with references was settled when it was closed.
        let closed = self.place.load(Relaxed).addr() & CLOSED != 0;
        self.place
            .store(null_mut(), if closed { Release } else { SeqCst });
    }
}

/// The block that a place names, closed or not.
fn address(place: &BucketPlace) -> *const ShaderHeader {
    place
        .load(Relaxed)
        .map_addr(|addr| addr & !CLOSED)
        .cast_const()
}

impl Bucket {
    /// Calls `each` with the places that may match, until it returns a result. `Err` says whether the search continues in the next bucket.
    #[inline(always)]
    pub(super) fn search<R>(
        &self,
        sought: HashTag,
        each: &mut impl FnMut(&BucketPlace) -> Option<R>,
    ) -> Result<R, bool> {
        let tags = self.tags.load(Acquire);
        let mut matches = sought.matches(tags);
        while matches != 0 {
            if let Some(place) = self.places.get(matches.trailing_zeros() as usize / 8)
                && let Some(found) = each(place)
            {
                return Ok(found);
            }
            matches &= matches - 1;
        }
        Err(tags >> 56 != 0)
    }

    /// True if no block of this hash is here or overflowed from here. Usually reads no place. Requires the lock.
    #[inline(always)]
    pub(super) fn is_without(&self, sought: HashTag) -> bool {
        let tags = self.tags.load(Relaxed);
        sought.matches(tags) == 0 && tags >> 56 == 0
    }

    /// Puts a block in; false if the bucket is full. Requires the lock.
    pub(super) fn put(&self, sought: HashTag, front: NonNull<ShaderHeader>) -> bool {
        let tags = self.tags.load(Relaxed);
        // If no place is empty, `trailing_zeros` is 64 and there is no such place.
        let number = HashTag { tags: 0 }.matches(tags).trailing_zeros() as usize / 8;
        let Some(place) = self.places.get(number) else {
            return false;
        };
        place.store(front.as_ptr(), Release);
        self.tags
            .store(tags | sought.tag() << (number * 8), Release);
        true
    }

    /// The place of a block of this hash. Requires the lock.
    #[inline(always)]
    pub(super) fn find(
        &self,
        sought: HashTag,
        front: *const ShaderHeader,
    ) -> Option<OccupiedPlace<'_>> {
        let mut matches = sought.matches(self.tags.load(Relaxed));
        while matches != 0 {
            let number = matches.trailing_zeros() as usize / 8;
            if let Some(place) = self.places.get(number)
                && address(place) == front
            {
                let bucket = self;
                return Some(OccupiedPlace {
                    bucket,
                    place,
                    number,
                });
            }
            matches &= matches - 1;
        }
        None
    }

    /// Empties all places, because another table has their blocks. Tags and counts stay. Requires the lock.
    pub(super) fn retire(&self) {
        self.places
            .iter()
            .filter(|place| !place.load(Relaxed).is_null())
            .for_each(|place| place.store(null_mut(), SeqCst));
    }

    /// Counts a block that overflows into the next bucket, before it is put there. Requires the lock.
    pub(super) fn count_passed(&self) {
        let tags = self.tags.load(Relaxed);
        if tags >> 56 < MANY {
            self.tags.store(tags + (1 << 56), Release);
        }
    }

    /// Uncounts a removed block that had overflowed. Requires the lock.
    pub(super) fn uncount_passed(&self) {
        let tags = self.tags.load(Relaxed);
        if (1..MANY).contains(&(tags >> 56)) {
            self.tags.store(tags - (1 << 56), Release);
        }
    }

    /// The bucket's blocks. Requires the lock.
    pub(super) fn blocks(&self) -> impl Iterator<Item = NonNull<ShaderHeader>> {
        self.places
            .iter()
            .filter_map(|place| NonNull::new(place.load(Relaxed)))
    }
}
