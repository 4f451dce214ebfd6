//! GPU memory for drivers and applications: many regions in few allocations, with all bookkeeping memory accounted.
//!
//! A driver's `vkAllocateMemory` takes from tens of microseconds to milliseconds, and a device may allow only a few
//! thousand objects. A [`GpuAllocator`] therefore allocates large blocks of one device and divides them, for any number
//! of threads:
//!
//! ```text
//!   Region, RegionId      the user's value; its copy for tables and C: allocator, slot, generation
//!       |
//!   GpuAllocator          allocator/        allocate, create, map, crop, wrap, free; defragmentation/ moves regions
//!    |- RegionMetadata    region_metadata/  one slot a region: owned, wrapped or crop; resource, name, mappings
//!    |- Pools             pool/             a lock each: memory type x kind of resource, or custom; blocks, their sizes, budget
//!    |   '- blocks        range/            one VkDeviceMemory: ranges in any order, a stack, a ring; or dedicated to a region
//!    '- DeviceMemory      device/           the driver: ash/ (Vulkan), or the program's own
//!
//!   MemoryMap, GpuStats   report/, view.rs  what lies where: VMA's JSON, leaks, totals
//!   DeviceGroup           group/            devices, and an edge for each pair
//!
//!   with feature `cache`:
//!   ShaderCache           cache/            16 locked shards of entries, each in its owner's memory
//!   DeviceContexts        context/          devices of the application; DeviceContext = GpuAllocator + CacheOwner; ash/context: kernels
//! ```
//!
//! - The requirements of a resource ([`ResourceRequirements`]) and the options of its user ([`RegionOptions`]) choose
//!   the memory type, the pool and the structure; [`create_buffer`](GpuAllocator::create_buffer) and
//!   [`create_image`](GpuAllocator::create_image) create the resource too.
//! - Buffers of the application can be [wrapped](GpuAllocator::wrap), parts of regions are [crops](GpuAllocator::crop);
//!   a root lives at least as long as its crops.
//! - `ShaderCache` (feature `cache`) shares compiled shaders between the contexts of a device, and frees those of an
//!   owner with the owner.
//! - Features `std` and `ash` are on by default: alloc-core's counting by thread, and devices through ash's functions.
//!
//! An [`alloc_core::ContextHandle`] of a context of host memory fits every `memory` parameter.
//!
//! **Errors.** A call whose only refusals are mistakes of the caller returns a [`GpuMisuse`]. A call that memory, a
//! limit or the driver can refuse too returns a [`GpuError`], and a mistake is its variant
//! [`Misuse`](GpuError::Misuse). So does every call that consumes a [`Region`], whose refusal returns it in an
//! [`alloc_core::Rejected`]. [`GpuError`] says whose fault a refusal is and, as text, what helps. After a refusal
//! nothing has changed, but that it may leave capacity for the next try (nodes, indices, records, an empty block),
//! which is in `host_bytes` and freed with the allocator.
//!
//! All host memory comes from the [`HostAllocator`](alloc_core::HostAllocator) passed in, is counted, and may be
//! refused at any time. Freeing allocates nothing. Wrong use is a [`GpuMisuse`], never an abort. Neither the driver nor
//! the host allocator is called under a lock that guards state.
//!
//! A forked child must not use this crate: like the device, allocators and caches stay the parent's.
//!
//! A host allocator must not unwind ([`HostAllocator`](alloc_core::HostAllocator)). If one does while it allocates, no
//! operation is half done and no region or device memory leaks; at most one block of host memory does. If one does
//! while it frees, what the call had left to free leaks.
//!
//! ```
//! use alloc_core::FromGlobalAlloc;
//! use gpu_suballoc::{AllocatorOptions, BufferInfo, BufferUsage, GpuAllocator, GpuMisuse, PropertyFlags, RegionOptions, MemoryPreference};
//! use mock_device::{MockDevice, MockProfile}; // in host memory, for tests; a real one: `AshDevice`
//!
//! let device = MockDevice::new(MockProfile::Nvidia);
//! // SAFETY: infos below are valid for the device, nothing is wrapped, and nothing runs on the device.
//! let gpu = unsafe { GpuAllocator::new(&device, FromGlobalAlloc::SYSTEM, AllocatorOptions::default()) }.map_err(|refused| refused.error)?;
//!
//! // A buffer that the host fills, so it must be visible. Reports show its name.
//! let upload = RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE)).name("upload");
//! let buffer = gpu.create_buffer(&BufferInfo::new(4096, BufferUsage::TRANSFER_SRC), &upload)?;
//! let mapping = gpu.map(&buffer)?;
//! // SAFETY: mapped, 4096 bytes long, and no other thread writes there now.
//! unsafe { mapping.as_ptr().write_bytes(7, mapping.len()) };
//! gpu.flush(&buffer, 0, 4096)?;
//! drop(mapping);
//!
//! // A crop of a crop: offsets add up, and the buffer cannot be freed before it.
//! let part = gpu.crop(&buffer, 1024, 2048, 4)?;
//! let inner = gpu.crop(&part, 12, 64, 4)?;
//! assert_eq!(inner.copy_offset(), 1036);
//! let refused = gpu.free(buffer).unwrap_err();
//! assert_eq!(refused.error, GpuMisuse::HasCrops.into());
//! let buffer = refused.value;
//!
//! let id = part.id();
//! gpu.free(inner)?;
//! gpu.free(part)?;
//! assert_eq!(gpu.free_id(id), Err(GpuMisuse::Stale.into()));
//! gpu.free(buffer)?;
//! assert!(gpu.close().is_ok(), "Err, with the allocator, while anything is left");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
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

pub mod allocator;
#[cfg(feature = "ash")]
pub mod ash;
#[cfg(feature = "cache")]
pub mod cache;
#[cfg(feature = "cache")]
pub mod context;
pub mod device;
pub mod error;
mod flags;
pub mod group;
mod growable_vec;
mod host_memory;
mod id;
mod map_count;
pub mod memory_type;
mod on_drop;
pub mod pool;
mod range;
pub mod region;
mod region_metadata;
pub mod report;
pub mod request;
#[cfg(feature = "cache")]
mod shared_box;
mod sync;
mod threads;
mod view;
#[cfg(feature = "cache")]
mod waiting;

/// The structures alone, for any memory: ranges in any order, stacks and rings ([`VirtualBlock`]).
pub mod virtual_block {
    pub use crate::range::{
        VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock, VirtualBlockError,
        VirtualBlockStatistics, VirtualPiece, VirtualRange,
    };
}

#[cfg(feature = "ash")]
pub use crate::ash::{AshDevice, AshOptions};
pub use crate::memory_type::PropertyFlags;
pub use crate::request::BlockAlgorithm;
pub use allocator::{AllocatorOptions, GpuAllocator};
#[cfg(feature = "cache")]
pub use cache::ShaderCache;
#[cfg(feature = "cache")]
pub use context::DeviceContexts;
pub use device::{BufferInfo, BufferUsage, DeviceMemory, ImageInfo, ImageUsage, ResourceRequirements};
pub use error::{GpuError, GpuMisuse};
pub use group::DeviceGroup;
pub use id::{PoolId, RegionId};
pub use memory_type::MemoryPreference;
pub use pool::{MemoryOptions, PoolOptions};
pub use range::VirtualBlock;
pub use region::Region;
pub use request::{DedicatedPolicy, Lifetime, RegionOptions, ResourceKind};

/// The samples of README.md, tested.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
mod readme {}
