#![forbid(unsafe_code)]

use crate::device::{ExternalHandleTypes, MAX_MEMORY_HEAPS, NextChain};
use crate::request::{BlockAlgorithm, ResourceKind};

/// Sizes and limits of the memory that is allocated from the driver, in bytes.
#[doc(alias("AllocationSizes", "preferredLargeHeapBlockSize", "pHeapSizeLimit"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Regions begin and end at multiples of this: a power of two, 16 to 4096, 256 by default. At least the device's
    /// `nonCoherentAtomSize`.
    pub granule: u32,
    /// A pool's first block. By default 8 MiB, or a 64th of the heap where that is less.
    pub first_block: Option<u64>,
    /// The size of the largest shared block, in whole granules. Larger requests get dedicated memory objects. By
    /// default blocks grow to 256 MiB (32 MiB of memory that is not `DEVICE_LOCAL`), or an eighth of the heap or
    /// `maxMemoryAllocationSize` if that is less.
    pub max_block: Option<u64>,
    /// `first_block` of `HOST_VISIBLE` memory; by default the same.
    pub first_host_block: Option<u64>,
    /// `max_block` of `HOST_VISIBLE` memory; by default the same.
    pub max_host_block: Option<u64>,
    /// Sizes of shared blocks are rounded up to a multiple of this; 1 by default, 0 is the same.
    pub nearest_multiple: u64,
    /// The limit of the bytes of all memory objects together, at every moment.
    pub max_bytes: u64,
    /// The limit of live memory objects; the device's `maxMemoryAllocationCount` if that is less.
    pub max_allocations: u32,
    /// The limit of the bytes of all memory objects in each heap. By default the driver decides whether more than the
    /// size of the heap can live.
    pub heap_limits: [u64; MAX_MEMORY_HEAPS],
    /// Bytes of empty blocks that each pool keeps, unless its heap is over its budget. The default is a first block, or
    /// an eighth of the bytes of the pool's regions if that is more, up to the largest block.
    pub keep_empty: Option<u64>,
    /// When blocks are unmapped.
    pub map_policy: MapPolicy,
    /// Buffers in shared blocks may have device addresses, if `bufferDeviceAddress` is enabled. If this is off, each
    /// such buffer gets a dedicated memory object.
    pub device_address: bool,
    /// Bytes behind each region of a shared, host-visible block that are filled with a pattern, and with them the rest
    /// of its last granule: up to 4096; 0, the default, for none. The pattern begins where the requested bytes end, of
    /// a buffer or image those that it requires. In memory that the host must flush the margin is rounded up to whole
    /// `nonCoherentAtomSize`s, and what the device writes to the region's last atom is found only once the host has
    /// invalidated the region. The pattern is checked when the region is freed
    /// ([`GpuMisuse::MarginOverwritten`](crate::GpuMisuse::MarginOverwritten)) and by
    /// [`GpuAllocator::check_corruption`](crate::GpuAllocator::check_corruption). A debugging aid: regions with margins
    /// are not moved, and each is mapped when it is allocated and when it is freed.
    pub margin: u32,
    /// As [`RegionOptions::within_budget`](crate::RegionOptions::within_budget), for all requests. Otherwise a heap
    /// with room in its budget is preferred, and if none has room the driver is called all the same.
    pub within_budget: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            granule: 256,
            first_block: None,
            max_block: None,
            first_host_block: None,
            max_host_block: None,
            nearest_multiple: 1,
            max_bytes: u64::MAX,
            max_allocations: u32::MAX,
            heap_limits: [u64::MAX; MAX_MEMORY_HEAPS],
            keep_empty: None,
            map_policy: MapPolicy::default(),
            device_address: true,
            margin: 0,
            within_budget: false,
        }
    }
}

impl MemoryOptions {
    pub(crate) fn is_sound(&self) -> bool {
        self.granule.is_power_of_two()
            && (16..=4096).contains(&self.granule)
            && self.margin <= 4096
            && ![self.first_block, self.max_block, self.first_host_block, self.max_host_block].contains(&Some(0))
    }
}

/// When a mapped block is unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapPolicy {
    /// When the block is freed: mapping it again costs no driver call. The default with 64-bit pointers.
    Persistent,
    /// When the last of its regions is unmapped. The default with 32-bit pointers, whose address space blocks would
    /// fill.
    Counted,
}

impl Default for MapPolicy {
    fn default() -> Self {
        if usize::BITS > 32 { Self::Persistent } else { Self::Counted }
    }
}

/// A custom pool: memory of one type, for the requests that name the pool. At most 384 live at once.
#[doc(alias("VmaPoolCreateInfo"))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolOptions {
    /// Index of its memory type.
    pub memory_type: u32,
    /// In a stack or ring, the kind of regions that are not padded to pages of `bufferImageGranularity`.
    pub kind: ResourceKind,
    /// How space is found.
    pub algorithm: BlockAlgorithm,
    /// No defragmentation moves its regions: for [pinned](crate::RegionOptions::pinned) regions, and others.
    pub pinned: bool,
    /// The size of all its blocks, at least one granule; by default they grow as in other pools.
    pub block_size: Option<u64>,
    /// Blocks that are created with the pool and kept until it is destroyed.
    pub min_blocks: u32,
    /// The limit of blocks, dedicated ones included.
    pub max_blocks: u32,
    /// The limit of the bytes of its blocks, at every moment; at least one granule.
    pub max_bytes: u64,
    /// Bytes of empty blocks that it keeps beyond `min_blocks`; by default as [`MemoryOptions::keep_empty`].
    pub keep_empty: Option<u64>,
    /// `VkMemoryPriorityAllocateInfoEXT`, 0 to 1, of its blocks.
    pub priority: Option<f32>,
    /// The minimum alignment of its regions; a power of two.
    pub min_alignment: u64,
    /// Handle types that its blocks are exported as.
    pub export: ExternalHandleTypes,
    /// The `pNext` chain of each of its blocks.
    pub next: Option<NextChain>,
}

impl PoolOptions {
    /// A growing pool of one memory type.
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
