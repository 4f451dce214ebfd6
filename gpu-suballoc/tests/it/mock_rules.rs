//! The mock device keeps its word: each breach of a rule is seen once, as itself, and right use is silent.

mod content;
mod rules;
mod threads;

use crate::*;

const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());
const RGBA8: u32 = 37;

type Mock<'w> = MockDevice<&'w RecordingAllocator>;

// SAFETY of everything below: a mock answers wrong use with a breach and touches nothing; pointers that it maps are used by
// tests only while mapped.
fn allocate(mock: &dyn DeviceMemory, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
    // SAFETY: see above.
    unsafe { mock.allocate(request) }
}
fn memory(mock: &dyn DeviceMemory, size: u64, kind: u32) -> MemoryHandle {
    allocate(mock, &MemoryRequest::new(size, kind)).unwrap()
}
fn free(mock: &dyn DeviceMemory, memory: MemoryHandle) {
    // SAFETY: see above.
    unsafe { mock.free(memory) }
}
fn map(
    mock: &dyn DeviceMemory,
    memory: MemoryHandle,
    offset: u64,
    size: u64,
) -> Result<NonNull<u8>, DeviceError> {
    // SAFETY: see above.
    unsafe { mock.map(memory, offset, size) }
}
fn unmap(mock: &dyn DeviceMemory, memory: MemoryHandle) {
    // SAFETY: see above.
    unsafe { mock.unmap(memory) }
}
fn flush(
    mock: &dyn DeviceMemory,
    memory: MemoryHandle,
    offset: u64,
    size: u64,
) -> Result<(), DeviceError> {
    // SAFETY: see above.
    unsafe {
        mock.flush(&[MappedRange {
            memory,
            offset,
            size,
        }])
    }
}
fn invalidate(
    mock: &dyn DeviceMemory,
    memory: MemoryHandle,
    offset: u64,
    size: u64,
) -> Result<(), DeviceError> {
    // SAFETY: see above.
    unsafe {
        mock.invalidate(&[MappedRange {
            memory,
            offset,
            size,
        }])
    }
}
fn create(mock: &dyn DeviceMemory, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
    // SAFETY: see above.
    unsafe { mock.create_buffer(info) }
}
fn buffer(mock: &dyn DeviceMemory, size: u64) -> BufferHandle {
    create(mock, &BufferInfo::new(size, COPIED)).unwrap()
}
fn destroy(mock: &dyn DeviceMemory, buffer: BufferHandle) {
    // SAFETY: see above.
    unsafe { mock.destroy_buffer(buffer) }
}
fn needs(mock: &dyn DeviceMemory, buffer: BufferHandle) -> ResourceRequirements {
    // SAFETY: see above.
    unsafe { mock.buffer_requirements(buffer) }
}
fn bind(
    mock: &dyn DeviceMemory,
    buffer: BufferHandle,
    memory: MemoryHandle,
    offset: u64,
) -> Result<(), DeviceError> {
    // SAFETY: see above.
    unsafe { mock.bind_buffer(buffer, memory, offset) }
}
fn image(mock: &dyn DeviceMemory, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
    // SAFETY: see above.
    unsafe { mock.create_image(info) }
}
fn bind_image(
    mock: &dyn DeviceMemory,
    image: ImageHandle,
    memory: MemoryHandle,
    offset: u64,
) -> Result<(), DeviceError> {
    // SAFETY: see above.
    unsafe { mock.bind_image(image, memory, offset) }
}
fn sampled(width: u32, height: u32) -> ImageInfo {
    ImageInfo::new_2d(
        RGBA8,
        width,
        height,
        ImageUsage::SAMPLED | ImageUsage::TRANSFER_DST,
    )
}

/// The breaches since the last look.
fn seen(mock: &Mock<'_>) -> Vec<Breach> {
    mock.drain_violations()
        .iter()
        .map(|violation| violation.breach)
        .collect()
}
