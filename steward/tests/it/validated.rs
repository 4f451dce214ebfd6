//! The workload under the validation layer: on lavapipe, and on SwiftShader where `STEWARD_SWIFTSHADER=<manifest>`
//! names it.

use ash::vk;
use testkit::{Child, skip};
use vk_steward::drivers::LOADER_VARIABLE;

use crate::reference_loaded::manifest::Manifest;

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

/// The validation layer, asked for by the environment, says what it hears on the standard output. It has to hear both
/// intended errors: only the second shows that it looks for missing barriers.
#[test]
fn rd6_the_validation_layer_is_silent_after_it_was_heard() {
    const NAME: &str = "rd6_the_validation_layer_is_silent_after_it_was_heard";
    let validated = |child: Child| {
        let child = child.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
        child.env("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")
    };
    if Child::is_child(NAME) {
        return intended_errors();
    }
    let heard = validated(Child::this_test(NAME)).run();
    if heard.stdout.contains("NONE") {
        return skip("validation", NAME, &heard.stdout);
    }
    for intended in ["VUID-VkSemaphoreCreateInfo-flags-zerobitmask", "SYNC-HAZARD-WRITE-AFTER-WRITE"] {
        assert!(heard.stdout.contains(intended), "{heard}");
    }
    let reference = Manifest::new();
    let reference = reference.path.to_str().expect("a plain path");
    for driver in ["lavapipe", "swiftshader", reference] {
        if driver == "swiftshader" && testkit::swiftshader().is_none() {
            skip("swiftshader", NAME, "no SwiftShader is named");
            continue;
        }
        let child = Child::new(STEWARD).args(["drive", "--no-coverage", "--rounds", "2", "--driver", driver]);
        let child = testkit::swiftshader()
            .into_iter()
            .fold(child, |child, manifest| child.env("VK_ADD_DRIVER_FILES", manifest));
        let silent = validated(child).run();
        silent.assert_code(0);
        // SwiftShader never frees the block of a descriptor update template, below this layer as without it.
        let left =
            if driver == "swiftshader" { "\n  VkDescriptorUpdateTemplate: 2 blocks, " } else { "\nleftovers: none" };
        assert!(silent.stdout.contains(left), "{silent}");
        for word in ["VUID-", "UNASSIGNED-", "SYNC-HAZARD", "Validation Error", "Validation Warning"] {
            assert!(!silent.stdout.contains(word) && !silent.stderr.contains(word), "{silent}");
        }
    }
}

/// A semaphore with a flag that is reserved, which drivers do not look at, and two fills of one buffer without a
/// barrier, which no device runs.
fn intended_errors() {
    // The same loader as the program's.
    let opened = match std::env::var_os(LOADER_VARIABLE) {
        // SAFETY: opening the loader runs its initialisers.
        Some(library) => unsafe { ash::Entry::load_from(library) },
        // SAFETY: opening the loader runs its initialisers.
        None => unsafe { ash::Entry::load() },
    };
    let Ok(entry) = opened else {
        return println!("NONE: no Vulkan loader");
    };
    // SAFETY: a valid info.
    let instance = match unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) } {
        Ok(instance) => instance,
        Err(result) => return println!("NONE: vkCreateInstance answered {result:?}"),
    };
    // SAFETY: a live instance.
    let all = unsafe { instance.enumerate_physical_devices() }.expect("devices");
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    // SAFETY: family 0 is there.
    let device = unsafe { instance.create_device(all[0], &info, None) }.expect("a device");
    let reserved = vk::SemaphoreCreateInfo::default().flags(vk::SemaphoreCreateFlags::from_raw(1));
    // SAFETY: not valid usage, on purpose: no driver gives the flag a meaning.
    let semaphore = unsafe { device.create_semaphore(&reserved, None) }.expect("a semaphore");
    // SAFETY: made above, and not used.
    unsafe { device.destroy_semaphore(semaphore, None) };
    forget_a_barrier(&instance, all[0], &device);
    // SAFETY: nothing of it is left.
    unsafe { device.destroy_device(None) };
    // SAFETY: nothing of it is left.
    unsafe { instance.destroy_instance(None) };
}

fn forget_a_barrier(instance: &ash::Instance, physical: vk::PhysicalDevice, device: &ash::Device) {
    let info = vk::BufferCreateInfo::default().size(64).usage(vk::BufferUsageFlags::TRANSFER_DST);
    // SAFETY: a valid info.
    let buffer = unsafe { device.create_buffer(&info, None) }.expect("a buffer");
    // SAFETY: a live buffer.
    let needs = unsafe { device.get_buffer_memory_requirements(buffer) };
    // SAFETY: a device of the instance.
    let types = unsafe { instance.get_physical_device_memory_properties(physical) };
    let fits = |index: &u32| needs.memory_type_bits & (1 << index) != 0;
    let index = (0..types.memory_type_count).find(fits).expect("a type");
    let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
    // SAFETY: a size and a type that the device asked for.
    let memory = unsafe { device.allocate_memory(&info, None) }.expect("memory");
    // SAFETY: a new buffer, and memory that is large enough.
    unsafe { device.bind_buffer_memory(buffer, memory, 0) }.expect("it fits");
    // SAFETY: family 0 is there.
    let pool = unsafe { device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None) };
    let pool = pool.expect("a pool");
    let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
    // SAFETY: a live pool.
    let twice = unsafe { device.allocate_command_buffers(&info) }.expect("a buffer")[0];
    // SAFETY: a new command buffer.
    unsafe { device.begin_command_buffer(twice, &vk::CommandBufferBeginInfo::default()) }.expect("it begins");
    for word in [1, 2] {
        // SAFETY: recording; not valid usage the second time, on purpose: nothing orders it behind the first.
        unsafe { device.cmd_fill_buffer(twice, buffer, 0, vk::WHOLE_SIZE, word) };
    }
    // SAFETY: begun above.
    unsafe { device.end_command_buffer(twice) }.expect("it ends");
    // SAFETY: never submitted.
    unsafe { device.destroy_command_pool(pool, None) };
    // SAFETY: no work uses it.
    unsafe { device.destroy_buffer(buffer, None) };
    // SAFETY: its buffer is gone.
    unsafe { device.free_memory(memory, None) };
}
