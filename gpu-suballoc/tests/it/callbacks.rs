//! Rows about whose callbacks a driver is passed, and about counters.
#![cfg(feature = "ash")]

use std::alloc::System;
use std::ffi::c_void;

use crate::fake_vulkan::{Fake, fake, set, vulkan};
use crate::over;
use alloc_core::FromGlobalAlloc;
use ash::vk;
use gpu_suballoc::ash::AshOptions;
use gpu_suballoc::report::MemoryTotals;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    AshDevice, BufferInfo, BufferUsage, ImageInfo, ImageUsage, RegionOptions, ResourceRequirements,
};
use mock_device::{MockDevice, MockProfile};

/// A device made with callbacks whose user data is `user`; the struct that they stood in is overwritten afterwards.
fn device(user: *mut c_void) -> (AshDevice, usize) {
    let (entry, instance, device) = vulkan();
    let mut theirs = Box::new(vk::AllocationCallbacks {
        p_user_data: user,
        ..Default::default()
    });
    // Lent, for this call alone.
    let options = AshOptions::new(vk::API_VERSION_1_1).with_callbacks(&theirs);
    // SAFETY: the fake looks at no handle.
    let made = unsafe {
        AshDevice::new(
            &entry,
            &instance,
            vk::PhysicalDevice::null(),
            &device,
            options,
        )
    };
    theirs.p_user_data = std::ptr::null_mut();
    (made, std::ptr::from_ref(&*theirs).addr())
}

/// What the fake was last passed with a command, while the device that passed it lives.
fn passed(command: &str) -> (usize, *mut c_void) {
    let address = fake().allocator(command);
    let callbacks = std::ptr::with_exposed_provenance::<vk::AllocationCallbacks<'_>>(address);
    // SAFETY: the device's own copy, which is not written to.
    (address, unsafe { (*callbacks).p_user_data })
}

const ASKED: [&str; 6] = [
    "vkAllocateMemory",
    "vkFreeMemory",
    "vkCreateBuffer",
    "vkDestroyBuffer",
    "vkCreateImage",
    "vkDestroyImage",
];

fn take_and_give(device: &AshDevice) {
    let gpu = over(device, FromGlobalAlloc::SYSTEM);
    let alone = RegionOptions::new().dedicated(DedicatedPolicy::Required);
    let region = gpu
        .allocate(&ResourceRequirements::new(4096, 256), &alone)
        .expect("the fake has memory");
    gpu.free(region).unwrap();
    let buffer = gpu
        .create_buffer(
            &BufferInfo::new(100, BufferUsage::TRANSFER_SRC),
            &RegionOptions::new(),
        )
        .unwrap();
    let image = gpu
        .create_image(
            &ImageInfo::new_2d(37, 7, 9, ImageUsage::SAMPLED),
            &RegionOptions::new(),
        )
        .unwrap();
    gpu.free(buffer).unwrap();
    gpu.free(image).unwrap();
    gpu.close()
        .map(drop)
        .map_err(|refused| refused.error)
        .unwrap();
}

#[test]
fn h120_the_users_own_data_is_passed_exactly() {
    set(Fake::NEW);
    let mut data = 7_u8;
    for user in [
        std::ptr::from_mut(&mut data).cast::<c_void>(),
        std::ptr::null_mut(),
        std::ptr::without_provenance_mut(usize::MAX),
    ] {
        let (device, _) = device(user);
        let before = ASKED.map(|command| fake().calls(command));
        take_and_give(&device);
        for (command, before) in ASKED.into_iter().zip(before) {
            assert!(fake().calls(command) > before, "{command} was called");
            assert_eq!(passed(command).1.addr(), user.addr(), "{command}");
        }
    }
}

#[test]
fn h121_the_callbacks_are_copied() {
    set(Fake::NEW);
    let (device, theirs) = device(std::ptr::without_provenance_mut(0x1234));
    take_and_give(&device);
    for command in ASKED {
        let (address, user) = passed(command);
        assert_ne!(address, theirs, "{command} is passed the device's own");
        assert_eq!(
            user.addr(),
            0x1234,
            "{command}: the application's struct was overwritten since"
        );
    }
}

#[test]
fn h114_counters_go_up_and_come_down_by_type_and_by_heap() {
    let mock =
        MockDevice::<FromGlobalAlloc<System>>::new(MockProfile::Nvidia, FromGlobalAlloc::SYSTEM);
    let gpu = over(&mock, FromGlobalAlloc::SYSTEM);
    let none = gpu.stats();
    assert_eq!(none.total, MemoryTotals::default());
    let ask = |bit: u32| ResourceRequirements::new(5120, 256).memory_types(1 << bit);
    let regions = [1, 2, 2].map(|bit| gpu.allocate(&ask(bit), &RegionOptions::new()).unwrap());
    let some = gpu.stats();
    assert_eq!(
        (
            some.types[1].regions,
            some.types[2].regions,
            some.total.regions
        ),
        (1, 2, 3)
    );
    assert_eq!(
        (some.types[1].region_bytes, some.total.region_bytes),
        (5120, 3 * 5120)
    );
    assert_eq!(
        (some.heaps[0], some.heaps[1]),
        (some.types[1], some.types[2]),
        "two types, two heaps"
    );
    assert_eq!(some.total.blocks, mock.live_counts().memory);
    assert_eq!(
        (0..2).map(|heap| mock.heap(heap).0).sum::<u64>(),
        some.total.block_bytes
    );
    assert!(some.host_bytes > none.host_bytes);
    regions
        .into_iter()
        .for_each(|region| gpu.free(region).unwrap());
    assert_eq!(
        (gpu.stats().total.regions, gpu.stats().total.region_bytes),
        (0, 0)
    );
    gpu.trim(u64::MAX);
    let left = gpu.stats();
    assert_eq!(left.total, MemoryTotals::default());
    assert!(
        left.types
            .iter()
            .chain(&left.heaps)
            .all(|totals| *totals == MemoryTotals::default())
    );
}
