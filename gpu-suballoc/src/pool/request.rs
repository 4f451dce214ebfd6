use crate::device::{ExternalHandleTypes, MemoryHandle, NextChain, ResourceHandle};
use crate::id::{PoolId, RegionPlace};
use crate::map_count::Address;
use crate::memory_type::{MemoryPreference, PropertyFlags};
use crate::request::{DedicatedPolicy, Lifetime, ResourceKind};

/// A reserved target of a move has this in place of a slot. No slot has so high a number.
pub(crate) const MOVE_TARGET: u32 = 0xfa00_0000;

// In this order, so that short fields which are stored separately are not read by one wide load, which would wait.
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
    /// Shared blocks have no device address, and the resource needs one.
    pub(crate) own_device_address: bool,
    pub(crate) upper_address: bool,
    pub(crate) pinned: bool,
    pub(crate) mapped: bool,
    pub(crate) slot: u32,
    pub(crate) prefers_dedicated: bool,
    pub(crate) requires_dedicated: bool,
    pub(crate) export: ExternalHandleTypes,
    pub(crate) priority: Option<f32>,
    pub(crate) pool: Option<PoolId>,
    pub(crate) resource: Option<ResourceHandle>,
    /// Such memory is always dedicated.
    pub(crate) next: Option<NextChain>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Suballocation {
    pub(crate) at: RegionPlace,
    pub(crate) memory: MemoryHandle,
    pub(crate) memory_size: u64,
    /// Bytes, from the start of the memory object.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// Whole granules, and its margin.
    pub(crate) reserved: u64,
    pub(crate) memory_type: u32,
    pub(crate) properties: PropertyFlags,
    pub(crate) mapped: Option<Address>,
}
