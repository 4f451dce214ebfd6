//! The live regions that prevent closing an allocator.

use super::GpuAllocator;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use alloc_core::HostAllocator;
use core::fmt;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Counts what prevents closing.
    pub(crate) fn outstanding(&self) -> OutstandingRegions {
        let counts = self.records.counts();
        OutstandingRegions {
            regions: self.pools.live_regions(),
            wrapped: counts.wrapped,
            crops: counts.crops,
        }
    }
}

/// What prevents closing an allocator; [`MemoryMap::leaks`](crate::report::MemoryMap::leaks) lists it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutstandingRegions {
    /// Regions of the allocator's own memory.
    pub regions: u64,
    /// Wrapped buffers.
    pub wrapped: u64,
    /// Crops.
    pub crops: u64,
}

/// A region of a batch that was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchError {
    /// Its index in the batch, where it still is.
    pub index: usize,
    /// Why.
    pub error: GpuError,
}

impl fmt::Display for OutstandingRegions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "in use are {} regions, {} wrapped buffers and {} crops: free them, or call free_all",
            self.regions, self.wrapped, self.crops
        )
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "region {} of the batch: {}", self.index, self.error)
    }
}

impl core::error::Error for OutstandingRegions {}
impl core::error::Error for BatchError {}
