//! Rows about whose callbacks a driver is passed.

use crate::*;

use crate::fake_vulkan::{Fake, fake, set, vulkan};

fn device_with(options: AshOptions) -> AshDevice {
    let (entry, instance, device) = vulkan();
    // SAFETY: the fake looks at no handle.
    unsafe { AshDevice::new(&entry, &instance, vk::PhysicalDevice::null(), &device, options) }
}

/// A device made with callbacks whose user data is `user`; the struct that they stood in is overwritten afterwards.
fn device(user: *mut c_void) -> (AshDevice, usize) {
    let mut theirs = Box::new(vk::AllocationCallbacks { p_user_data: user, ..Default::default() });
    // Lent, for this call alone.
    let made = device_with(AshOptions::new(vk::API_VERSION_1_1).with_callbacks(&theirs));
    theirs.p_user_data = ptr::null_mut();
    (made, ptr::from_ref(&*theirs).addr())
}

/// What the fake was last passed with a command, while the device that passed it lives.
fn passed(command: &str) -> (usize, *mut c_void) {
    let address = fake().allocator(command);
    let callbacks = ptr::with_exposed_provenance::<vk::AllocationCallbacks<'_>>(address);
    // SAFETY: the device's own copy, which is not written to.
    (address, unsafe { (*callbacks).p_user_data })
}

const ASKED: [&str; 6] =
    ["vkAllocateMemory", "vkFreeMemory", "vkCreateBuffer", "vkDestroyBuffer", "vkCreateImage", "vkDestroyImage"];

fn take_and_give(device: &AshDevice) {
    let gpu = over(device, FromGlobalAlloc::SYSTEM);
    let alone = RegionOptions::new().dedicated(Required);
    let region = gpu.allocate(&ResourceRequirements::new(4096, 256), &alone).expect("the fake has memory");
    gpu.free(region).unwrap();
    let buffer = gpu.create_buffer(&BufferInfo::new(100, BufferUsage::TRANSFER_SRC), &RegionOptions::new()).unwrap();
    let image = gpu.create_image(&ImageInfo::new_2d(37, 7, 9, ImageUsage::SAMPLED), &RegionOptions::new()).unwrap();
    gpu.free(buffer).unwrap();
    gpu.free(image).unwrap();
    gpu.close().map(drop).map_err(|refused| refused.error).unwrap();
}

#[test]
fn h120_h121_the_users_own_data_is_passed_exactly_in_a_copy_of_the_callbacks() {
    set(Fake::NEW);
    take_and_give(&device_with(AshOptions::new(vk::API_VERSION_1_1)));
    for command in ASKED {
        assert_eq!(fake().allocator(command), 0, "{command}: there are none");
    }
    let mut data = 7_u8;
    for user in [ptr::from_mut(&mut data).cast::<c_void>(), ptr::null_mut(), ptr::without_provenance_mut(usize::MAX)] {
        let (device, theirs) = device(user);
        let before = ASKED.map(|command| fake().calls(command));
        take_and_give(&device);
        for (command, before) in ASKED.into_iter().zip(before) {
            assert!(fake().calls(command) > before, "{command} was called");
            let (address, told) = passed(command);
            assert_ne!(address, theirs, "{command} is passed the device's own");
            assert_eq!(told.addr(), user.addr(), "{command}: the application's struct was overwritten since");
        }
    }
}
