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
        // A byte of 0 where the tag is that of the place; some others may look so too, and fail when keys are compared.
        let other = (tags ^ sought.tags) & (u64::MAX >> 8);
        let mut matches = other.wrapping_sub(ONES) & !other & TOPS;
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

    /// Puts a block in; false where all places are taken. The writer's.
    pub(super) fn put(&self, sought: HashTag, front: NonNull<ShaderHeader>) -> bool {
        let tags = self.tags.load(Relaxed);
        let Some(number) = (0..PLACES).find(|number| tags >> (number * 8) & 0xFF == 0) else {
            return false;
        };
        let Some(place) = self.places.get(number) else {
            return false;
        };
        place.store(front.as_ptr(), Release);
        self.tags
            .store(tags | sought.tag() << (number * 8), Release);
        true
    }

    /// Takes a block out; false where it is not here. Whoever holds it from now on did so before. The writer's.
    pub(super) fn remove(&self, front: *const ShaderHeader) -> bool {
        let Some(number) = self.number_of(front) else {
            return false;
        };
        let tags = self.tags.load(Relaxed);
        self.tags.store(tags & !(0xFF << (number * 8)), Release);
        if let Some(place) = self.places.get(number) {
            place.store(null_mut(), SeqCst);
        }
        true
    }

    /// Where a block is. The writer's.
    pub(super) fn place_of(&self, front: *const ShaderHeader) -> Option<&BucketPlace> {
        self.places.get(self.number_of(front)?)
    }

    /// Closed ones too.
    fn number_of(&self, front: *const ShaderHeader) -> Option<usize> {
        self.places.iter().position(|place| {
            place
                .load(Relaxed)
                .map_addr(|addr| addr & !CLOSED)
                .cast_const()
                == front
        })
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
