//! gpu-allocator 0.28's Vulkan interface over Steward's sub-allocator.
//!
//! ```text
//!   program -> gpu_allocator::vulkan::Allocator -> gpu_suballoc::GpuAllocator -> VkDevice
//!                                                        | host memory
//!                                                  alloc_core::default_context(), or a root of its own
//! ```

#[cfg(feature = "vulkan")]
pub mod vulkan;

mod report;
mod sizes;

pub use report::{AllocationReport, AllocatorReport, MemoryBlockReport};
pub use sizes::AllocationSizes;

use thiserror::Error;

/// Where the memory of an allocation should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryLocation {
    /// Anywhere.
    Unknown,
    /// Near the device; the host need not reach it.
    GpuOnly,
    /// The host writes it, the device reads it.
    CpuToGpu,
    /// The device writes it, the host reads it.
    GpuToCpu,
}

/// What is written to the program's `log`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct AllocatorDebugSettings {
    /// Memory types and heaps, when an allocator is created.
    pub log_memory_information: bool,
    /// Live allocations, when an allocator is dropped.
    pub log_leaks_on_shutdown: bool,
    /// Without effect: Steward's own tools show call stacks.
    pub store_stack_traces: bool,
    /// Each allocation.
    pub log_allocations: bool,
    /// Each free.
    pub log_frees: bool,
    /// A call stack with each of these.
    pub log_stack_traces: bool,
}

impl Default for AllocatorDebugSettings {
    fn default() -> Self {
        Self {
            log_memory_information: false,
            log_leaks_on_shutdown: true,
            store_stack_traces: false,
            log_allocations: false,
            log_frees: false,
            log_stack_traces: false,
        }
    }
}

/// The original's errors, with its texts.
#[derive(Error, Debug)]
pub enum AllocationError {
    /// A heap, a limit, or the host's memory for book-keeping.
    #[error("Out of memory")]
    OutOfMemory,
    /// The driver refused to map.
    #[error("Failed to map memory: {0}")]
    FailedToMap(String),
    /// No memory type has what is asked for.
    #[error("No compatible memory type available")]
    NoCompatibleMemoryTypeFound,
    /// A size of 0, or an alignment that is no power of two.
    #[error("Invalid AllocationCreateDesc")]
    InvalidAllocationCreateDesc,
    /// A NULL handle.
    #[error("Invalid AllocatorCreateDesc {0}")]
    InvalidAllocatorCreateDesc(String),
    /// A broken rule, an allocation of another allocator.
    #[error("Internal error: {0}")]
    Internal(String),
    /// Of Direct3D.
    #[error("Initial `BARRIER_LAYOUT` needs at least `Device10`")]
    BarrierLayoutNeedsDevice10,
    /// Of Direct3D.
    #[error("Castable formats require enhanced barriers")]
    CastableFormatsRequiresEnhancedBarriers,
    /// Of Direct3D.
    #[error("Castable formats require at least `Device12`")]
    CastableFormatsRequiresAtLeastDevice12,
}

/// The original's.
pub type Result<V, E = AllocationError> = core::result::Result<V, E>;
