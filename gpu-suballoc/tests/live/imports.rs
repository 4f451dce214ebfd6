//! Memory that leaves as a file descriptor and comes back, on a driver that can do so.

use crate::*;

use std::os::fd::FromRawFd as _;

use ash::vk::Handle as _;

use super::Live;

const SIZE: usize = 1 << 16;

/// U106, U107: an import goes to the type that its handle allows, with the bytes of the exported buffer; a request that
/// is refused before the driver allocates leaves the descriptor to the program.
///
/// # Errors
/// What this driver lacks.
pub fn imported<D: DeviceMemory, A: HostAllocator>(live: &Live, gpu: &GpuAllocator<D, A>) -> Result<(), &'static str> {
    let handle = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
    let both = vk::ExternalMemoryFeatureFlags::EXPORTABLE | vk::ExternalMemoryFeatureFlags::IMPORTABLE;
    if !live.has_memory_fd {
        return Err("VK_KHR_external_memory_fd");
    }
    let asked = vk::PhysicalDeviceExternalBufferInfo::default()
        .usage(vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST)
        .handle_type(handle);
    let mut told = vk::ExternalBufferProperties::default();
    // SAFETY: both are valid, and the version is 1.1 at least.
    unsafe {
        live.instance.get_physical_device_external_buffer_properties(live.physical, &asked, &mut told);
    }
    let features = told.external_memory_properties.external_memory_features;
    if !features.contains(both) {
        return Err("buffers that leave and come back as file descriptors");
    }

    let external = ExternalHandleTypes::OPAQUE_FD;
    let mut info = BufferInfo::new(SIZE as u64, BufferUsage::TRANSFER_SRC | BufferUsage::TRANSFER_DST);
    info.external = external;
    let given = gpu.create_buffer(&info, &RegionOptions::new().export(external));
    let given = given.expect("the driver exports such buffers");
    let memory = vk::DeviceMemory::from_raw(given.memory().expect("bound").as_raw());
    let get = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(handle);
    let commands = ash::khr::external_memory_fd::Device::new(&live.instance, &live.device);
    // SAFETY: live memory that was allocated for export.
    let fd = unsafe { commands.get_memory_fd(&get) }.expect("it was allocated for export");

    let mut import = vk::ImportMemoryFdInfoKHR::default().handle_type(handle).fd(fd);
    // SAFETY: it may follow `VkMemoryAllocateInfo`, is there until the end, and is used for one allocation.
    let next = unsafe { NextChain::new(NonNull::from(&mut import).cast()) };
    let options = RegionOptions::new().next(next);
    let refused = gpu.create_buffer(&info, &options.memory_type_bits(0));
    let refused = refused.expect_err("no type is allowed");
    assert!(matches!(refused, GpuError::MemoryType(_)), "{refused}");
    assert!(!refused.driver_owns_import());
    // SAFETY: open, as this asserts.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    drop(borrowed.try_clone_to_owned().expect("still the program's"));

    let type_bit = 1 << given.memory_type().expect("bound");
    let got = match gpu.create_buffer(&info, &options.memory_type_bits(type_bit)) {
        Ok(got) => got,
        Err(error) => {
            if !error.driver_owns_import() {
                // SAFETY: the program's still, and used no more.
                drop(unsafe { OwnedFd::from_raw_fd(fd) });
            }
            panic!("{error}")
        }
    };
    assert_eq!(got.memory_type(), given.memory_type());
    assert!(got.is_dedicated() && got.memory() != given.memory());

    let seen = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT);
    let staging = || {
        let info = BufferInfo::new(SIZE as u64, BufferUsage::TRANSFER_SRC | BufferUsage::TRANSFER_DST);
        let options = RegionOptions::new().preference(seen).mapped();
        gpu.create_buffer(&info, &options).expect("host memory")
    };
    let (from, to) = (staging(), staging());
    let first = |region: &Region| region.mapped().expect("mapped for life");
    let pattern: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8 ^ 0x5A).collect();
    // SAFETY: mapped, `SIZE` bytes, of nobody else.
    unsafe { first(&from).copy_from_nonoverlapping(NonNull::from(&pattern[0]), SIZE) };
    let buffer = |region: &Region| region.buffer().expect("a buffer");
    let all = SIZE as u64;
    live.copy(&[(buffer(&from), 0, buffer(&given), 0, all), (buffer(&got), 0, buffer(&to), 0, all)]);
    // SAFETY: mapped, written by the queue, which is idle.
    let bytes = unsafe { std::slice::from_raw_parts(first(&to).as_ptr(), SIZE) };
    assert!(bytes == pattern, "both names are of one memory");
    for region in [from, to, got, given] {
        gpu.free(region).map_err(|no| no.error).expect("unused");
    }
    Ok(())
}
