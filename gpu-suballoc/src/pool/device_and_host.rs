//! The device and the host allocator that pools call.

use alloc_core::HostAllocator;

use crate::device::DeviceMemory;

/// The driver for device memory, and the allocator for host memory of records. One `GpuAllocator` always passes the same two.
#[derive(Clone, Copy)]
pub(crate) struct DeviceAndHost<'a> {
    pub(crate) device: &'a dyn DeviceMemory,
    pub(crate) memory: &'a dyn HostAllocator,
}
