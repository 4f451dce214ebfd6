//! What pools are asked for, and what they answer.

#![forbid(unsafe_code)]

use crate::device::{ExternalHandleTypes, MemoryHandle, NextChain, ResourceHandle};
use crate::id::{NO_RECORD, PoolId, RegionSlot};
use crate::memory_type::MemoryPreference;
use crate::property_flags::PropertyFlags;
use crate::request::{DedicatedPolicy, Lifetime, ResourceKind};

/// The word of a range that is a transient page: this, and the page's number.
pub(super) const PAGE_RANGE: u32 = 0xfe00_0000;
/// The word of a range that is a slab: this, and the slab's number.
pub(super) const SLAB_RANGE: u32 = 0xfc00_0000;

/// The word of a range that a linear pool lies in.
pub(super) const LINEAR_RANGE: u32 = 0xfa00_0000;

/// The word of a range that is reserved for a region to be moved there.
pub(super) const MOVE_TARGET: u32 = 0xfb00_0000;

/// The word of a range that is a page or slab of a shard: this, the shard's number from bit 20 on, and below it which of its pages.
pub(crate) const SHARD_PAGE: u32 = 0xa000_0000;
/// The word of such a range until its shard has it.
pub(crate) const NEW_SHARD_PAGE: u32 = 0x9f00_0000;

/// The first word that is no record's number.
pub(crate) const FIRST_OWN: u32 = NEW_SHARD_PAGE;

/// Whether a range is a page, a slab or a line, of the pool's own or of a shard, or reserved for a move, and no region. No record has so high a number.
pub(super) const fn is_internal_range(user_data: u32) -> bool {
    user_data >= FIRST_OWN && user_data != NO_RECORD
}

/// The number of the slab that a range is.
pub(super) const fn slab_number(user_data: u32) -> Option<u32> {
    if user_data >= SLAB_RANGE && user_data < PAGE_RANGE {
        Some(user_data - SLAB_RANGE)
    } else {
        None
    }
}

/// Whether a range is a page or slab of a shard.
pub(super) const fn is_shard_page(user_data: u32) -> bool {
    user_data >= FIRST_OWN && user_data < LINEAR_RANGE
}

/// A region that is wanted.
// In this order, so that what is short and comes from two places is not gathered into one long load: that waits for the caller's stores.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AllocationRequest {
    /// Bytes, at least 1.
    pub(crate) size: u64,
    /// A power of two.
    pub(crate) alignment: u64,
    pub(crate) memory_type_bits: u32,
    pub(crate) preference: MemoryPreference,
    pub(crate) kind: ResourceKind,
    pub(crate) lifetime: Lifetime,
    pub(crate) dedicated: DedicatedPolicy,
    pub(crate) within_budget: bool,
    /// Device addresses, where blocks have none: memory of its own.
    pub(crate) own_device_address: bool,
    /// In a pool of two stacks: in the upper one.
    pub(crate) upper_address: bool,
    /// In blocks of its own kind, which no defragmentation empties.
    pub(crate) pinned: bool,
    /// Kept with the region: a record's number, or [`NO_RECORD`].
    pub(crate) user_data: u32,
    /// The driver would have it dedicated, or must.
    pub(crate) prefers_dedicated: bool,
    pub(crate) requires_dedicated: bool,
    pub(crate) export: ExternalHandleTypes,
    pub(crate) priority: Option<f32>,
    pub(crate) pool: Option<PoolId>,
    /// The resource that a memory object of its own would be for, if it is there already.
    pub(crate) resource: Option<ResourceHandle>,
    /// Structures for the driver, an import for instance; such memory is always dedicated.
    pub(crate) next: Option<NextChain>,
}

impl AllocationRequest {
    pub(crate) const fn new(size: u64, alignment: u64) -> Self {
        Self {
            size,
            alignment,
            memory_type_bits: u32::MAX,
            preference: MemoryPreference::ANY,
            kind: ResourceKind::Linear,
            lifetime: Lifetime::Unknown,
            dedicated: DedicatedPolicy::Allowed,
            resource: None,
            prefers_dedicated: false,
            requires_dedicated: false,
            pool: None,
            user_data: NO_RECORD,
            priority: None,
            export: ExternalHandleTypes::NONE,
            next: None,
            within_budget: false,
            own_device_address: false,
            upper_address: false,
            pinned: false,
        }
    }
}

/// A region: one that room was found for, or a live one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suballocation {
    pub(crate) at: RegionSlot,
    pub(crate) memory: MemoryHandle,
    /// Within the memory object, bytes.
    pub(crate) offset: u64,
    /// What was asked for, in whole granules.
    pub(crate) size: u64,
    pub(crate) memory_type: u32,
    pub(crate) properties: PropertyFlags,
}
