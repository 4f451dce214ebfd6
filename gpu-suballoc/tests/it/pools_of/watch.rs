//! Between allocator and device: what was asked, what lives, and a refusal by size.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_suballoc::device::{
    BufferHandle, DeviceError, DeviceProperties, HeapBudget, ImageHandle, MappedRange,
    MemoryHandle, MemoryRequest,
};
use gpu_suballoc::{BufferInfo, DeviceMemory, ImageInfo, ResourceRequirements};

pub(crate) struct Watch<'m> {
    inner: &'m dyn DeviceMemory,
    seen: Mutex<SeenCalls>,
}

/// What happened so far.
#[derive(Clone, Default)]
pub(crate) struct SeenCalls {
    pub(crate) live: HashMap<MemoryHandle, MemoryRequest>,
    /// Memory objects that were given, in order.
    pub(crate) given: Vec<MemoryRequest>,
    /// Sizes that the driver, or this, refused.
    pub(crate) refused: Vec<u64>,
    pub(crate) peak_bytes: u64,
    pub(crate) peak_objects: usize,
    pub(crate) heap_peaks: [u64; 16],
    pub(crate) maps: usize,
    pub(crate) unmaps: usize,
    pub(crate) flushed: Vec<MappedRange>,
    pub(crate) invalidated: Vec<MappedRange>,
    refuse_from: Option<u64>,
    mapped: Vec<MemoryHandle>,
}

impl SeenCalls {
    pub(crate) fn bytes(&self) -> u64 {
        self.live.values().map(|request| request.size).sum()
    }
}

impl<'m> Watch<'m> {
    pub(crate) fn new(inner: &'m dyn DeviceMemory) -> Self {
        Self {
            inner,
            seen: Mutex::default(),
        }
    }

    /// A copy: what happened up to now.
    pub(crate) fn seen(&self) -> SeenCalls {
        self.lock().clone()
    }

    /// Requests of so many bytes and more are refused from now on.
    pub(crate) fn refuse_from(&self, bytes: Option<u64>) {
        self.lock().refuse_from = bytes;
    }

    fn lock(&self) -> MutexGuard<'_, SeenCalls> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heap_of(&self, request: &MemoryRequest) -> usize {
        self.inner.properties().types[request.memory_type as usize].heap_index as usize
    }
}

// SAFETY: everything is the inner device's.
unsafe impl DeviceMemory for Watch<'_> {
    fn properties(&self) -> DeviceProperties<'_> {
        self.inner.properties()
    }
    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
        assert_eq!(alloc_core::held_state_locks(), 0, "law 5");
        let told = self
            .lock()
            .refuse_from
            .is_some_and(|from| request.size >= from);
        let answer = if told {
            Err(DeviceError::OutOfDeviceMemory)
        } else {
            // SAFETY: forwarded.
            unsafe { self.inner.allocate(request) }
        };
        let heap = self.heap_of(request);
        let mut seen = self.lock();
        match answer {
            Ok(memory) => {
                assert!(
                    seen.live.insert(memory, *request).is_none(),
                    "a live handle was given twice"
                );
                seen.given.push(*request);
                seen.peak_bytes = seen.peak_bytes.max(seen.bytes());
                seen.peak_objects = seen.peak_objects.max(seen.live.len());
                let in_heap = seen
                    .live
                    .values()
                    .filter(|one| self.heap_of(one) == heap)
                    .map(|one| one.size)
                    .sum();
                seen.heap_peaks[heap] = seen.heap_peaks[heap].max(in_heap);
            }
            Err(_) => seen.refused.push(request.size),
        }
        answer
    }
    unsafe fn free(&self, memory: MemoryHandle) {
        let mut seen = self.lock();
        assert!(seen.live.remove(&memory).is_some(), "freed twice");
        seen.mapped.retain(|mapped| *mapped != memory);
        drop(seen);
        // SAFETY: forwarded.
        unsafe { self.inner.free(memory) }
    }
    unsafe fn map(
        &self,
        memory: MemoryHandle,
        offset: u64,
        size: u64,
    ) -> Result<NonNull<u8>, DeviceError> {
        let mut seen = self.lock();
        assert!(!seen.mapped.contains(&memory), "mapped while it is mapped");
        seen.maps += 1;
        seen.mapped.push(memory);
        drop(seen);
        // SAFETY: forwarded.
        unsafe { self.inner.map(memory, offset, size) }
    }
    unsafe fn unmap(&self, memory: MemoryHandle) {
        let mut seen = self.lock();
        assert!(
            seen.mapped.contains(&memory),
            "unmapped while it is not mapped"
        );
        seen.unmaps += 1;
        seen.mapped.retain(|mapped| *mapped != memory);
        drop(seen);
        // SAFETY: forwarded.
        unsafe { self.inner.unmap(memory) }
    }
    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        self.lock().flushed.extend(ranges);
        // SAFETY: forwarded.
        unsafe { self.inner.flush(ranges) }
    }
    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        self.lock().invalidated.extend(ranges);
        // SAFETY: forwarded.
        unsafe { self.inner.invalidate(ranges) }
    }
    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.inner.create_buffer(info) }
    }
    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        // SAFETY: forwarded.
        unsafe { self.inner.destroy_buffer(buffer) }
    }
    unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
        // SAFETY: forwarded.
        unsafe { self.inner.buffer_requirements(buffer) }
    }
    unsafe fn bind_buffer(
        &self,
        buffer: BufferHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.inner.bind_buffer(buffer, memory, offset) }
    }
    unsafe fn create_image(&self, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.inner.create_image(info) }
    }
    unsafe fn destroy_image(&self, image: ImageHandle) {
        // SAFETY: forwarded.
        unsafe { self.inner.destroy_image(image) }
    }
    unsafe fn image_requirements(&self, image: ImageHandle) -> ResourceRequirements {
        // SAFETY: forwarded.
        unsafe { self.inner.image_requirements(image) }
    }
    unsafe fn bind_image(
        &self,
        image: ImageHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.inner.bind_image(image, memory, offset) }
    }
    unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
        // SAFETY: forwarded.
        unsafe { self.inner.buffer_address(buffer) }
    }
    fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
        self.inner.budget(heaps)
    }
}
