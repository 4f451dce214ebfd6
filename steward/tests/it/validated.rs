//! The workload under the validation layer: on lavapipe, and on SwiftShader where `STEWARD_SWIFTSHADER=<manifest>` names it.

use ash::vk;
use testkit::{Child, skip};
use vk_steward::drivers::LOADER_VARIABLE;

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

/// The validation layer, asked for by the environment, says what it hears on the standard output.
#[test]
fn the_validation_layer_is_silent_after_it_was_heard() {
    const NAME: &str = "the_validation_layer_is_silent_after_it_was_heard";
    let validated = |child: Child| {
        let child = child.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
        child.env(
            "VK_LAYER_ENABLES",
            "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
        )
    };
    if Child::is_child(NAME) {
        return intended_error();
    }
    let heard = validated(Child::this_test(NAME)).run();
    if heard.stdout.contains("NONE") {
        return skip("validation", NAME, &heard.stdout);
    }
    assert!(
        heard
            .stdout
            .contains("VUID-VkSemaphoreCreateInfo-flags-zerobitmask"),
        "{heard}"
    );
    for driver in ["lavapipe", "swiftshader"] {
        if driver == "swiftshader" && testkit::swiftshader().is_none() {
            skip("swiftshader", NAME, "no SwiftShader is named");
            continue;
        }
        let child = Child::new(STEWARD).args(["drive", "--no-coverage", "--driver", driver]);
        let child = testkit::swiftshader()
            .into_iter()
            .fold(child, |child, manifest| {
                child.env("VK_ADD_DRIVER_FILES", manifest)
            });
        let silent = validated(child).run();
        silent.assert_code(0);
        // SwiftShader never frees the block of a descriptor update template, below this layer as without it.
        let left = if driver == "swiftshader" {
            "\n  VkDescriptorUpdateTemplate: 1 block, "
        } else {
            "\nleftovers: none"
        };
        assert!(silent.stdout.contains(left), "{silent}");
        for word in [
            "VUID-",
            "UNASSIGNED-",
            "SYNC-HAZARD",
            "Validation Error",
            "Validation Warning",
        ] {
            assert!(
                !silent.stdout.contains(word) && !silent.stderr.contains(word),
                "{silent}"
            );
        }
    }
}

/// A semaphore with a flag that is reserved, which drivers do not look at.
fn intended_error() {
    // The same loader as the program's.
    let opened = match std::env::var_os(LOADER_VARIABLE) {
        // SAFETY: opening the loader runs its initialisers.
        Some(library) => unsafe { ash::Entry::load_from(library) },
        // SAFETY: as above.
        None => unsafe { ash::Entry::load() },
    };
    let Ok(entry) = opened else {
        return println!("NONE: no Vulkan loader");
    };
    // SAFETY: a valid info.
    let instance = match unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) }
    {
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
    // SAFETY: made above, as all that follows.
    unsafe { device.destroy_semaphore(semaphore, None) };
    // SAFETY: nothing of it is left.
    unsafe { device.destroy_device(None) };
    // SAFETY: as above.
    unsafe { instance.destroy_instance(None) };
}
