//! The device and the host allocator that pools call.

use core::alloc::Layout;

use alloc_core::HostAllocator;

use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::host_block::HostBlock;

/// The driver for device memory, and the allocator for host memory of records. One `GpuAllocator` always passes the same two.
#[derive(Clone, Copy)]
pub(crate) struct DeviceAndHost<'a> {
    pub(crate) device: &'a dyn DeviceMemory,
    pub(crate) memory: &'a dyn HostAllocator,
}

impl DeviceAndHost<'_> {
    /// Allocates host memory for records; the caller holds no lock.
    pub(super) fn allocate(&self, layout: Layout) -> Result<HostBlock, GpuError> {
        HostBlock::allocate(self.memory, layout).map_err(GpuError::Host)
    }

    /// Allocates a table's missing memory, passes it to `grow`, which may lock, and frees what `grow` returns.
    pub(crate) fn grow(
        &self,
        layout: Layout,
        grow: impl FnOnce(HostBlock) -> Option<HostBlock>,
    ) -> Result<(), GpuError> {
        let unneeded = grow(self.allocate(layout)?);
        self.free_optional(unneeded);
        Ok(())
    }

    /// Frees host memory of [`allocate`](DeviceAndHost::allocate).
    pub(crate) fn free(&self, memory: HostBlock) {
        // SAFETY: a `HostBlock` of pools came from `allocate` of the one allocator that they have.
        unsafe { memory.free(self.memory) };
    }

    pub(super) fn free_optional(&self, memory: Option<HostBlock>) {
        if let Some(memory) = memory {
            self.free(memory);
        }
    }
}
