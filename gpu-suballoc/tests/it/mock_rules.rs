//! The mock device keeps its word: each breach of a rule is seen once, as itself, and right use is silent.

mod content;
mod failures;
mod rules;
mod threads;

use std::ptr::NonNull;

use gpu_suballoc::device::{
    BufferHandle, DeviceError, ImageHandle, MappedRange, MemoryHandle, MemoryRequest,
};
use gpu_suballoc::{
    BufferInfo, BufferUsage, DeviceMemory, ImageInfo, ImageUsage, ResourceRequirements,
};
use mock_device::{Breach, MockDevice, MockProfile};
use testkit::RecordingAllocator;

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
    allocate(mock, &MemoryRequest::new(size, kind)).expect("there is room")
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
    create(mock, &BufferInfo::new(size, COPIED)).expect("there is room")
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
fn destroy_image(mock: &dyn DeviceMemory, image: ImageHandle) {
    // SAFETY: see above.
    unsafe { mock.destroy_image(image) }
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

#[test]
fn right_use_is_silent_on_every_profile_and_leaves_nothing() {
    for profile in MockProfile::ALL {
        let witness = RecordingAllocator::system();
        let mock = MockDevice::new(profile, &witness);
        let (types, atom) = {
            let device = mock.properties();
            (device.types.to_vec(), device.limits.non_coherent_atom_size)
        };
        let visible = types.iter().position(|kind| {
            kind.properties
                .contains(gpu_suballoc::PropertyFlags::HOST_VISIBLE)
        });
        let visible = u32::try_from(visible.expect("every device has memory that the host sees"))
            .expect("few");
        let (one, two) = (buffer(&mock, 1000), buffer(&mock, 1000));
        let asked = needs(&mock, one);
        assert!(
            asked.size >= 1000 && asked.memory_type_bits >> visible & 1 == 1,
            "{profile:?}: {asked:?}"
        );
        let block = memory(&mock, 8192, visible);
        bind(&mock, one, block, 0).expect("in order");
        bind(&mock, two, block, 4096).expect("in order");
        let texture = image(&mock, &sampled(16, 16)).expect("in order");
        // SAFETY: live.
        let asked = unsafe { mock.image_requirements(texture) };
        let own = memory(&mock, asked.size, asked.memory_type_bits.trailing_zeros());
        bind_image(&mock, texture, own, 0).expect("in order");
        let first = map(&mock, block, 0, 8192).expect("in order");
        // SAFETY: mapped, and nobody else looks.
        unsafe { first.as_ptr().write_bytes(7, 1000) };
        flush(&mock, block, 0, 1024u64.next_multiple_of(atom)).expect("in order");
        assert!(mock.copy_buffer(one, 0, two, 0, 1000));
        invalidate(&mock, block, 4096, 4096).expect("in order");
        assert_eq!(
            // SAFETY: mapped, 8192 bytes.
            unsafe { first.as_ptr().wrapping_add(4096 + 999).read() },
            7,
            "{profile:?}"
        );
        unmap(&mock, block);
        destroy(&mock, one);
        destroy(&mock, two);
        destroy_image(&mock, texture);
        free(&mock, block);
        free(&mock, own);
        assert!(
            mock.violations().is_empty(),
            "{profile:?}: {}",
            mock.violations()
        );
        assert_eq!(
            mock.live_counts(),
            mock_device::MockLiveCounts::default(),
            "{profile:?}"
        );
        drop(mock);
        witness.assert_empty("after the mock went");
    }
}
