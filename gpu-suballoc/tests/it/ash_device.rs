//! What [`AshDevice`] passes to a driver, seen from the driver: a fake of Vulkan's entry points in this process. Runs
//! under miri.

use crate::*;

use crate::fake_vulkan::{COMMANDS, Fake, fake, set, vulkan};
use crate::operations::devices::everything;
use ash::vk::StructureType;

/// A device over the fake, as it is now.
fn device(options: AshOptions) -> AshDevice {
    let (entry, instance, device) = vulkan();
    // SAFETY: the fake looks at no handle.
    unsafe { AshDevice::new(&entry, &instance, vk::PhysicalDevice::null(), &device, options) }
}

const EVERYTHING: DeviceFeatures = DeviceFeatures {
    dedicated_allocation: true,
    memory_budget: true,
    memory_priority: true,
    buffer_device_address: true,
    external_memory: true,
    device_coherent_memory: false,
};

fn rich() -> AshOptions {
    AshOptions { features: EVERYTHING, ..AshOptions::new(vk::API_VERSION_1_3) }
}

fn chain() -> Vec<i32> {
    fake().chain.into_iter().take_while(|kind| *kind != 0).collect()
}

/// Whatever a device says of itself.
fn properties_and_budget(device: &AshDevice) -> (String, bool, [HeapBudget; 2]) {
    let mut heaps = [HeapBudget::default(); 2];
    let answered = device.budget(&mut heaps);
    (format!("{:?}", device.properties()), answered, heaps)
}

#[test]
fn di3_a_device_without_an_entry_is_the_one_with_an_entry() {
    for (version, core) in [(vk::API_VERSION_1_0, false), (vk::API_VERSION_1_1, true), (vk::API_VERSION_1_3, true)] {
        set(Fake { core, ..Fake::NEW });
        let options = AshOptions { features: EVERYTHING, ..AshOptions::new(version) };
        let (_, instance, handles) = vulkan();
        let physical = vk::PhysicalDevice::null();
        // SAFETY: the fake looks at no handle.
        let without = unsafe { AshDevice::of_device(&instance, physical, &handles, options) };
        let seen = properties_and_budget(&without);
        assert_eq!(seen, properties_and_budget(&device(options)));
        assert_eq!(seen.1, core, "a budget from 1.1 on");
        assert_eq!(everything(&without), Ok(()));
    }
}

const BUFFER: BufferInfo = BufferInfo::new(100, BufferUsage::TRANSFER_SRC);
const IMAGE: ImageInfo = ImageInfo::new_2d(37, 7, 9, ImageUsage::SAMPLED);

#[test]
fn every_command_is_called_through_its_own_function() {
    set(Fake::NEW);
    let device = device(rich());
    everything(&device).unwrap();
    // What 1.1 has anew, and what is asked for lazily allocated memory alone.
    let others = ["vkGetBufferMemoryRequirements", "vkGetImageMemoryRequirements", "vkGetDeviceMemoryCommitment"];
    for command in COMMANDS {
        assert_eq!(fake().calls(command), u32::from(!others.contains(&command)), "{command}");
    }
    let memory = MemoryHandle::from_raw(1).unwrap();
    // SAFETY: the fake looks at no handle, and answers with the offset.
    assert_eq!(unsafe { device.map(memory, 640, 64) }.map(|first| first.addr().get()), Ok(640));
}

#[test]
fn vulkan_1_0_without_extensions_is_enough() {
    set(Fake { core: false, ..Fake::NEW });
    let device = device(AshOptions { features: EVERYTHING, ..AshOptions::new(vk::API_VERSION_1_0) });
    let told = device.properties();
    let features = told.features;
    assert!(
        !features.memory_budget && !features.dedicated_allocation && !features.buffer_device_address,
        "{features:?}"
    );
    assert_eq!((told.limits.max_memory_allocation_size, told.limits.max_buffer_size), (u64::MAX, u64::MAX));
    assert_eq!((told.limits.buffer_image_granularity, told.limits.max_memory_allocation_count), (1024, 99));
    assert!(!device.budget(&mut [HeapBudget::default()]));
    assert_eq!(everything(&device), Ok(()));
    for (command, calls) in [
        ("vkGetBufferMemoryRequirements", 1),
        ("vkGetImageMemoryRequirements", 1),
        ("vkGetBufferMemoryRequirements2", 0),
        ("vkGetImageMemoryRequirements2", 0),
        ("vkGetBufferDeviceAddress", 0),
    ] {
        assert_eq!(fake().calls(command), calls, "{command}");
    }
    assert!(!AshOptions::new(vk::API_VERSION_1_0).features.dedicated_allocation);
    assert!(AshOptions::new(vk::API_VERSION_1_1).features.dedicated_allocation);
}

#[test]
fn vulkan_1_0_with_extensions_uses_them() {
    set(Fake { core: false, khr: true, dedicated: (true, false), ..Fake::NEW });
    let device = device(AshOptions { features: EVERYTHING, ..AshOptions::new(vk::API_VERSION_1_0) });
    assert_eq!(device.properties().features, EVERYTHING);
    assert_eq!(everything(&device), Ok(()));
    assert_eq!((fake().calls("vkGetBufferMemoryRequirements2"), fake().calls("vkGetBufferDeviceAddress")), (1, 1));
}

#[test]
fn a_name_that_the_version_does_not_have_is_not_used() {
    set(Fake::NEW);
    // The functions of 1.1 are there, but the application asked for 1.0.
    everything(&device(AshOptions::new(vk::API_VERSION_1_0))).unwrap();
    assert_eq!((fake().calls("vkGetBufferMemoryRequirements"), fake().calls("vkGetBufferMemoryRequirements2")), (1, 0));
}

#[test]
fn what_the_device_says_of_itself_is_passed_on() {
    set(Fake::NEW);
    let device = device(rich());
    let told = device.properties();
    assert_eq!((told.types.len(), told.heaps.len()), (2, 2));
    assert_eq!((told.types[1].properties.as_raw(), told.types[1].heap_index), (0b110, 1));
    assert!(
        told.heaps[0].flags.contains(HeapFlags::DEVICE_LOCAL)
            && !told.heaps[1].flags.contains(HeapFlags::DEVICE_LOCAL)
            && told.heaps[1].size == 1 << 31
    );
    assert_eq!((told.limits.max_memory_allocation_size, told.limits.max_buffer_size), (1 << 31, 1 << 30));
    let old = self::device(AshOptions::new(vk::API_VERSION_1_2));
    assert_eq!(old.properties().limits.max_buffer_size, u64::MAX, "1.2 does not tell");
    let mut heaps = [HeapBudget { usage: 1, budget: 1 }; 3];
    assert!(device.budget(&mut heaps));
    assert_eq!(heaps.map(|heap| (heap.usage, heap.budget)), [(10, 20), (30, 40), (1, 1)]);
    assert!(!old.budget(&mut heaps), "not enabled");
}

#[test]
fn a_chain_holds_what_was_asked_for_and_nothing_else() {
    set(Fake::NEW);
    let device = device(rich());
    // SAFETY: the fake looks at no handle.
    let allocate = |request: &MemoryRequest| unsafe { device.allocate(request) };
    allocate(&MemoryRequest::new(4096, 1)).unwrap();
    assert_eq!((chain(), fake().seen.size, fake().seen.memory_type), (vec![], 4096, 1));

    let mut own = vk::ImportMemoryFdInfoKHR::default().fd(7);
    let first = NonNull::from(&mut own).cast();
    let all = MemoryRequest {
        dedicated: Some(ResourceHandle::Buffer(BufferHandle::from_raw(0x77).unwrap())),
        priority: Some(0.25),
        export: ExternalHandleTypes::OPAQUE_FD,
        device_address: true,
        // SAFETY: one structure, which lives to the end of this test.
        next: Some(unsafe { NextChain::new(first) }),
        ..MemoryRequest::new(1, 0)
    };
    allocate(&all).unwrap();
    let kinds = [
        StructureType::MEMORY_DEDICATED_ALLOCATE_INFO,
        StructureType::MEMORY_ALLOCATE_FLAGS_INFO,
        StructureType::EXPORT_MEMORY_ALLOCATE_INFO,
        StructureType::MEMORY_PRIORITY_ALLOCATE_INFO_EXT,
        StructureType::IMPORT_MEMORY_FD_INFO_KHR,
    ];
    assert_eq!(chain(), kinds.map(StructureType::as_raw));
    let seen = fake().seen;
    assert_eq!((seen.dedicated, seen.priority, seen.export, seen.flags), ((0x77, 0), 0.25, 1, 2));
}

#[test]
fn resources_carry_families_and_external_types_where_there_are_some() {
    set(Fake::NEW);
    let device = device(rich());
    // SAFETY: the fake looks at no handle.
    let create = |info: &BufferInfo| unsafe { device.create_buffer(info) }.unwrap();
    create(&BUFFER);
    let seen = fake().seen;
    assert_eq!(
        (seen.size, seen.concurrent, seen.families[0], seen.external, chain()),
        (100, false, u32::MAX, 0, vec![])
    );
    create(&BufferInfo {
        sharing: QueueFamilies::concurrent(0b1001),
        external: ExternalHandleTypes::DMA_BUF,
        ..BUFFER
    });
    let seen = fake().seen;
    assert_eq!((seen.concurrent, seen.families, seen.external), (true, [0, 3, u32::MAX], 1 << 9));
    assert_eq!(QueueFamilies::concurrent(0b1000), QueueFamilies::EXCLUSIVE, "one family alone needs no sharing");
    // SAFETY: the fake looks at no handle.
    unsafe { device.create_image(&IMAGE) }.unwrap();
    assert_eq!((fake().seen.extent, fake().seen.concurrent), ((7, 9, 1), false));
    // SAFETY: the fake looks at no handle.
    unsafe { device.create_image(&ImageInfo { external: ExternalHandleTypes::OPAQUE_FD, ..IMAGE }) }.unwrap();
    assert_eq!((fake().seen.external, chain().len()), (1, 1));
}

#[test]
fn wishes_for_memory_of_their_own_are_heard() {
    for (told, heard) in
        [((false, false), (false, false)), ((true, false), (true, false)), ((false, true), (true, true))]
    {
        set(Fake { dedicated: told, ..Fake::NEW });
        let device = device(rich());
        let buffer = BufferHandle::from_raw(1).unwrap();
        // SAFETY: the fake looks at no handle.
        let needs = unsafe { device.buffer_requirements(buffer) };
        assert_eq!((needs.prefers_dedicated, needs.requires_dedicated), heard);
        assert_eq!((needs.size, needs.alignment, needs.memory_type_bits), (256, 64, 3));
        assert_eq!(chain(), [StructureType::MEMORY_DEDICATED_REQUIREMENTS.as_raw()]);
    }
}

#[test]
fn forty_ranges_are_forty_ranges() {
    set(Fake::NEW);
    let device = device(rich());
    // SAFETY: the fake looks at no handle.
    let memory = unsafe { device.allocate(&MemoryRequest::new(1, 0)) }.unwrap();
    let ranges: Vec<MappedRange> = (0..40).map(|at| MappedRange { memory, offset: at * 128, size: 128 }).collect();
    // SAFETY: the fake looks at no handle, and the ranges live.
    assert_eq!(unsafe { device.flush(&ranges) }, Ok(()));
    assert_eq!(fake().calls("vkFlushMappedMemoryRanges"), 3);
    assert_eq!(fake().seen.ranges, [(16, 31 * 128, 128), (8, 39 * 128, 128)]);
    set(Fake { fail: vk::Result::ERROR_OUT_OF_HOST_MEMORY, ..Fake::NEW });
    assert_eq!(
        // SAFETY: the fake looks at no handle, and the ranges live.
        unsafe { device.invalidate(&ranges) },
        Err(OutOfHostMemory)
    );
    assert_eq!(fake().calls("vkInvalidateMappedMemoryRanges"), 1, "the rest is not tried");
    // SAFETY: the fake looks at no handle.
    assert_eq!(unsafe { device.flush(&[]) }, Ok(()));
    assert_eq!(fake().calls("vkFlushMappedMemoryRanges"), 0);
}

#[test]
fn each_refusal_comes_back_as_what_it_is() {
    for (told, heard) in [
        (vk::Result::ERROR_OUT_OF_HOST_MEMORY, OutOfHostMemory),
        (vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, OutOfDeviceMemory),
        (vk::Result::ERROR_TOO_MANY_OBJECTS, TooManyObjects),
        (vk::Result::ERROR_INVALID_EXTERNAL_HANDLE, InvalidExternalHandle),
        (vk::Result::ERROR_DEVICE_LOST, DeviceLost),
        (vk::Result::ERROR_UNKNOWN, Other(-13)),
    ] {
        set(Fake { fail: told, ..Fake::NEW });
        let device = device(rich());
        assert_eq!(
            // SAFETY: the fake looks at no handle.
            unsafe { device.allocate(&MemoryRequest::new(1, 0)) },
            Err(heard)
        );
        // SAFETY: the fake looks at no handle.
        let memory = unsafe { device.allocate(&MemoryRequest::new(1, 0)) }.expect("it fails once");
        assert_eq!(
            // SAFETY: the fake looks at no handle. Offset 0 is the null pointer that it then answers with.
            unsafe { device.map(memory, 0, 1) },
            Err(MapFailed),
            "null is not believed"
        );
    }
}
