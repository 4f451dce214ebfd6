//! Names of regions and pools that a table, a crop or C code can keep: plain numbers, never reissued.
//!
//! ```text
//!   RegionId, 16 bytes:   tag: u32 | place: kind 3, pool 9, block 20 | slot: u32 | generation: u32
//!                         which     where                              which       of that slot; a slot whose 24 bits
//!                         allocator                                                are used up is retired, never wrapped
//! ```

#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// Names a region for as long as it lives, and nothing afterwards: a place that was given back is given out under another id.
///
/// An id of another allocator is told from one's own by its tag; both are refused with a typed error wherever an id is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId {
    tag: u32,
    place: u32,
    slot: u32,
    generation: u32,
}

impl RegionId {
    #[inline]
    pub(crate) const fn new(tag: u32, place: Place, slot: u32, generation: u32) -> Self {
        Self { tag, place: place.pack(), slot, generation }
    }

    /// The four numbers, to be kept where Rust's types do not reach.
    #[inline]
    #[must_use]
    pub const fn as_raw(self) -> [u32; 4] {
        [self.tag, self.place, self.slot, self.generation]
    }

    /// From [`as_raw`](RegionId::as_raw). Any four numbers will do: an id that was never given out names nothing.
    #[inline]
    #[must_use]
    pub const fn from_raw([tag, place, slot, generation]: [u32; 4]) -> Self {
        Self { tag, place, slot, generation }
    }

    /// The number of the allocator whose region it is: no other allocator of the process has it.
    #[inline]
    #[must_use]
    pub const fn tag(self) -> u32 {
        self.tag
    }

    #[inline]
    pub(crate) const fn place(self) -> Place {
        Place::unpack(self.place)
    }

    #[inline]
    pub(crate) const fn slot(self) -> u32 {
        self.slot
    }

    #[inline]
    pub(crate) const fn generation(self) -> u32 {
        self.generation
    }
}

impl fmt::Debug for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { kind, pool, block } = self.place();
        write!(f, "{:08x}:{kind:?}/{pool}/{block}/{}#{}", self.tag, self.slot, self.generation)
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What kind of structure holds a region, and hence how its slot is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum PlaceKind {
    /// A range of a block; the slot is its node.
    General = 0,
    /// A piece of a transient page.
    Transient = 1,
    /// A slot of a slab.
    Slab = 2,
    /// A memory object of its own.
    Dedicated = 3,
    /// A piece of a linear pool.
    Linear = 4,
    /// Somebody else's buffer; the slot is its record. No pool, no block.
    Wrapped = 5,
    /// A part of another region; the slot is its record. No pool, no block.
    Crop = 6,
    /// A piece of a shard's own page or slab; the pool is the shard's number, bit 19 of the block says slab.
    Shard = 7,
}

impl PlaceKind {
    const fn from_bits(bits: u32) -> Self {
        match bits & 7 {
            0 => Self::General,
            1 => Self::Transient,
            2 => Self::Slab,
            3 => Self::Dedicated,
            4 => Self::Linear,
            5 => Self::Wrapped,
            6 => Self::Crop,
            _ => Self::Shard,
        }
    }
}

/// Where a region lies: kind, pool below 512, block below 2^20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) kind: PlaceKind,
    pub(crate) pool: u16,
    pub(crate) block: u32,
}

impl Place {
    /// How many pools there can be.
    pub(crate) const POOLS: u32 = 1 << 9;
    /// How many blocks a pool can have.
    pub(crate) const BLOCKS: u32 = 1 << 20;

    /// Pools and blocks past the limits are cut off: whoever makes them keeps below [`Place::POOLS`] and [`Place::BLOCKS`].
    #[inline]
    pub(crate) const fn pack(self) -> u32 {
        (self.kind as u32) << 29 | (self.pool as u32 & (Self::POOLS - 1)) << 20 | self.block & (Self::BLOCKS - 1)
    }

    #[inline]
    pub(crate) const fn unpack(packed: u32) -> Self {
        Self {
            kind: PlaceKind::from_bits(packed >> 29),
            pool: (packed >> 20 & (Self::POOLS - 1)) as u16,
            block: packed & (Self::BLOCKS - 1),
        }
    }
}

/// Names a custom pool of one allocator; of a pool that was destroyed it names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    pub(crate) tag: u32,
    pub(crate) generation: u32,
    pub(crate) index: u16,
}

/// A tag that no other allocator of this process has (of 2^32 made), and that looks like none of its neighbours.
pub(crate) fn next_tag() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    mix(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One to one on 32 bits (each step can be undone), so that different numbers stay different.
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
    use super::{Place, PlaceKind, RegionId, mix, next_tag};
    use std::collections::HashSet;

    #[test]
    fn a_place_comes_back_as_it_was_packed() {
        for bits in 0..8 {
            let place = Place { kind: PlaceKind::from_bits(bits), pool: 511, block: (1 << 20) - 1 };
            assert_eq!(Place::unpack(place.pack()), place);
            assert_eq!(place.pack() >> 29, bits);
        }
        let place = Place { kind: PlaceKind::Slab, pool: 3, block: 77 };
        let id = RegionId::new(5, place, 9, 11);
        assert_eq!(RegionId::from_raw(id.as_raw()), id);
        assert_eq!((id.tag(), id.place(), id.slot(), id.generation()), (5, place, 9, 11));
    }

    #[test]
    fn tags_differ() {
        let mixed: HashSet<u32> = (0..100_000).map(mix).collect();
        assert_eq!(mixed.len(), 100_000);
        assert_ne!(next_tag(), next_tag());
    }
}
