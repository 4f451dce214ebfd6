//! What pools are asked for, and what they answer.

#![forbid(unsafe_code)]

use crate::device::{Dedicated, ExternalHandleTypes, MemoryHandle, NextChain};
use crate::id::{Place, PoolId};
use crate::memory_type::Wish;
use crate::property_flags::PropertyFlags;
use crate::request::{DedicatedPolicy, Lifetime, ResourceKind};

/// The word of a region without a record.
pub(crate) const BARE: u32 = u32::MAX;
/// The word of a range that is a transient page: this, and the page's number.
pub(super) const PAGE: u32 = 0xfe00_0000;
/// The word of a range that is a slab: this, and the slab's number.
pub(super) const SLAB: u32 = 0xfc00_0000;

/// The word of a range that a linear pool lies in.
pub(super) const LINE: u32 = 0xfa00_0000;

/// Whether a range is a page, a slab or a line of the pool's own. No record has so high a number.
pub(super) const fn is_own(word: u32) -> bool {
    word >= LINE && word != BARE
}

/// A region that is wanted.
// In this order, so that what is short and comes from two places is not gathered into one long load: that waits for the caller's stores.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Ask {
    /// Bytes, at least 1.
    pub(crate) size: u64,
    /// A power of two.
    pub(crate) alignment: u64,
    pub(crate) memory_type_bits: u32,
    pub(crate) wish: Wish,
    pub(crate) kind: ResourceKind,
    pub(crate) lifetime: Lifetime,
    pub(crate) dedicated: DedicatedPolicy,
    pub(crate) within_budget: bool,
    /// Kept with the region: a record's number, or [`BARE`].
    pub(crate) word: u32,
    /// The driver would have it dedicated, or must.
    pub(crate) prefers_dedicated: bool,
    pub(crate) requires_dedicated: bool,
    pub(crate) export: ExternalHandleTypes,
    pub(crate) priority: Option<f32>,
    pub(crate) pool: Option<PoolId>,
    /// The resource that a memory object of its own would be for, if it is there already.
    pub(crate) resource: Option<Dedicated>,
    /// Structures for the driver, an import for instance; such memory is always dedicated.
    pub(crate) next: Option<NextChain>,
}

impl Ask {
    pub(crate) const fn new(size: u64, alignment: u64) -> Self {
        Self {
            size,
            alignment,
            memory_type_bits: u32::MAX,
            wish: Wish::ANY,
            kind: ResourceKind::Linear,
            lifetime: Lifetime::Unknown,
            dedicated: DedicatedPolicy::Allowed,
            resource: None,
            prefers_dedicated: false,
            requires_dedicated: false,
            pool: None,
            word: BARE,
            priority: None,
            export: ExternalHandleTypes::NONE,
            next: None,
            within_budget: false,
        }
    }
}

/// Where a region is: what its id carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Where {
    pub(crate) place: Place,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A region that was found room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) at: Where,
    pub(crate) memory: MemoryHandle,
    /// Within the memory object, bytes.
    pub(crate) offset: u64,
    /// What was asked for, in whole granules.
    pub(crate) size: u64,
    pub(crate) memory_type: u32,
    pub(crate) properties: PropertyFlags,
}

/// A live region, looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundRegion {
    pub(crate) memory: MemoryHandle,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) word: u32,
    pub(crate) memory_type: u32,
    pub(crate) properties: PropertyFlags,
    /// The whole memory object's.
    pub(crate) memory_size: u64,
}

/// A region that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gave {
    pub(crate) size: u64,
    pub(crate) word: u32,
}
