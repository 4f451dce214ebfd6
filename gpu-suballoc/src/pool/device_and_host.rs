//! Whom pools turn to: for the device's memory and for their own.

use core::alloc::Layout;

use alloc_core::HostAllocator;

use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::host_block::HostBlock;

/// The driver for the device's memory, the allocator for our own records. For one allocator always the same two.
#[derive(Clone, Copy)]
pub(crate) struct DeviceAndHost<'a> {
    pub(crate) device: &'a dyn DeviceMemory,
    pub(crate) memory: &'a dyn HostAllocator,
}

impl DeviceAndHost<'_> {
    /// Host memory for records; no lock is held.
    pub(super) fn allocate(&self, layout: Layout) -> Result<HostBlock, GpuError> {
        HostBlock::allocate(self.memory, layout).map_err(GpuError::Host)
    }

    /// Allocates what a table lacks, hands it to `grow`, which may lock, and frees what comes back.
    pub(crate) fn grow(
        &self,
        layout: Layout,
        grow: impl FnOnce(HostBlock) -> Option<HostBlock>,
    ) -> Result<(), GpuError> {
        let unneeded = grow(self.allocate(layout)?);
        self.free_optional(unneeded);
        Ok(())
    }

    /// Gives host memory back that [`allocate`](DeviceAndHost::allocate) gave.
    pub(crate) fn free(&self, memory: HostBlock) {
        // SAFETY: a `HostBlock` of pools and shards came from `allocate` of the one allocator that they have.
        unsafe { memory.free(self.memory) };
    }

    pub(super) fn free_optional(&self, memory: Option<HostBlock>) {
        if let Some(memory) = memory {
            self.free(memory);
        }
    }
}
