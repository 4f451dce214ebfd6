//! Devices: the mock through the trait, and ash over functions of this process.

use super::*;

use crate::fake_vulkan::{Fake, set, vulkan};

pub const CALLS: &str = "AshDevice::new AshDevice::of_device AshOptions::with_callbacks DeviceMemory::allocate \
    DeviceMemory::bind_buffer DeviceMemory::bind_image DeviceMemory::budget DeviceMemory::buffer_address \
    DeviceMemory::buffer_requirements DeviceMemory::clock DeviceMemory::commitment \
    DeviceMemory::create_buffer DeviceMemory::create_image DeviceMemory::destroy_buffer \
    DeviceMemory::destroy_image DeviceMemory::flush DeviceMemory::free DeviceMemory::image_requirements \
    DeviceMemory::invalidate DeviceMemory::map DeviceMemory::properties DeviceMemory::unmap \
    physical_device_capabilities physical_device_identity";

pub fn devices<S: Stage>(stage: &S, _: usize) {
    let mock = MockDevice::new(MockProfile::IntelUma);
    set(Fake::NEW);
    let ((entry, instance, device), physical) = (vulkan(), vk::PhysicalDevice::null());
    stage.attempt_plainly(|| {
        everything(&mock).unwrap();
        let options = AshOptions::new(vk::API_VERSION_1_0).with_callbacks(&vk::AllocationCallbacks::default());
        // SAFETY: the fake looks at no handle.
        let ours = unsafe { AshDevice::new(&entry, &instance, physical, &device, options) };
        everything(&ours).unwrap();
        let of = MemoryHandle::from_raw(1).unwrap();
        // SAFETY: the fake looks at no handle.
        assert_eq!(unsafe { ours.commitment(of) }, Some(4096));
        // SAFETY: the fake looks at no handle.
        let ours = unsafe { AshDevice::of_device(&instance, physical, &device, options) };
        everything(&ours).unwrap();
        // SAFETY: the fake looks at no handle; of 1.0 nothing is asked.
        let says = unsafe { physical_device_capabilities(&instance, physical, vk::API_VERSION_1_0, &[]) };
        assert_eq!(says, DeviceCapabilities::default());
        // SAFETY: the fake looks at no handle; of 1.0 no more is asked.
        let mine = unsafe { physical_device_identity(&instance, physical, vk::API_VERSION_1_0, 4) };
        assert_eq!((mine.format, mine.device_uuid), (4, [0; 16]));
    });
    mock.assert_ended();
}

/// Every call of a device, once. What is lazily allocated it does not ask for: none is.
pub fn everything(device: &impl DeviceMemory) -> Result<(), DeviceError> {
    assert!(!device.properties().types.is_empty());
    device.budget(&mut [HeapBudget::default(); 2]);
    device.clock();
    let device_address = device.properties().features.buffer_device_address;
    let addressed = if device_address { BufferUsage::SHADER_DEVICE_ADDRESS } else { BufferUsage::default() };
    // SAFETY: a plain buffer.
    let buffer = unsafe { device.create_buffer(&BufferInfo::new(100, BufferUsage::TRANSFER_SRC | addressed)) }?;
    // SAFETY: a plain image.
    let image = unsafe { device.create_image(&ImageInfo::new_2d(37, 7, 9, ImageUsage::SAMPLED)) }?;
    // SAFETY: just made.
    let needs = unsafe { device.buffer_requirements(buffer) };
    // SAFETY: just made.
    let image_needs = unsafe { device.image_requirements(image) };
    // SAFETY: a type that is there.
    let memory = unsafe { device.allocate(&MemoryRequest { device_address, ..MemoryRequest::new(1 << 20, 1) }) }?;
    // SAFETY: both new; aligned to what it asks for.
    unsafe { device.bind_buffer(buffer, memory, needs.alignment) }?;
    let far = (1_u64 << 16).next_multiple_of(image_needs.alignment);
    // SAFETY: both new; aligned to what it asks for, and far from the buffer.
    unsafe { device.bind_image(image, memory, far) }?;
    // SAFETY: not mapped, and visible.
    unsafe { device.map(memory, 4096, 4096) }?;
    let range = MappedRange { memory, offset: 4096, size: 4096 };
    // SAFETY: what is mapped.
    unsafe { device.flush(&[range]) }?;
    // SAFETY: what is mapped.
    unsafe { device.invalidate(&[range]) }?;
    // SAFETY: mapped.
    unsafe { device.unmap(memory) };
    // SAFETY: it has the usage where addresses are enabled, and is bound.
    assert_eq!(unsafe { device.buffer_address(buffer) }.is_some(), device_address);
    // SAFETY: not used any more.
    unsafe { device.destroy_buffer(buffer) };
    // SAFETY: not used any more.
    unsafe { device.destroy_image(image) };
    // SAFETY: not used any more.
    unsafe { device.free(memory) };
    Ok(())
}
