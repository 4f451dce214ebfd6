//! One memory object of the driver's: what is known of it while it lives.

#![forbid(unsafe_code)]

use crate::device::MemoryHandle;
use crate::map_count::MapCount;

/// A `VkDeviceMemory`, in a block or alone.
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
