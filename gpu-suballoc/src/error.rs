//! The error of this crate: the cause, whose fault it is, and the remedy.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::{HostError, Rejected};

use crate::device::DeviceError;
use crate::memory_type::MemoryTypeError;

/// Why a call was refused. A refused call changed nothing, and returns the value that it would have consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuError {
    /// The host allocator had no memory for the bookkeeping. Nobody's fault.
    Host(HostError),
    /// The driver refused. Nobody's fault, unless it says otherwise.
    Device(DeviceError),
    /// The driver allocated the memory, and refused to bind or map it; the memory is freed again. A handle that was
    /// imported with it is the driver's. After any other error it is still the program's.
    AfterAllocation(DeviceError),
    /// A limit that the options or the device set would have been exceeded.
    Limit(Limit),
    /// More than any heap, block or buffer of this device can hold; freeing does not help. The caller's fault.
    TooLarge {
        /// Requested bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// No memory type fits. The caller's fault, or the device's.
    MemoryType(MemoryTypeError),
    /// The region cannot be mapped; freeing does not help.
    MapUnsupported {
        /// Why.
        reason: MapRefusal,
    },
    /// The caller broke a rule of this crate.
    Misuse(GpuMisuse),
}

/// A limit that was reached. Nothing exceeds one at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The bytes of all blocks together.
    Bytes {
        /// Bytes that were missing.
        short_by: u64,
    },
    /// What is left of the budget of a heap (`VK_EXT_memory_budget`).
    Budget {
        /// Which heap.
        heap: u32,
        /// Bytes that were missing.
        short_by: u64,
    },
    /// The bytes of the blocks of one heap.
    Heap {
        /// Which heap.
        heap: u32,
        /// Bytes that were missing.
        short_by: u64,
    },
    /// The number of blocks of a pool.
    Blocks {
        /// The limit.
        limit: u32,
    },
    /// The number of memory objects: `maxMemoryAllocationCount`, or what the options set below it.
    Objects {
        /// The limit.
        limit: u32,
    },
    /// The number of custom pools.
    Pools,
    /// The number of crops of one region, or of its mappings.
    Aliases,
    /// The number of records: regions with a resource, a name, crops or a mapping.
    Records,
    /// The bytes of all wrapped buffers together: 2^64 - 1.
    WrappedBytes {
        /// Bytes that were too many.
        short_by: u64,
    },
}

/// Why a region cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapRefusal {
    /// Its memory type is not `HOST_VISIBLE`.
    NotHostVisible,
    /// A wrapped buffer without a backing.
    BackingUnknown,
    /// A wrapped buffer whose backing is not `HOST_VISIBLE`.
    BackingNotHostVisible,
    /// The region, or the block that must be mapped for it, has more bytes than this process can address.
    AddressSpace,
}

/// A rule that the caller broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuMisuse {
    /// 0 bytes.
    ZeroSize,
    /// Alignment 0, or not a power of two.
    BadAlignment,
    /// An alignment that no block has.
    AlignmentTooLarge,
    /// The region was freed, or the id was never issued.
    Stale,
    /// The region belongs to another allocator.
    OtherAllocator,
    /// The region has crops.
    HasCrops,
    /// The region is mapped.
    Mapped,
    /// The region is not mapped, or less often.
    NotMapped,
    /// This call comes from a call that maps or unmaps the same memory object, or waits for one.
    NestedMap,
    /// The region is held by something that was created from it.
    Held,
    /// An offset and size past the end of the region.
    Outside,
    /// An offset or size that is no multiple of the element.
    Misaligned,
    /// The backing of a wrapped buffer is the allocator's own memory.
    OwnMemory,
    /// Elements of 0 bytes.
    ZeroElement,
    /// `VK_NULL_HANDLE`.
    NullHandle,
    /// Only a wrapped buffer can be detached.
    NotWrapped,
    /// A wrapped buffer cannot be made larger or kept for reuse.
    IsWrapped,
    /// Not for a crop: call it for the root.
    IsCrop,
    /// The region has no buffer.
    NoBuffer,
    /// No descriptor offset fits both the device's alignment and the element.
    NoDescriptorOffset,
    /// Creation flags that need more than one piece of memory (sparse, disjoint), or none at all.
    Unbindable,
    /// A usage of no bit at all.
    NoUsage,
    /// The pool was destroyed, or belongs to another allocator.
    NoSuchPool,
    /// The resource does not accept the pool's memory type.
    WrongPool,
    /// A pinned region in a pool whose regions move.
    PoolNotPinned,
    /// Regions of the pool live.
    PoolInUse,
    /// An option that is out of its range, or contradicts another.
    BadOptions,
    /// A largest block, a block size or a limit of a pool that is smaller than the granule: no region would fit.
    BlockTooSmall,
    /// The request needs a feature that is not enabled.
    NotEnabled,
    /// A resource that must have a memory object of its own, and that the options do not
    /// [name](crate::RegionOptions::dedicated_for): no bind to other memory is valid
    /// (VUID-vkBindImageMemory-image-01445, VUID-vkBindBufferMemory-buffer-01444).
    UnnamedResource,
    /// A region of a linear pool that is not the next in the order of [`BlockAlgorithm`](crate::BlockAlgorithm).
    OutOfOrder,
    /// The margin behind the region is overwritten. Only the first free is refused for it.
    MarginOverwritten,
    /// An upper address outside a pool of two stacks.
    NoUpperEnd,
    /// A priority below 0, above 1, or no number.
    BadPriority,
    /// The region was moved since its value was made.
    Moved,
    /// The pool is being defragmented.
    Defragmenting,
    /// The region has no image.
    NoImage,
    /// A moved resource does not fit into the reserved place.
    WrongPlace,
    /// The pool has no block of that number, or it ends before the place does.
    NoSuchPlace,
    /// Not all bytes of the place are free.
    PlaceTaken,
    /// The place begins at no multiple of the region's alignment, or of the granule.
    PlaceMisaligned,
    /// A linear pool places its regions itself.
    PlacesItself,
}

impl GpuError {
    /// True if freeing or trimming device memory may help.
    #[must_use]
    pub const fn is_out_of_device_memory(self) -> bool {
        matches!(
            self,
            Self::Device(DeviceError::OutOfDeviceMemory | DeviceError::TooManyObjects)
                | Self::AfterAllocation(DeviceError::OutOfDeviceMemory)
                | Self::Limit(_)
        )
    }

    /// No other memory type, and no smaller or other object could help.
    pub(crate) const fn is_final(self) -> bool {
        match self {
            Self::Host(_) | Self::MemoryType(_) | Self::AfterAllocation(_) => true,
            // An object that is being mapped now is not the next one.
            Self::Misuse(rule) => !matches!(rule, GpuMisuse::NestedMap),
            Self::Device(error) => matches!(
                error,
                DeviceError::DeviceLost | DeviceError::InvalidExternalHandle | DeviceError::InvalidOpaqueCaptureAddress
            ),
            Self::Limit(_) | Self::TooLarge { .. } | Self::MapUnsupported { .. } => false,
        }
    }

    pub(crate) const fn is_shortage(self) -> bool {
        !self.is_final() && !matches!(self, Self::TooLarge { .. })
    }

    /// True if the device is lost, see `GpuAllocator::abandon`.
    #[must_use]
    pub const fn is_device_lost(self) -> bool {
        matches!(self, Self::Device(DeviceError::DeviceLost) | Self::AfterAllocation(DeviceError::DeviceLost))
    }

    /// Whether the driver owns the handle that the refused request imported
    /// ([`RegionOptions::next`](crate::RegionOptions::next)): the program must not close it then.
    #[must_use]
    pub const fn driver_owns_import(self) -> bool {
        matches!(self, Self::AfterAllocation(_))
    }

    /// The `VkResult` for a driver or a C caller: the device's result, or `VK_ERROR_OUT_OF_HOST_MEMORY`,
    /// `VK_ERROR_OUT_OF_DEVICE_MEMORY`, `VK_ERROR_MEMORY_MAP_FAILED`, `VK_ERROR_FEATURE_NOT_PRESENT`,
    /// `VK_ERROR_VALIDATION_FAILED_EXT`.
    #[must_use]
    pub const fn as_vk_result(self) -> i32 {
        match self {
            Self::Host(error) if error.is_out_of_host_memory() => -1,
            Self::Host(_) | Self::Misuse(_) => -1_000_011_001,
            Self::Device(error) | Self::AfterAllocation(error) => error.as_raw(),
            Self::Limit(Limit::Objects { .. }) => -10,
            Self::Limit(_) | Self::TooLarge { .. } => -2,
            Self::MemoryType(_) => -8,
            Self::MapUnsupported { .. } => -5,
        }
    }
}

impl From<HostError> for GpuError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<DeviceError> for GpuError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<MemoryTypeError> for GpuError {
    fn from(error: MemoryTypeError) -> Self {
        Self::MemoryType(error)
    }
}

impl From<GpuMisuse> for GpuError {
    fn from(rule: GpuMisuse) -> Self {
        Self::Misuse(rule)
    }
}

impl From<Limit> for GpuError {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::AfterAllocation(error) => write!(
                f,
                "the driver allocated the memory, with which it owns what was imported, and did not bind or map it: {error}"
            ),
            Self::Limit(limit) => limit.fmt(f),
            Self::TooLarge { bytes, limit } => {
                write!(f, "{bytes} bytes are more than the {limit} that one allocation may have: split the request")
            }
            Self::MemoryType(error) => error.fmt(f),
            Self::MapUnsupported { reason } => reason.fmt(f),
            Self::Misuse(rule) => rule.fmt(f),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { short_by } => {
                write!(
                    f,
                    "{short_by} bytes are missing in what all blocks may have together: free regions, trim, or raise the limit"
                )
            }
            Self::Budget { heap, short_by } => write!(
                f,
                "the budget of heap {heap} is short by {short_by} bytes: free regions, trim, or do not set within_budget"
            ),
            Self::Heap { heap, short_by } => {
                write!(
                    f,
                    "heap {heap} is short by {short_by} bytes: free regions, trim, or accept memory of another heap"
                )
            }
            Self::Blocks { limit } => write!(f, "the pool has its {limit} blocks: free regions, or raise the limit"),
            Self::Objects { limit } => {
                write!(f, "no more memory objects than {limit} are allowed: free dedicated regions, or trim")
            }
            Self::Pools => f.write_str("there is no room for another pool: destroy one"),
            Self::Aliases => f.write_str("the region has all the crops or mappings that can be counted: free some"),
            Self::Records => {
                f.write_str("there is no room for another region with a resource, name or crop: free some")
            }
            Self::WrappedBytes { short_by } => {
                write!(
                    f,
                    "all wrapped buffers together would have {short_by} bytes too many to count: detach some, or pass their true sizes"
                )
            }
        }
    }
}

impl fmt::Display for MapRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHostVisible => "the region's memory is not HOST_VISIBLE: require that when allocating, or copy through a staging buffer",
            Self::BackingUnknown => {
                "of a wrapped buffer only the VkBuffer is known, not its memory: pass WrapInfo::backing, or copy through a staging buffer"
            }
            Self::BackingNotHostVisible => "the wrapped buffer's memory was said not to be HOST_VISIBLE: copy through a staging buffer",
            Self::AddressSpace => "the region or its block is larger than this process can address: allocate less, or set MemoryOptions::max_block",
        })
    }
}

impl fmt::Display for GpuMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroSize => "0 bytes were requested: request at least one",
            Self::BadAlignment => "the alignment is not a power of two: pass 1, 2, 4, ...",
            Self::AlignmentTooLarge => "no block has that alignment: request a smaller one",
            Self::Stale => "there is no such region: it was freed already, or the id is not one",
            Self::OtherAllocator => "the region is another allocator's: free it there",
            Self::HasCrops => "the region has crops: free them first, or use free_when_unused",
            Self::Mapped => "the region is mapped: unmap it first, or use free_when_unused",
            Self::NotMapped => "the region is not mapped: map it first",
            Self::NestedMap => "the device that calls back from vkMapMemory or vkUnmapMemory maps the same memory object: map it when that call is over",
            Self::Held => "the region is held by something that was made from it: free that first",
            Self::Outside => "offset and size reach past the end of the region: stay within",
            Self::Misaligned => "offset or size is no multiple of the element: pass whole elements",
            Self::ZeroElement => "an element has 0 bytes: pass its size, or 1",
            Self::NullHandle => "the handle is VK_NULL_HANDLE: pass a live one",
            Self::OwnMemory => {
                "the memory behind the buffer is the allocator's own, which it maps itself: wrap without a backing, and map the region"
            }
            Self::NotWrapped => "the region is not a wrapped one: free it instead of detaching it",
            Self::IsWrapped => "the buffer is the application's: it cannot be made larger or kept for reuse",
            Self::IsCrop => "the region is a crop: call this for its root",
            Self::NoBuffer => "the region has no buffer: make it with create_buffer or wrap; images cannot be cropped",
            Self::NoDescriptorOffset => {
                "no descriptor offset fits both the device's alignment and the element: copy the data to the start of a buffer"
            }
            Self::Unbindable => "sparse and disjoint resources have no one memory: bind such a resource yourself",
            Self::NoUsage => "the resource has no usage: pass at least one bit",
            Self::NoSuchPool => "there is no such pool: it was destroyed, or is another allocator's",
            Self::PoolNotPinned => "regions of this pool may move, so a pinned one cannot lie in it: set PoolOptions::pinned, or name no pool",
            Self::WrongPool => "the resource does not accept the pool's memory type: make a pool of one of its memoryTypeBits",
            Self::PoolInUse => "regions of the pool live: free them first",
            Self::BadOptions => {
                "an option is out of its range, or contradicts another: see AllocatorOptions, MemoryOptions and PoolOptions"
            }
            Self::BlockTooSmall => {
                "a largest block, a block size or a pool's bytes are less than the granule, the larger of MemoryOptions::granule and \
                 nonCoherentAtomSize: no region would fit, raise it"
            }
            Self::NotEnabled => "the device does not have what this needs, or it was not enabled: see DeviceFeatures",
            Self::UnnamedResource => {
                "the resource requires a memory object of its own, which must name it: pass RegionOptions::dedicated_for"
            }
            Self::OutOfOrder => {
                "regions of a linear pool are freed in the pool's order: free the others first, or use free_when_unused"
            }
            Self::MarginOverwritten => {
                "bytes behind the region were overwritten: see check_corruption; a second free frees it"
            }
            Self::NoUpperEnd => "only a custom pool with BlockAlgorithm::DoubleStack has an upper end: name one, or do not set upper_address",
            Self::BadPriority => "the priority is no number from 0 to 1: pass one",
            Self::Moved => "the region was moved: refresh its value, and descriptors that name its buffer",
            Self::Defragmenting => "the pool is being defragmented: end that first",
            Self::NoImage => "the region has no image: make it with create_image",
            Self::NoSuchPlace => {
                "the pool has no such block, or it is too small for that place: reserve as many blocks as there were, of the same block_size"
            }
            Self::PlaceTaken => "not all bytes of that place are free: free what lies there, or choose another place",
            Self::PlaceMisaligned => "the place begins at no multiple of the alignment or of the granule: choose one that does",
            Self::PlacesItself => "a linear pool places its regions itself: allocate them in the order in which they were captured",
            Self::WrongPlace => "the resource needs another place than the one that is reserved: pass the info that the first one was made with",
        })
    }
}

impl core::error::Error for GpuError {}
impl core::error::Error for GpuMisuse {}

impl<T> From<Rejected<T, GpuError>> for GpuError {
    fn from(rejected: Rejected<T, GpuError>) -> Self {
        rejected.error
    }
}
