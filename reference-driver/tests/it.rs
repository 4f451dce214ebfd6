//! The driver without a loader: its commands by name, and its reader of shaders. Whole programs on it are in `steward/tests`.

use std::ffi::CString;

use ash::vk::{self, Handle as _};
use reference_driver::{
    Unsupported, get_instance_proc_addr, try_shader, vk_icdNegotiateLoaderICDInterfaceVersion,
};

const COMPUTE: (&[u8], vk::ShaderStageFlags) = (
    include_bytes!("../../steward/shaders/hash.comp.spv"),
    vk::ShaderStageFlags::COMPUTE,
);
const VERTEX: (&[u8], vk::ShaderStageFlags) = (
    include_bytes!("../../steward/shaders/draw.vert.spv"),
    vk::ShaderStageFlags::VERTEX,
);
const FRAGMENT: (&[u8], vk::ShaderStageFlags) = (
    include_bytes!("../../steward/shaders/draw.frag.spv"),
    vk::ShaderStageFlags::FRAGMENT,
);

fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
        .collect()
}

#[test]
fn rd1_versions_below_2_are_refused_and_above_5_lowered() {
    let negotiate = |mut version: u32| {
        // SAFETY: a local.
        let answer = unsafe { vk_icdNegotiateLoaderICDInterfaceVersion(&raw mut version) };
        (answer, version)
    };
    assert_eq!(negotiate(7), (vk::Result::SUCCESS, 5));
    assert_eq!(negotiate(3), (vk::Result::SUCCESS, 3));
    assert_eq!(negotiate(1).0, vk::Result::ERROR_INCOMPATIBLE_DRIVER);
}

/// An instance of the driver, without callbacks.
struct Running(ash::Instance);

impl Running {
    fn new() -> Self {
        let functions = ash::StaticFn {
            get_instance_proc_addr,
        };
        // SAFETY: the driver's own function, linked.
        let entry = unsafe { ash::Entry::from_static_fn(functions) };
        // SAFETY: a plain instance.
        let made = unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) };
        Self(made.expect("an instance"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: nothing of it is left.
        unsafe { self.0.destroy_instance(None) }
    }
}

#[test]
fn rd3_every_command_of_1_0_and_1_1_is_found_at_its_level() {
    let running = Running::new();
    let found = |instance: vk::Instance, name: &str| {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the instance is NULL or lives.
        unsafe { get_instance_proc_addr(instance, name.as_ptr()) }.is_some()
    };
    let list = include_str!("commands.txt").lines();
    let commands: Vec<_> = list.filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(commands.len(), 165);
    let (none, instance) = (vk::Instance::null(), running.0.handle());
    // SAFETY: the instance lives.
    let physical = unsafe { running.0.enumerate_physical_devices() }.expect("one")[0];
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
    // SAFETY: the one family, one queue.
    let device = unsafe { running.0.create_device(physical, &info, None) }.expect("a device");
    let of_device = |name: &str| {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the device lives.
        unsafe {
            running
                .0
                .get_device_proc_addr(device.handle(), name.as_ptr())
        }
        .is_some()
    };
    for (level, name) in commands {
        assert!(found(instance, name), "{name}");
        assert_eq!(
            found(none, name),
            level == "global",
            "{name} without an instance"
        );
        let on_device = level == "device" || name == "vkGetDeviceProcAddr";
        assert_eq!(of_device(name), on_device, "{name} of a device");
    }
    for name in ["vkCreateSwapchainKHR", "vkCmdDispatchIndirec", "", "vk"] {
        assert!(!found(instance, name) && !of_device(name), "{name}");
    }
    // SAFETY: nothing of it is left.
    unsafe { device.destroy_device(None) };
}

/// The loader writes its own word at the front of each dispatchable handle; the driver finds its object all the same.
#[test]
fn rd2_the_loaders_word_is_written_once_and_never_read() {
    let running = Running::new();
    let word = std::ptr::with_exposed_provenance_mut::<usize>(running.0.handle().as_raw() as usize);
    // SAFETY: a dispatchable handle is the address of a word.
    assert_eq!(unsafe { word.read() }, 0x01CD_C0DE);
    // SAFETY: what the loader does.
    unsafe { word.write(0) };
    // SAFETY: the instance lives.
    let devices = unsafe { running.0.enumerate_physical_devices() };
    assert_eq!(devices.map(|devices| devices.len()), Ok(1));
}

#[test]
fn rd19_the_three_shaders_run_and_every_instruction_outside_is_refused() {
    for (bytes, stage) in [COMPUTE, VERTEX, FRAGMENT] {
        let words = words(bytes);
        assert_eq!(try_shader(&words, stage), Ok(()));
        let other = vk::ShaderStageFlags::GEOMETRY;
        assert_eq!(try_shader(&words, other), Err(Unsupported), "another stage");
        assert_eq!(
            try_shader(&words[..words.len() - 2], stage),
            Err(Unsupported),
            "cut"
        );
        // One instruction more, of each code there is, at the end of the module, where no function is.
        let known = (0..=0xFFFF_u32).filter(|code| {
            let mut longer = words.clone();
            longer.push((1 << 16) | code);
            try_shader(&longer, stage).is_ok()
        });
        let known: Vec<_> = known.collect();
        // OpBranch, OpBranchConditional, OpLoopMerge, OpKill, OpAtomicIAdd, OpUndef, OpPhi
        for outside in [249, 250, 246, 252, 234, 1, 245] {
            assert!(!known.contains(&outside), "{outside}");
        }
        assert!((20..70).contains(&known.len()), "{known:?}");
    }
}

/// 10^5 modules with some words changed: an answer for each, and no panic.
#[test]
fn rd19_mutated_modules_are_answered() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let modules = [COMPUTE, VERTEX, FRAGMENT].map(|(bytes, stage)| (words(bytes), stage));
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..100_000 {
        let (original, stage) = &modules[round % modules.len()];
        let mut words = original.clone();
        for _ in 0..1 + random(3) {
            let at = random(words.len());
            words[at] = match random(4) {
                0 => random(300) as u32,
                1 => words[at] ^ (1 << random(32)),
                2 => words[random(words.len())],
                _ => u32::MAX,
            };
        }
        match try_shader(&words, *stage) {
            Ok(()) => accepted += 1,
            Err(Unsupported) => refused += 1,
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} {refused}");
}

/// The documentation quotes the table that is compiled; each object of the device is in it once. Pools and pipelines, of which one
/// command makes several, and instance and device have files of their own.
#[test]
fn rd20_each_object_has_one_line_that_creates_and_destroys_it() {
    let table = include_str!("../src/objects_table.rs");
    let elsewhere = ["Instance", "Device", "CommandPool", "DescriptorPool"];
    let commands = include_str!("commands.txt").lines();
    let created = commands
        .filter_map(|line| line.split_once(" vkCreate"))
        .map(|(_, object)| object)
        .filter(|object| !elsewhere.contains(object) && !object.ends_with("Pipelines"));
    let mut objects = 0;
    for object in created.chain(["DeviceMemory"]) {
        let info = if object == "DeviceMemory" {
            "MemoryAllocateInfo".to_owned()
        } else {
            format!("{object}CreateInfo")
        };
        let line = format!(": {object}({info}) = ");
        assert_eq!(table.matches(&line).count(), 1, "{line}");
        objects += 1;
    }
    assert_eq!(table.matches("Info) = ").count(), objects, "and no other");
}
