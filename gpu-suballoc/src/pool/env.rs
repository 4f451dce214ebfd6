//! Whom pools turn to: for the device's memory and for their own.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};

use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::range::Memory;

/// The driver for the device's memory, the allocator for our own records. For one allocator always the same two.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(crate) device: &'a dyn DeviceMemory,
    pub(crate) memory: &'a dyn HostAllocator,
}

impl Env<'_> {
    /// Host memory for records; no lock is held.
    pub(super) fn take(&self, layout: Layout) -> Result<NonNull<u8>, GpuError> {
        let refused = |_| GpuError::Host(self.memory.refusal(layout, Scope::Object));
        self.memory.allocate(layout, Scope::Object).map_err(refused)
    }

    /// Gives host memory back that [`take`](Env::take) gave.
    pub(super) fn give(&self, memory: Memory) {
        // SAFETY: `Memory` comes from what was handed in by way of `take`, with that layout, and is handed out once.
        unsafe { self.memory.deallocate(memory.block, memory.layout, Scope::Object) };
    }

    pub(super) fn give_some(&self, memory: Option<Memory>) {
        if let Some(memory) = memory {
            self.give(memory);
        }
    }
}
