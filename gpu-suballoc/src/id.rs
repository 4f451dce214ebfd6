//! Ids of regions and pools for tables, crops and C: plain numbers that are never reissued.
//!
//! ```text
//!   RegionId, 16 bytes:   tag: u32 | place: kind 3, pool 9, block 20 | slot: u32 | generation: u32
//!                         allocator                                                of the slot; a slot that has used its
//!                                                                                  24 bits is retired, never wrapped
//! ```

#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// The record number of a region without a record, and the end of a list of records. Numbers of records are below `pool::FIRST_OWN`; the
/// pools mark their own ranges with numbers from there up: `LINEAR_RANGE`, `MOVE_TARGET`.
pub(crate) const NO_RECORD: u32 = u32::MAX;

/// The id of a region. It is stale once the region is freed: a place that is used again gets another id.
///
/// An id of another allocator has another tag. Calls refuse it, and stale ids, with a typed error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId {
    tag: u32,
    at: RegionSlot,
}

/// An id without its allocator's tag: place, slot and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RegionSlot {
    pub(crate) place: RegionPlace,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl RegionSlot {
    #[inline]
    pub(crate) const fn kind(self) -> RegionPlaceKind {
        self.place.kind()
    }
}

impl RegionId {
    #[inline]
    pub(crate) const fn new(tag: u32, at: RegionSlot) -> Self {
        Self { tag, at }
    }

    /// The four numbers, for C.
    #[inline]
    #[must_use]
    pub const fn as_raw(self) -> [u32; 4] {
        [self.tag, self.at.place.0, self.at.slot, self.at.generation]
    }

    /// From [`as_raw`](RegionId::as_raw). Any four numbers are safe: an id that was never issued is stale.
    #[inline]
    #[must_use]
    pub const fn from_raw([tag, place, slot, generation]: [u32; 4]) -> Self {
        let place = RegionPlace(place);
        Self {
            tag,
            at: RegionSlot {
                place,
                slot,
                generation,
            },
        }
    }

    /// The tag of the allocator, unique in the process.
    #[inline]
    #[must_use]
    pub const fn tag(self) -> u32 {
        self.tag
    }

    #[inline]
    pub(crate) const fn at(self) -> RegionSlot {
        self.at
    }

    #[inline]
    pub(crate) const fn kind(self) -> RegionPlaceKind {
        self.at.kind()
    }
}

impl fmt::Debug for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegionSlot {
            place,
            slot,
            generation,
        } = self.at;
        let (kind, pool, block) = (place.kind(), place.pool(), place.block());
        write!(
            f,
            "{:08x}:{kind:?}/{pool}/{block}/{slot}#{generation}",
            self.tag
        )
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The kind of structure that holds a region, which determines the meaning of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum RegionPlaceKind {
    /// A range of a block; the slot is its node.
    General = 0,
    /// A memory object of its own.
    Dedicated = 3,
    /// A piece of a linear pool.
    Linear = 4,
    /// A wrapped buffer; the slot is its record. No pool, no block.
    Wrapped = 5,
    /// A crop; the slot is its record. No pool, no block.
    Crop = 6,
}

impl RegionPlaceKind {
    /// A place in a block of a pool that holds one region.
    #[inline]
    pub(crate) const fn is_in_pool(self) -> bool {
        !matches!(self, Self::Wrapped | Self::Crop)
    }

    const fn from_bits(bits: u32) -> Self {
        match bits & 7 {
            0 => Self::General,
            3 => Self::Dedicated,
            4 => Self::Linear,
            5 => Self::Wrapped,
            _ => Self::Crop,
        }
    }
}

/// The place of a region, packed as in its id: kind, pool below 512, block below 2^20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RegionPlace(u32);

impl RegionPlace {
    /// Limit of the number of pools.
    pub(crate) const POOLS: u32 = 1 << 9;
    /// Limit of the number of blocks of a pool.
    pub(crate) const BLOCKS: u32 = 1 << 20;
    /// The place of wrapped buffers: no pool, no block.
    pub(crate) const WRAPPED: Self = Self::new(RegionPlaceKind::Wrapped, 0, 0);
    /// The place of crops.
    pub(crate) const CROP: Self = Self::new(RegionPlaceKind::Crop, 0, 0);

    /// `pool` must be below [`RegionPlace::POOLS`], and `block` below [`RegionPlace::BLOCKS`]: higher bits are cut off.
    #[inline]
    pub(crate) const fn new(kind: RegionPlaceKind, pool: u16, block: u32) -> Self {
        Self(
            (kind as u32) << 29
                | (pool as u32 & (Self::POOLS - 1)) << 20
                | block & (Self::BLOCKS - 1),
        )
    }

    #[inline]
    pub(crate) const fn kind(self) -> RegionPlaceKind {
        RegionPlaceKind::from_bits(self.0 >> 29)
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

/// Unique among 2^32 allocators of the process. Consecutive tags differ in many bits.
pub(crate) fn next_tag() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    mix(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A bijection on 32 bits, because each step is invertible: different numbers stay different.
const fn mix(number: u32) -> u32 {
    let mut mixed = number ^ 0x5bd1_e995;
    mixed ^= mixed >> 16;
    mixed = mixed.wrapping_mul(0x9e37_79b1);
    mixed ^= mixed >> 15;
    mixed = mixed.wrapping_mul(0x85eb_ca77);
    mixed ^ mixed >> 13
}

#[cfg(test)]
mod tests {
    use super::{RegionId, RegionPlace, RegionPlaceKind, RegionSlot, mix, next_tag};
    use std::collections::HashSet;

    #[test]
    fn a_place_comes_back_as_it_was_packed() {
        for bits in [0, 3, 4, 5, 6] {
            let kind = RegionPlaceKind::from_bits(bits);
            let place = RegionPlace::new(kind, 511, (1 << 20) - 1);
            assert_eq!(
                (place.kind(), place.pool(), place.block()),
                (kind, 511, (1 << 20) - 1)
            );
            assert_eq!(place.0 >> 29, bits);
        }
        let at = RegionSlot {
            place: RegionPlace::new(RegionPlaceKind::Linear, 3, 77),
            slot: 9,
            generation: 11,
        };
        let id = RegionId::new(5, at);
        assert_eq!(RegionId::from_raw(id.as_raw()), id);
        assert_eq!((id.tag(), id.at()), (5, at));
    }

    #[test]
    fn tags_differ() {
        let mixed: HashSet<u32> = (0..100_000).map(mix).collect();
        assert_eq!(mixed.len(), 100_000);
        assert_ne!(next_tag(), next_tag());
    }
}
