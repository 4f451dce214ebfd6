//! What the classes are asked, and what they answer.

#![forbid(unsafe_code)]

use core::alloc::Layout;

/// A region that was placed. Its name is the first three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotAllocation {
    /// Which group of seats.
    pub(crate) group: u32,
    /// Which seat of the group, below 64.
    pub(crate) slot: u32,
    /// Of the seat, 1 to 2^24 - 1.
    pub(crate) generation: u32,
    /// Bytes, from where the page's own offset is counted; aligned as asked.
    pub(crate) offset: u64,
    /// Bytes, rounded up to granules.
    pub(crate) size: u64,
}

/// A region that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedSlot {
    pub(crate) size: u64,
    pub(crate) user_data: u32,
    /// Its page or slab is empty now: there may be one to [spare](super::SubAllocator::remove_spare).
    pub(crate) is_emptied: bool,
}

/// A live region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotLocation {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) user_data: u32,
}

/// A live piece of a page or slab, with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveSlot {
    pub(crate) group: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) user_data: u32,
}

/// A page or slab that is nobody's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpareRange<H> {
    pub(crate) range_ref: H,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

/// What a take wants before it can succeed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassShortage {
    /// Host memory, to be [supplied](super::SubAllocator::grow_with).
    Memory(HostShortage),
    /// A range of a block, to be [added](super::SubAllocator::add).
    Range(RangeShortage),
    /// This class never places that: too large, or too aligned.
    Unsupported,
}

/// Host memory that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostShortage {
    pub(crate) layout: Layout,
    pub(super) kind: HostShortageKind,
}

/// What the memory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostShortageKind {
    /// Headers of pages or slabs.
    Headers,
    /// Headers of groups.
    Groups,
    /// That many seats.
    Slots(u32),
}

/// A range that is wanted for a page or a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeShortage {
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes, a power of two.
    pub(crate) alignment: u64,
    /// Slabs: granules a seat. Pages: 0.
    pub(super) granules: u32,
}

/// Why an id names no live region. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeError {
    /// It was never given out here.
    Foreign,
    /// It was given back, and its seat has been issued again since.
    Stale,
    /// It was given back.
    Double,
    /// It lives, with another word than was said.
    Held,
}
