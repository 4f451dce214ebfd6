//! One line of the table: seven places, and a word that says at a glance which of them may be meant.
//!
//! ```text
//!   0         8        ..      48        56       64
//!   | place 0 | place 1 | .. | place 6 | tags     |       place: where the shader's block lies; null is empty
//!   tags, bytes 0 to 6: the upper 8 bits of the place's hash, 1 for 0, and 0 where it is empty; byte 7: how many passed by
//! ```
//! Readers take no lock: a writer fills a place before its tag. What a reader finds is a hint until it [holds](super::ref_records) it: the block
//! may be gone, and its memory somebody else's.

#![forbid(unsafe_code)]

use core::ptr::{NonNull, null_mut};

use super::entry::ShaderHeader;
use crate::sync::{
    AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};

/// Places of a bucket.
pub(super) const PLACES: usize = 7;
/// Saturated overflow count: it never decreases again.
const MANY: u64 = 0xFF;
const ONES: u64 = 0x0001_0101_0101_0101;
const TOPS: u64 = 0x0080_8080_8080_8080;

/// The lowest bit of a place: whether its shader goes is being decided.
pub(super) const CLOSED: usize = 1;

/// Where a shader's block lies, as long as it can be found there.
pub(super) type BucketPlace = AtomicPtr<ShaderHeader>;

/// All zeros is an empty one.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    places: [BucketPlace; PLACES],
    tags: AtomicU64,
}

/// What a hash looks like in a bucket.
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

    /// The top bit of the byte of each place that may be meant. Some others may look so too, and fail when keys are compared.
    #[inline(always)]
    const fn matches(self, tags: u64) -> u64 {
        // A byte of 0 where the tag is that of the place.
        let other = (tags ^ self.tags) & (u64::MAX >> 8);
        other.wrapping_sub(ONES) & !other & TOPS
    }
}

/// Where a block is. The writer's, until it changes the bucket.
pub(super) struct OccupiedPlace<'b> {
    bucket: &'b Bucket,
    pub(super) place: &'b BucketPlace,
    number: usize,
}

impl OccupiedPlace<'_> {
    /// Takes the block out. Whoever holds it from now on did so before.
    #[inline(always)]
    pub(super) fn clear(self) {
        let tags = self.bucket.tags.load(Relaxed);
        self.bucket
            .tags
            .store(tags & !(0xFF << (self.number * 8)), Release);
        // Who comes by a closed place does not hold: that was to be seen when it was closed.
        let closed = self.place.load(Relaxed).addr() & CLOSED != 0;
        self.place
            .store(null_mut(), if closed { Release } else { SeqCst });
    }
}

/// What a place names, be it closed or not.
fn address(place: &BucketPlace) -> *const ShaderHeader {
    place
        .load(Relaxed)
        .map_addr(|addr| addr & !CLOSED)
        .cast_const()
}

impl Bucket {
    /// Calls `each` with the places that may be meant, until it says that one is; answers whether to go on in the next bucket.
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

    /// True where no block of this hash is here, or was put further on. The writer's: mostly that needs no look at a place.
    #[inline(always)]
    pub(super) fn is_without(&self, sought: HashTag) -> bool {
        let tags = self.tags.load(Relaxed);
        sought.matches(tags) == 0 && tags >> 56 == 0
    }

    /// Puts a block in; false where all places are taken. The writer's.
    pub(super) fn put(&self, sought: HashTag, front: NonNull<ShaderHeader>) -> bool {
        let tags = self.tags.load(Relaxed);
        // All seven are taken where none matches: `trailing_zeros` is 64 then.
        let number = HashTag { tags: 0 }.matches(tags).trailing_zeros() as usize / 8;
        let Some(place) = self.places.get(number) else {
            return false;
        };
        place.store(front.as_ptr(), Release);
        self.tags
            .store(tags | sought.tag() << (number * 8), Release);
        true
    }

    /// Where a block of this hash is. The writer's.
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

    /// Nothing is held from here any more: another table has it. Tags and counts stay. The writer's.
    pub(super) fn retire(&self) {
        self.places
            .iter()
            .filter(|place| !place.load(Relaxed).is_null())
            .for_each(|place| place.store(null_mut(), SeqCst));
    }

    /// A block goes on to the next bucket, before it is put there. The writer's.
    pub(super) fn count_passed(&self) {
        let tags = self.tags.load(Relaxed);
        if tags >> 56 < MANY {
            self.tags.store(tags + (1 << 56), Release);
        }
    }

    /// One that had passed is gone. The writer's.
    pub(super) fn uncount_passed(&self) {
        let tags = self.tags.load(Relaxed);
        if (1..MANY).contains(&(tags >> 56)) {
            self.tags.store(tags - (1 << 56), Release);
        }
    }

    /// What is in it. The writer's.
    pub(super) fn blocks(&self) -> impl Iterator<Item = NonNull<ShaderHeader>> {
        self.places
            .iter()
            .filter_map(|place| NonNull::new(place.load(Relaxed)))
    }
}
