//! A device that counts, between the allocator and the driver: an independent measurement of the reserved memory.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpu_suballoc::DeviceMemory;
use gpu_suballoc::device::{
    DeviceError, DeviceProperties, HeapBudget, MappedRange, MemoryHandle, MemoryRequest,
};

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceCounts {
    /// Successful `vkAllocateMemory`.
    pub(super) allocations: u64,
    /// Refused `vkAllocateMemory`.
    pub(super) refusals: u64,
    /// `vkFreeMemory`.
    pub(super) frees: u64,
    pub(super) live_bytes: u64,
    pub(super) peak_bytes: u64,
    /// Time in these calls.
    pub(super) time: Duration,
}

/// A device for memory only: the traces create no resources.
pub(super) struct CountedDevice<'d, D> {
    device: &'d D,
    state: Mutex<(DeviceCounts, HashMap<MemoryHandle, u64>)>,
}

impl<'d, D: DeviceMemory> CountedDevice<'d, D> {
    pub(super) fn new(device: &'d D) -> Self {
        Self {
            device,
            state: Mutex::default(),
        }
    }

    pub(super) fn counts(&self) -> DeviceCounts {
        self.with(|counts, _| *counts)
    }

    /// `change` must not call the device: a lock is held.
    fn with<T>(
        &self,
        change: impl FnOnce(&mut DeviceCounts, &mut HashMap<MemoryHandle, u64>) -> T,
    ) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (counts, sizes) = &mut *state;
        change(counts, sizes)
    }
}

// SAFETY: all calls are forwarded to the inner device.
unsafe impl<D: DeviceMemory> DeviceMemory for CountedDevice<'_, D> {
    fn properties(&self) -> DeviceProperties<'_> {
        self.device.properties()
    }

    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
        let begin = Instant::now();
        // SAFETY: forwarded.
        let done = unsafe { self.device.allocate(request) };
        let time = begin.elapsed();
        self.with(|counts, sizes| {
            counts.time += time;
            match done {
                Ok(memory) => {
                    sizes.insert(memory, request.size);
                    counts.allocations += 1;
                    counts.live_bytes += request.size;
                    counts.peak_bytes = counts.peak_bytes.max(counts.live_bytes);
                }
                Err(_) => counts.refusals += 1,
            }
        });
        done
    }

    unsafe fn free(&self, memory: MemoryHandle) {
        // Before the free: afterwards the driver may reuse the handle.
        self.with(|counts, sizes| {
            counts.frees += 1;
            counts.live_bytes -= sizes.remove(&memory).unwrap_or(0);
        });
        let begin = Instant::now();
        // SAFETY: forwarded.
        unsafe { self.device.free(memory) };
        let time = begin.elapsed();
        self.with(|counts, _| counts.time += time);
    }

    unsafe fn map(
        &self,
        memory: MemoryHandle,
        offset: u64,
        size: u64,
    ) -> Result<NonNull<u8>, DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.device.map(memory, offset, size) }
    }

    unsafe fn unmap(&self, memory: MemoryHandle) {
        // SAFETY: forwarded.
        unsafe { self.device.unmap(memory) }
    }

    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.device.flush(ranges) }
    }

    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.device.invalidate(ranges) }
    }

    fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
        self.device.budget(heaps)
    }
}
