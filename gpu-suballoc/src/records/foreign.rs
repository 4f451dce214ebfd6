//! The mapping of memory that belongs to the application, shared by all wrapped buffers that lie in it.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::device::{DeviceError, DeviceMemory, MemoryHandle};
use crate::sync::Gate;

/// One memory object of the application's. Lives while a wrapped buffer refers to it; `users` and `next` change under the records' lock
/// alone, and are atomics because others map through a shared reference meanwhile.
pub(crate) struct Foreign {
    pub(super) memory: MemoryHandle,
    size: u64,
    pub(super) users: AtomicU32,
    pub(super) next: AtomicPtr<Self>,
    gate: Gate,
    /// Mappings, and where: under the gate.
    maps: AtomicU32,
    start: AtomicPtr<u8>,
}

impl Foreign {
    pub(super) const fn new(memory: MemoryHandle, size: u64) -> Self {
        Self {
            memory,
            size,
            users: AtomicU32::new(1),
            next: AtomicPtr::new(ptr::null_mut()),
            gate: Gate::new(),
            maps: AtomicU32::new(0),
            start: AtomicPtr::new(ptr::null_mut()),
        }
    }

    pub(super) fn next(&self) -> Option<NonNull<Self>> {
        NonNull::new(self.next.load(Ordering::Relaxed))
    }

    pub(super) fn set_next(&self, next: Option<NonNull<Self>>) {
        self.next.store(next.map_or(ptr::null_mut(), NonNull::as_ptr), Ordering::Relaxed);
    }

    /// Where the memory object starts, mapped by the first who asks.
    pub(crate) fn map(&self, device: &dyn DeviceMemory) -> Result<NonNull<u8>, DeviceError> {
        let _turn = self.gate.enter();
        let maps = self.maps.load(Ordering::Relaxed);
        let start = match NonNull::new(self.start.load(Ordering::Relaxed)) {
            Some(start) if maps > 0 => start,
            // SAFETY: the memory is live, host-visible, so large, and not mapped by the application: `Backing` asks for all that.
            // It is not mapped by us, and this turn keeps others of ours off.
            _ => unsafe { device.map(self.memory, 0, self.size) }?,
        };
        self.start.store(start.as_ptr(), Ordering::Relaxed);
        self.maps.store(maps.saturating_add(1), Ordering::Relaxed);
        Ok(start)
    }

    /// Undoes one [`map`](Foreign::map); the last one unmaps.
    pub(crate) fn unmap(&self, device: &dyn DeviceMemory) {
        let _turn = self.gate.enter();
        let maps = self.maps.load(Ordering::Relaxed);
        self.maps.store(maps.saturating_sub(1), Ordering::Relaxed);
        if maps == 1 {
            self.start.store(ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: mapped by `map`, and this was the last who used the pointer; this turn keeps others of ours off.
            unsafe { device.unmap(self.memory) };
        }
    }
}
