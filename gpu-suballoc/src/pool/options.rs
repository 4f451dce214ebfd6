//! What a user may decide about blocks and pools.

#![forbid(unsafe_code)]

use crate::block_algorithm::BlockAlgorithm;
use crate::device::{ExternalHandleTypes, MAX_MEMORY_HEAPS, NextChain};
use crate::request::ResourceKind;

/// Sizes and limits of the memory that is taken from the driver; bytes throughout. The default suits most programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Regions begin and end at multiples of this: a power of two, 16 to 4096. Where the device's `nonCoherentAtomSize` is
    /// larger, that one counts, so that a flush never touches a neighbour. 256 by default.
    pub granule: u32,
    /// A pool's first block. By default 8 MiB, or a 64th of the heap where that is less.
    pub first_block: Option<u64>,
    /// No memory object is larger, not even a dedicated one: such a request is refused at once. At least one granule; shared blocks
    /// use whole granules of it. By default shared blocks grow to 256 MiB (32 MiB of memory that is not `DEVICE_LOCAL`, which drivers
    /// allocate slowly), or an eighth of the heap where that is less, and dedicated ones to what the device allows. Below that each
    /// block has an eighth of what its pool has reserved.
    pub max_block: Option<u64>,
    /// Sizes of shared blocks are rounded up to a multiple of this; 1 by default, 0 is the same.
    pub nearest_multiple: u64,
    /// All memory objects together, at every moment.
    pub max_bytes: u64,
    /// Live memory objects; what the device allows (`maxMemoryAllocationCount`) if that is less.
    pub max_allocations: u32,
    /// Memory objects in each heap together, at every moment.
    pub heap_limits: [u64; MAX_MEMORY_HEAPS],
    /// Empty blocks that each pool keeps for what comes next, in bytes; none are kept while their heap is over its budget. By
    /// default as much as the pool's largest block.
    pub keep_empty: Option<u64>,
    /// Size of the pages that short-lived regions share: a power of two, 64 KiB to 64 MiB. 4 MiB by default; blocks too small for
    /// such pages get smaller ones.
    pub page_size: u64,
    /// When blocks are unmapped.
    pub map_policy: MapPolicy,
    /// Buffers in shared blocks may have device addresses (`bufferDeviceAddress` must be enabled; without it this does nothing).
    /// Where this is off, each such buffer gets a memory object of its own, if the feature is enabled.
    pub device_address: bool,
    /// Bytes behind each region of a shared block that the host sees, with a pattern in them: up to 4096; 0, the default, for none. In
    /// memory that the host must flush they are rounded up to whole `nonCoherentAtomSize`s. The pattern is looked at when the region is freed ([`GpuMisuse::MarginOverwritten`](crate::GpuMisuse::MarginOverwritten)) and by
    /// [`GpuAllocator::check_corruption`](crate::GpuAllocator::check_corruption). For looking for mistakes: with margins, pages, slabs and
    /// shards are not used, regions of such memory are not moved, and each is mapped when it comes and goes. Memory objects with one
    /// region have no margin.
    pub margin: u32,
    /// Refuse rather than take more than the budget of a heap (`VK_EXT_memory_budget`). Otherwise a heap with room is preferred,
    /// and if there is none the driver is asked all the same.
    pub within_budget: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl MemoryOptions {
    /// The default.
    pub(crate) const DEFAULT: Self = Self {
        granule: 256,
        first_block: None,
        max_block: None,
        nearest_multiple: 1,
        max_bytes: u64::MAX,
        max_allocations: u32::MAX,
        heap_limits: [u64::MAX; MAX_MEMORY_HEAPS],
        keep_empty: None,
        page_size: 4 << 20,
        map_policy: MapPolicy::Persistent,
        device_address: true,
        margin: 0,
        within_budget: false,
    };

    /// Whether powers of two are such and sizes are not 0.
    pub(crate) fn is_sound(&self) -> bool {
        self.granule.is_power_of_two()
            && (16..=4096).contains(&self.granule)
            && self.page_size.is_power_of_two()
            && (1 << 16..=1 << 26).contains(&self.page_size)
            && self.margin <= 4096
            && self.first_block != Some(0)
            && self.max_block != Some(0)
    }
}

/// When a mapped block is unmapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapPolicy {
    /// Once mapped it stays so until it is given back to the driver: mapping again costs no driver call.
    #[default]
    Persistent,
    /// When the last of its regions is unmapped. For 32-bit address spaces.
    Counted,
}

/// A pool of the user's own: memory of one type that nothing else lies in. At most 384 of them live at once; one more is
/// [`Limit::Pools`](crate::error::Limit::Pools).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolOptions {
    /// Index of its memory type.
    pub memory_type: u32,
    /// What lies in it. Where `bufferImageGranularity` matters, regions of another kind are kept apart by padding.
    pub kind: ResourceKind,
    /// How space is found.
    pub algorithm: BlockAlgorithm,
    /// Nothing in it is moved by a defragmentation: for [pinned](crate::RegionOptions::pinned) regions, and others.
    pub pinned: bool,
    /// All its blocks have this size, at least one granule; by default they grow as in other pools.
    pub block_size: Option<u64>,
    /// Blocks that are made with the pool and kept until it goes.
    pub min_blocks: u32,
    /// Blocks at most, dedicated ones included.
    pub max_blocks: u32,
    /// Bytes of its blocks at most, at every moment; at least one granule.
    pub max_bytes: u64,
    /// Empty blocks it keeps beyond `min_blocks`, in bytes; by default as [`MemoryOptions::keep_empty`].
    pub keep_empty: Option<u64>,
    /// `VkMemoryPriorityAllocateInfoEXT`, 0 to 1, of its blocks.
    pub priority: Option<f32>,
    /// All its regions are aligned to this at least; a power of two.
    pub min_alignment: u64,
    /// Handle types that its blocks are exported as.
    pub export: ExternalHandleTypes,
    /// Structures of the caller's own for each of its blocks.
    pub next: Option<NextChain>,
}

impl PoolOptions {
    /// A growing pool of one memory type for buffers and linear images.
    #[must_use]
    pub const fn new(memory_type: u32) -> Self {
        Self {
            memory_type,
            kind: ResourceKind::Linear,
            algorithm: BlockAlgorithm::General,
            pinned: false,
            block_size: None,
            min_blocks: 0,
            max_blocks: u32::MAX,
            max_bytes: u64::MAX,
            keep_empty: None,
            priority: None,
            min_alignment: 1,
            export: ExternalHandleTypes::NONE,
            next: None,
        }
    }
}
