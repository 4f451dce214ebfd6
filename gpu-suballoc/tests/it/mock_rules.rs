//! The mock device keeps its word: each breach of a rule is seen once, as itself, and right use is silent.

mod content;
mod rules;
mod threads;

use crate::*;
use Breach::*;

const RGBA8: u32 = 37;

type Mock = MockDevice;

/// Calls of a mock: one answers wrong use with a breach and touches nothing; pointers that it maps are used by tests
/// only while mapped.
macro_rules! calls {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty = $call:ident($($given:expr),*);)*) => {$(
        fn $name(mock: &dyn DeviceMemory, $($arg: $type),*) -> $answer {
            // SAFETY: see above.
            unsafe { mock.$call($($given),*) }
        }
    )*};
}

type Answer<T = ()> = Result<T, DeviceError>;

calls! {
    allocate(request: &MemoryRequest) -> Answer<MemoryHandle> = allocate(request);
    free(memory: MemoryHandle) -> () = free(memory);
    map(memory: MemoryHandle, offset: u64, size: u64) -> Answer<NonNull<u8>> = map(memory, offset, size);
    unmap(memory: MemoryHandle) -> () = unmap(memory);
    flush(memory: MemoryHandle, offset: u64, size: u64) -> Answer = flush(&[MappedRange { memory, offset, size }]);
    invalidate(memory: MemoryHandle, offset: u64, size: u64) -> Answer = invalidate(&[MappedRange { memory, offset, size }]);
    create(info: &BufferInfo) -> Answer<BufferHandle> = create_buffer(info);
    destroy(buffer: BufferHandle) -> () = destroy_buffer(buffer);
    needs(buffer: BufferHandle) -> ResourceRequirements = buffer_requirements(buffer);
    bind(buffer: BufferHandle, memory: MemoryHandle, offset: u64) -> Answer = bind_buffer(buffer, memory, offset);
    image(info: &ImageInfo) -> Answer<ImageHandle> = create_image(info);
    bind_image(image: ImageHandle, memory: MemoryHandle, offset: u64) -> Answer = bind_image(image, memory, offset);
}

fn memory(mock: &dyn DeviceMemory, size: u64, kind: u32) -> MemoryHandle {
    allocate(mock, &MemoryRequest::new(size, kind)).unwrap()
}
fn buffer(mock: &dyn DeviceMemory, size: u64) -> BufferHandle {
    create(mock, &BufferInfo::new(size, COPIED)).unwrap()
}
fn sampled(width: u32, height: u32) -> ImageInfo {
    ImageInfo::new_2d(RGBA8, width, height, ImageUsage::SAMPLED | ImageUsage::TRANSFER_DST)
}

/// The breaches since the last look.
fn seen(mock: &Mock) -> Vec<Breach> {
    mock.drain_violations().iter().map(|violation| violation.breach).collect()
}
