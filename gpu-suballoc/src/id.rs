//! Ids are plain numbers that are never reissued.
//!
//! ```text
//!   RegionId, 12 bytes:   tag: u32 | slot: u32 | generation: u32
//!                         allocator  of the slot map; a slot that has used its 24 bits is retired, never wrapped
//!
//!   slot_key, 8 bytes:    slot: u32 | 8 bits of the tag | generation: 24 bits
//!
//!   RegionPlace:   mapped 1, kind 2, pool 9, block 20 | node | slot                            the slot's value has the place, the place
//!                                                                                        names the slot: either shows a stale other
//! ```

#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, Ordering};

/// The id of a region, stale once the region is freed: a slot that is used again gives another id.
///
/// Calls refuse an id of another allocator, which has another tag, and stale ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId {
    tag: u32,
    key: RegionKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RegionKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

pub(crate) const LAST_GENERATION: u32 = (1 << TAG_SHIFT) - 1;
const TAG_SHIFT: u32 = 24;
const TAG_BITS: u32 = 0xff;

impl RegionId {
    #[inline]
    pub(crate) const fn new(tag: u32, key: RegionKey) -> Self {
        Self { tag, key }
    }

    /// The numbers, for C; the last one is 0.
    #[inline]
    #[must_use]
    pub const fn as_raw(self) -> [u32; 4] {
        [self.tag, self.key.slot, self.key.generation, 0]
    }

    /// From [`as_raw`](RegionId::as_raw). Any four numbers are safe: an id that was never issued is stale.
    #[inline]
    #[must_use]
    pub const fn from_raw([tag, slot, generation, rest]: [u32; 4]) -> Self {
        // No slot has generation 0.
        let generation = if rest == 0 { generation } else { 0 };
        Self { tag, key: RegionKey { slot, generation } }
    }

    /// The tag of the allocator, unique in the process.
    #[inline]
    #[must_use]
    pub const fn tag(self) -> u32 {
        self.tag
    }

    #[inline]
    pub(crate) const fn key(self) -> RegionKey {
        self.key
    }

    /// The id as one number, for tables with room for one. [`GpuAllocator::id_of_key`](crate::GpuAllocator::id_of_key)
    /// has the id back.
    ///
    /// It lacks 24 bits of the allocator's tag: where allocators could be mixed up, store the id.
    #[must_use]
    pub const fn slot_key(self) -> NonZeroU64 {
        let RegionKey { slot, generation } = self.key;
        let low = (self.tag & TAG_BITS) << TAG_SHIFT | generation;
        match NonZeroU64::new((slot as u64) << 32 | low as u64) {
            Some(key) if generation != 0 && generation <= LAST_GENERATION => key,
            // No region has that slot.
            _ => NonZeroU64::MAX,
        }
    }

    pub(crate) const fn from_slot_key(key: NonZeroU64, tag: u32) -> Self {
        let low = key.get() as u32;
        let key = RegionKey { slot: (key.get() >> 32) as u32, generation: low & LAST_GENERATION };
        Self::new(tag & !TAG_BITS | low >> TAG_SHIFT, key)
    }
}

impl fmt::Debug for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegionKey { slot, generation } = self.key;
        write!(f, "{:08x}/{slot}#{generation}", self.tag)
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionPlace {
    pub(crate) block: BlockRef,
    /// In the block; 0 for memory of its own.
    pub(crate) node: u32,
    pub(crate) slot: u32,
}

impl RegionPlace {
    #[inline]
    pub(crate) const fn kind(self) -> RangePlacement {
        self.block.kind()
    }

    #[inline]
    pub(crate) const fn pool(self) -> u16 {
        self.block.pool()
    }

    #[inline]
    pub(crate) const fn block(self) -> u32 {
        self.block.block()
    }
}

/// How a region was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum RangePlacement {
    /// In the block's free space.
    General = 0,
    /// In memory of its own.
    Dedicated = 1,
    /// At the end of a stack or ring.
    Linear = 2,
    /// In the application's memory.
    Wrapped = 3,
}

/// The mark of a region that is mapped there is no part of the name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRef(u32);

impl PartialEq for BlockRef {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        (self.0 ^ other.0) & !Self::MAPPED == 0
    }
}

impl Eq for BlockRef {}

impl BlockRef {
    pub(crate) const POOLS: u32 = 1 << 9;
    pub(crate) const BLOCKS: u32 = 1 << 20;
    const MAPPED: u32 = 1 << 31;

    /// Higher bits of pool and block are cut off.
    #[inline]
    pub(crate) const fn new(kind: RangePlacement, pool: u16, block: u32) -> Self {
        Self((kind as u32) << 29 | (pool as u32 & (Self::POOLS - 1)) << 20 | block & (Self::BLOCKS - 1))
    }

    #[inline]
    pub(crate) const fn mapped(self) -> Self {
        Self(self.0 | Self::MAPPED)
    }

    #[inline]
    pub(crate) const fn is_mapped(self) -> bool {
        self.0 & Self::MAPPED != 0
    }

    #[inline]
    pub(crate) const fn kind(self) -> RangePlacement {
        match self.0 >> 29 & 3 {
            0 => RangePlacement::General,
            1 => RangePlacement::Dedicated,
            _ => RangePlacement::Linear,
        }
    }

    #[inline]
    pub(crate) const fn pool(self) -> u16 {
        (self.0 >> 20 & (Self::POOLS - 1)) as u16
    }

    #[inline]
    pub(crate) const fn block(self) -> u32 {
        self.0 & (Self::BLOCKS - 1)
    }
}

/// The id of a custom pool of one allocator; stale after the pool was destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    pub(crate) tag: u32,
    pub(crate) generation: u32,
    pub(crate) index: u16,
}

/// Tags are unique among 2^32 allocators: an odd factor maps different numbers to different ones.
pub(crate) fn next_tag() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b1)
}

#[cfg(test)]
mod tests {
    use super::{BlockRef, LAST_GENERATION, RangePlacement, RegionId, RegionKey, next_tag};
    use std::collections::HashSet;

    #[test]
    fn numbers_come_back_as_they_were_packed() {
        for kind in [RangePlacement::General, RangePlacement::Dedicated, RangePlacement::Linear] {
            let block = BlockRef::new(kind, 511, (1 << 20) - 1);
            for block in [block, block.mapped()] {
                assert_eq!((block.kind(), block.pool(), block.block()), (kind, 511, (1 << 20) - 1));
            }
            assert!(block == block.mapped() && block.mapped().is_mapped() && !block.is_mapped());
        }
        let key = RegionKey { slot: 9, generation: 11 };
        let id = RegionId::new(5, key);
        assert_eq!(RegionId::from_raw(id.as_raw()), id);
        assert_eq!((id.tag(), id.key()), (5, key));
        let mut other = id.as_raw();
        other[3] = 1;
        assert_ne!(RegionId::from_raw(other), id);
    }

    #[test]
    fn di12_a_slot_key_is_the_id_in_one_number() {
        let mut keys = HashSet::new();
        for tag in [0, 1, 255, 256, u32::MAX, 0x1234_5678] {
            for slot in [0, 1, 1 << 20, crate::pool::MOVE_TARGET - 1] {
                for generation in [1, 2, LAST_GENERATION] {
                    let id = RegionId::new(tag, RegionKey { slot, generation });
                    assert_eq!(RegionId::from_slot_key(id.slot_key(), tag), id);
                    let elsewhere = RegionId::from_slot_key(id.slot_key(), tag ^ 3);
                    assert_ne!(elsewhere.tag(), tag ^ 3, "of another allocator");
                    keys.insert((id.slot_key(), tag));
                }
            }
        }
        assert_eq!(keys.len(), 6 * 4 * 3);
        for generation in [0, LAST_GENERATION + 1, u32::MAX] {
            let none = RegionId::from_raw([0, 0, generation, 0]);
            assert!(none.slot_key().get() >> 32 >= u64::from(crate::pool::MOVE_TARGET));
        }
    }

    #[test]
    fn tags_differ() {
        let tags: HashSet<u32> = (0..100_000).map(|_| next_tag()).collect();
        assert_eq!(tags.len(), 100_000);
    }
}
