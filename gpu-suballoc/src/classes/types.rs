//! Results of the sub-allocators.

#![forbid(unsafe_code)]

use core::alloc::Layout;

/// A region that was placed. Group, slot and generation are its id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotAllocation {
    pub(crate) group: u32,
    /// Below 64.
    pub(crate) slot: u32,
    /// 1 to 2^24 - 1.
    pub(crate) generation: u32,
    /// Bytes, from the same origin as the offset of the page; aligned as requested.
    pub(crate) offset: u64,
    /// Bytes, rounded up to granules.
    pub(crate) size: u64,
}

/// A region that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedSlot {
    pub(crate) size: u64,
    pub(crate) user_data: u32,
    /// Its page or slab is empty now, and may be [removed](super::SubAllocator::remove_spare).
    pub(crate) is_emptied: bool,
}

/// The location of a live region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotLocation {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) user_data: u32,
}

/// A live region of a page or slab, with its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveSlot {
    pub(crate) group: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) user_data: u32,
}

/// The range of a page or slab that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpareRange<H> {
    pub(crate) range_ref: H,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

/// What an allocation needs before it can succeed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassShortage {
    /// Host memory, to be [supplied](super::SubAllocator::grow_with).
    Memory(HostShortage),
    /// A range of a block, to be [added](super::SubAllocator::add).
    Range(RangeShortage),
    /// This class never places such a region: its size or alignment is too large.
    Unsupported,
}

/// Missing host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostShortage {
    pub(crate) layout: Layout,
    pub(super) kind: HostShortageKind,
}

/// The use of missing host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostShortageKind {
    /// Headers of pages or slabs.
    Headers,
    /// Headers of groups.
    Groups,
    /// That many slots.
    Slots(u32),
}

/// A missing range for a page or a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeShortage {
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes, a power of two.
    pub(crate) alignment: u64,
    /// Slabs: granules a slot. Pages: 0.
    pub(super) granules: u32,
}

/// Why an id names no live region. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeError {
    /// It was never issued here.
    Foreign,
    /// It was freed, and its slot has been issued again since.
    Stale,
    /// It was freed.
    Double,
    /// It lives, with other user data than expected.
    Held,
}
