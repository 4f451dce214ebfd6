//! Devices: the mock through the trait, and ash over functions of this process.

use gpu_suballoc::device::{DeviceError, HeapBudget, MappedRange, MemoryRequest};
use gpu_suballoc::{BufferInfo, BufferUsage, DeviceMemory, ImageInfo, ImageUsage};
use testkit::{MemoryUse, Stage};

use super::facade::mock;
use super::{GpuOperation, operation};

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    let mut all: Vec<GpuOperation<S>> = vec![operation(
        &[
            "DeviceMemory::allocate",
            "DeviceMemory::bind_buffer",
            "DeviceMemory::bind_image",
            "DeviceMemory::budget",
            "DeviceMemory::buffer_address",
            "DeviceMemory::buffer_requirements",
            "DeviceMemory::create_buffer",
            "DeviceMemory::create_image",
            "DeviceMemory::destroy_buffer",
            "DeviceMemory::destroy_image",
            "DeviceMemory::flush",
            "DeviceMemory::free",
            "DeviceMemory::image_requirements",
            "DeviceMemory::invalidate",
            "DeviceMemory::map",
            "DeviceMemory::properties",
            "DeviceMemory::unmap",
        ],
        "of the mock",
        MemoryUse::Nothing("a device has its own memory"),
        |stage| {
            let mock = mock();
            stage.attempt_plainly(|| everything(&mock).expect("nothing is refused"));
            assert!(
                mock.violations().is_empty() && mock.live_counts().memory == 0,
                "{}",
                mock.violations()
            );
        },
    )];
    all.extend(super::over_ash::table());
    all
}

/// Every call of a device, once.
pub(super) fn everything(device: &impl DeviceMemory) -> Result<(), DeviceError> {
    assert!(!device.properties().types.is_empty());
    device.budget(&mut [HeapBudget::default(); 2]);
    // SAFETY: a plain buffer.
    let buffer = unsafe { device.create_buffer(&BufferInfo::new(100, BufferUsage::TRANSFER_SRC)) }?;
    // SAFETY: a plain image.
    let image = unsafe { device.create_image(&ImageInfo::new_2d(37, 7, 9, ImageUsage::SAMPLED)) }?;
    // SAFETY: just made.
    let needs = unsafe { device.buffer_requirements(buffer) };
    // SAFETY: just made.
    let image_needs = unsafe { device.image_requirements(image) };
    // SAFETY: a type that is there.
    let memory = unsafe { device.allocate(&MemoryRequest::new(1 << 20, 1)) }?;
    // SAFETY: both new; aligned to what it asks for.
    unsafe { device.bind_buffer(buffer, memory, needs.alignment) }?;
    // SAFETY: as above, far from the buffer.
    unsafe {
        device.bind_image(
            image,
            memory,
            (1_u64 << 16).next_multiple_of(image_needs.alignment),
        )
    }?;
    // SAFETY: not mapped, and visible.
    unsafe { device.map(memory, 4096, 4096) }?;
    let range = MappedRange {
        memory,
        offset: 4096,
        size: 4096,
    };
    // SAFETY: what is mapped.
    unsafe { device.flush(&[range]) }?;
    // SAFETY: what is mapped.
    unsafe { device.invalidate(&[range]) }?;
    // SAFETY: mapped.
    unsafe { device.unmap(memory) };
    // A buffer without the usage has no address, and may not be asked for one where addresses are enabled.
    if !device.properties().features.buffer_device_address {
        // SAFETY: it has none.
        assert_eq!(unsafe { device.buffer_address(buffer) }, None);
    }
    // SAFETY: not used any more.
    unsafe { device.destroy_buffer(buffer) };
    // SAFETY: not used any more.
    unsafe { device.destroy_image(image) };
    // SAFETY: not used any more.
    unsafe { device.free(memory) };
    Ok(())
}
