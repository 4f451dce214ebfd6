//! A memory object of the driver.

#![forbid(unsafe_code)]

use crate::device::MemoryHandle;
use crate::map_count::MapCount;

/// A `VkDeviceMemory`: a shared block or a dedicated one.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) memory: MemoryHandle,
    /// Bytes.
    pub(super) size: u64,
    pub(super) map: MapCount,
}

impl Object {
    pub(super) const fn new(memory: MemoryHandle, size: u64) -> Self {
        Self {
            memory,
            size,
            map: MapCount::NONE,
        }
    }
}
