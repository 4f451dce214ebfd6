//! GPU memory for drivers and applications, with every byte of its book-keeping answered for.
//!
//! This crate starts where any use of device memory starts: with the question *which memory type*. A resource says which
//! types it accepts (`VkMemoryRequirements::memoryTypeBits`), the device says what each type can do
//! (`VkPhysicalDeviceMemoryProperties`), and the user has demands, hopes and dislikes ([`Wish`]). [`choose_memory_type`]
//! brings the three together. It is pure arithmetic over plain values: no Vulkan, no operating system, no allocation, and
//! the same answer for the same question.
//!
//! ```
//! use gpu_suballoc::{MemoryType, PropertyFlags, Wish, choose_memory_type};
//!
//! // A discrete card: fast memory of its own, plain host memory, and cached host memory for reading back.
//! let own = PropertyFlags::DEVICE_LOCAL;
//! let host = PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT;
//! let types = [
//!     MemoryType { properties: own, heap_index: 0 },
//!     MemoryType { properties: host, heap_index: 1 },
//!     MemoryType { properties: host | PropertyFlags::HOST_CACHED, heap_index: 1 },
//! ];
//!
//! // A buffer that the processor reads: it must be visible, and should be cached.
//! let read_back = Wish::requiring(PropertyFlags::HOST_VISIBLE).preferring(PropertyFlags::HOST_CACHED);
//! assert_eq!(choose_memory_type(&types, 0b111, read_back), Ok(2));
//!
//! // The same wish, for a resource that accepts only the first two types.
//! assert_eq!(choose_memory_type(&types, 0b011, read_back), Ok(1));
//!
//! // What cannot be had is an error that says what to do.
//! let error = choose_memory_type(&types, 0b001, read_back).unwrap_err();
//! assert!(error.to_string().contains("HOST_VISIBLE"));
//! ```
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(any(test, feature = "std"))]
extern crate std;

mod allocator;
#[cfg(feature = "ash")]
mod ash;
mod cache;
mod classes;
mod device;
mod error;
mod group;
mod id;
mod memory_type;
mod pool;
mod property_flags;
mod range;
mod report;
mod records;
mod request;
mod shard;
mod sync;
mod threads;

pub use allocator::{
    AllocatorOptions, BatchRefused, CloseRefused, Descriptor, DescriptorUse, Detached, Field, GpuAllocator, Mapping, NewRefused, Outstanding,
    Ownership, ParseError, Region, RegionInfo, WrapInfo,
};
pub use classes::{
    LinearAllocation, LinearBlock, LinearError, LinearRange, TransientAllocation, TransientPages, TransientRange,
    TransientStatistics,
};
#[cfg(feature = "ash")]
pub use crate::ash::{AshDevice, AshOptions, physical_device_capabilities};
pub use cache::{
    CacheDevice, CacheError, CacheLimits, CacheOwner, CacheStats, Compiled, ContentHash, Hold, OwnerStats, Removed, ShaderCache, ShaderKey,
    WorkHold,
};
pub use device::{
    BufferHandle, BufferInfo, BufferUsage, Dedicated, DeviceError, DeviceFeatures, DeviceLimits, DeviceMemory, DeviceProperties,
    ExternalHandleTypes, HeapBudget, HeapFlags, ImageHandle, ImageInfo, ImageTiling, ImageUsage, MAX_MEMORY_HEAPS, MappedRange,
    MemoryHandle, MemoryHeap, MemoryRequest, NextChain, QueueFamilies, ResourceRequirements,
};
#[cfg(feature = "testing")]
pub use device::{
    Breach, Fault, Logged, MockCall, MockDevice, MockFacts, MockLive, MockMemory, Profile, ResourceRules, Violation, Violations,
};
pub use error::{GpuError, Limit, MapRefusal, Misuse, Refused};
pub use group::{
    Access, Capabilities, CapabilityFlags, Contradiction, Cost, DeviceGroup, DeviceGroupBuilder, Edge, GroupDevice, GroupError, GroupId,
    GroupRefused, GroupStep, HandleTypes, LinkClass, MAX_DEVICES, Membership, OutOfRange, PciAddress, Reach, Seat, Topology,
    TopologyBuilder, TopologyError, UseMode,
};
pub use id::{PoolId, RegionId};
pub use memory_type::{MAX_MEMORY_TYPES, MemoryType, MemoryTypeError, Wish, choose_memory_type};
pub use pool::{MapPolicy, MemoryOptions, PoolAlgorithm, PoolOptions};
pub use property_flags::PropertyFlags;
pub use range::{
    VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock, VirtualBlockError, VirtualBlockStatistics,
    VirtualPiece, VirtualRange,
};
pub use records::Backing;
pub use report::{
    BlockContent, BlockView, CropView, GpuStats, Leak, LeakKind, Move, MoveLimits, MovePlace, MovePlan, Picture, Placement,
    RangeUse, RangeView, Resource, Totals,
};
pub use request::{DedicatedPolicy, Lifetime, RegionOptions, ResourceKind};
pub use shard::{Shard, ShardUsage};
