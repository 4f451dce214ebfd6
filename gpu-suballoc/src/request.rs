//! Options of a request besides size and alignment.

#![forbid(unsafe_code)]

use crate::device::{ExternalHandleTypes, NextChain, ResourceHandle, ResourceRequirements};
use crate::flags::setters;
use crate::id::PoolId;
use crate::memory_type::{MemoryPreference, PropertyFlags};

/// The expected lifetime of a region. A hint that chooses its structure; a wrong one only costs memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// A frame or two: placed at the other end of a hole than lasting regions.
    Transient,
    /// Not known.
    #[default]
    Unknown,
    /// Long.
    Persistent,
}

/// Which regions may share a page of `bufferImageGranularity` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// Buffers and linear images.
    #[default]
    Linear,
    /// Optimal images.
    Optimal,
    /// Not known: kept a granularity page away from everything else.
    Unknown,
}

/// Whether a region gets a memory object of its own (`VkMemoryDedicatedAllocateInfo`).
#[doc(alias("VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT", "AllocationScheme", "VkMemoryDedicatedAllocateInfo"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DedicatedPolicy {
    /// Never, unless the resource requires it.
    Never,
    /// When it is large, or the driver prefers it and the rule of [`Preferred`](Self::Preferred) allows that.
    #[default]
    Allowed,
    /// While fewer than three quarters of the memory objects that the device and
    /// [`MemoryOptions::max_allocations`](crate::pool::MemoryOptions::max_allocations) allow are live (of `n` fewer
    /// than `n - n / 4`; shared blocks are objects too); from a block otherwise.
    Preferred,
    /// Or not at all.
    Required,
}

/// The options of a region, besides its requirements. [`RegionOptions::new`], the default, suits most.
#[doc(alias("VmaAllocationCreateInfo", "AllocationCreateDesc"))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionOptions<'n> {
    /// Required, preferred and avoided properties of the memory.
    pub preference: MemoryPreference,
    /// The regions that it may share pages with. Not read if the allocator creates the resource.
    pub kind: ResourceKind,
    /// Its expected lifetime.
    pub lifetime: Lifetime,
    /// Whether it gets a memory object of its own.
    pub dedicated: DedicatedPolicy,
    /// The program's own buffer or image, which it binds at offset 0 (`VkMemoryDedicatedAllocateInfo`): the region gets
    /// a memory object of its own, of exactly the required size. The program destroys the resource, before the region
    /// is freed. For [`allocate`](crate::GpuAllocator::allocate) alone; elsewhere it is
    /// [`GpuMisuse::BadOptions`](crate::GpuMisuse::BadOptions).
    pub dedicated_for: Option<ResourceHandle>,
    /// Memory types that may serve, one bit each: for an import what `vkGetMemoryFdPropertiesKHR` and its kin report
    /// (VUID-VkMemoryAllocateInfo-memoryTypeIndex-00648).
    pub memory_type_bits: u32,
    /// The least alignment of the offset in the memory object, bytes, a power of two.
    pub min_alignment: u64,
    /// A custom pool; the device's own pools otherwise.
    pub pool: Option<PoolId>,
    /// 0 to 1 (`VK_EXT_memory_priority`); such a region gets a memory object of its own. Where the feature is not
    /// enabled it is [`GpuMisuse::NotEnabled`](crate::GpuMisuse::NotEnabled).
    pub priority: Option<f32>,
    /// Handle types for its export; such a region gets a memory object of its own.
    pub export: ExternalHandleTypes,
    /// The caller's structures behind `VkMemoryAllocateInfo`, an import for instance; such a region gets a memory
    /// object of its own.
    pub next: Option<NextChain>,
    /// Refuse a request that needs a memory object above its heap's budget (`VK_EXT_memory_budget`). A region in a
    /// block that exists is never refused.
    pub within_budget: bool,
    /// Memory for buffers with device addresses (`VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT`), which a buffer that the
    /// allocator creates with [`SHADER_DEVICE_ADDRESS`](crate::BufferUsage::SHADER_DEVICE_ADDRESS) gets without this.
    pub device_address: bool,
    /// From the upper end of a pool of two stacks ([`BlockAlgorithm::DoubleStack`]); anywhere else it is
    /// [`GpuMisuse::NoUpperEnd`](crate::GpuMisuse::NoUpperEnd).
    pub upper_address: bool,
    /// It never moves, and lies in blocks for pinned regions. In a custom pool that is not
    /// [pinned](crate::PoolOptions::pinned) it is [`GpuMisuse::PoolNotPinned`](crate::GpuMisuse::PoolNotPinned).
    pub pinned: bool,
    /// It is mapped while it lives, if its memory is `HOST_VISIBLE`: [`Region::mapped`](crate::Region::mapped) is the
    /// pointer. It does not move and keeps its block from being emptied. With `pinned` as well it lies among others
    /// that stay. If the driver does not map a shared block, dedicated memory is tried.
    pub mapped: bool,
    /// Its name in reports. Copied, up to 255 bytes.
    pub name: Option<&'n str>,
    /// The user's tag, for reports.
    pub tag: u64,
    /// The call site of the request, in the user's numbering; 0: not known.
    pub site: u64,
}

impl Default for RegionOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'n> RegionOptions<'n> {
    /// The defaults: an unknown lifetime, and pages shared with buffers. They [prefer](MemoryPreference::preferring)
    /// [`DEVICE_LOCAL`](crate::PropertyFlags::DEVICE_LOCAL). For access by the host,
    /// [require](MemoryPreference::requiring) `HOST_VISIBLE` instead.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            preference: MemoryPreference::ANY.preferring(PropertyFlags::DEVICE_LOCAL),
            kind: ResourceKind::Linear,
            lifetime: Lifetime::Unknown,
            dedicated: DedicatedPolicy::Allowed,
            dedicated_for: None,
            memory_type_bits: u32::MAX,
            min_alignment: 1,
            pool: None,
            priority: None,
            export: ExternalHandleTypes::NONE,
            next: None,
            within_budget: false,
            device_address: false,
            upper_address: false,
            pinned: false,
            mapped: false,
            name: None,
            tag: 0,
            site: 0,
        }
    }

    setters! {
        set {
            preference: MemoryPreference,
            kind: ResourceKind,
            lifetime: Lifetime,
            dedicated: DedicatedPolicy,
            memory_type_bits: u32,
            min_alignment: u64,
            export: ExternalHandleTypes,
            tag: u64,
            site: u64,
        }
        some {
            dedicated_for: ResourceHandle,
            pool: PoolId,
            priority: f32,
            next: NextChain,
            name: &'n str,
        }
        on {
            within_budget,
            device_address,
            upper_address,
            pinned,
            mapped,
        }
    }
}

impl ResourceRequirements {
    /// `size` bytes at `alignment`, in any memory type.
    #[must_use]
    pub const fn new(size: u64, alignment: u64) -> Self {
        Self { size, alignment, memory_type_bits: u32::MAX, prefers_dedicated: false, requires_dedicated: false }
    }

    /// With these memory types only, one bit each.
    #[must_use]
    pub const fn memory_types(self, memory_type_bits: u32) -> Self {
        Self { memory_type_bits, ..self }
    }
}

/// How a [`VirtualBlock`](crate::VirtualBlock) or a custom pool finds space. The linear ones place ranges one behind
/// the other, and free them in their order:
///
/// ```text
///   Stack         | a | b | c |             free              |      the newest: c, b, a
///   DoubleStack   | a | b |          free           | y | x   |      the newest of each end: b or y
///   Ring          | d | e |  free  | b | c |  (left at the end) |    the oldest: b, c, d, e
/// ```
///
/// A free out of order is refused:
/// [`VirtualBlockError::OutOfOrder`](crate::virtual_block::VirtualBlockError::OutOfOrder),
/// [`GpuMisuse::OutOfOrder`](crate::GpuMisuse::OutOfOrder). For a region before its turn call
/// [`free_when_unused`](crate::GpuAllocator::free_when_unused).
#[doc(alias("VMA_POOL_CREATE_LINEAR_ALGORITHM_BIT"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockAlgorithm {
    /// Any order of allocating and freeing.
    #[default]
    General,
    /// One behind the other; the newest is freed first. A pool has one block.
    Stack,
    /// A stack at each end: the lower one, and, for requests with an
    /// [`upper address`](crate::virtual_block::VirtualAllocationOptions::upper_address), the upper one. A pool has one
    /// block.
    DoubleStack,
    /// One behind the other, continued at the start; the oldest is freed first. A pool has one block.
    Ring,
}

impl BlockAlgorithm {
    pub(crate) const fn is_linear(self) -> bool {
        !matches!(self, Self::General)
    }
}
