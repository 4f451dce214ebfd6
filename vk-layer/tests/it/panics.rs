//! The fence: a planted panic of the layer costs no command its result.

use std::ffi::c_void;
use std::mem::transmute;
use std::{env, fs, ptr};

use VkLayer_steward_memory::planted_panic::{HookPhase, plant_panic};
use serde_json::{Value, json};
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{Layer, VoidFunction, arguments, create_object, destroy_object, seen};

const NONE: *const RawCallbacks = ptr::null();
const JSON: &str = "VK_STEWARD_MEMORY_JSON";

/// Kinds stay passed through as long as the process lives, so that it is one of its own.
#[test]
fn ly7_a_panic_passes_its_kind_through_and_every_command_succeeds() {
    let test = "ly7_a_panic_passes_its_kind_through_and_every_command_succeeds";
    if Child::is_child(test) {
        return panic_in_each_phase();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let child = Child::this_test(test).env(JSON, &file).run();
    child.assert_code(0);
    for (command, kind) in
        [("vkCreateBuffer", "VkBuffer"), ("vkAllocateMemory", "VkDeviceMemory"), ("vkDestroyDevice", "VkDevice")]
    {
        let sentence = format!("the layer panicked at {command}: from now on {kind} is passed");
        assert_eq!(child.stderr.matches(&sentence).count(), 1, "{child}");
    }
    let report = fs::read(file).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(report["program"]["passed_through"], json!(["VkDeviceMemory", "VkBuffer", "VkDevice"]), "{report}");
}

fn panic_in_each_phase() {
    assert!(env::var_os(JSON).is_some());
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    for (create_name, destroy_name, phase) in [
        (c"vkCreateBuffer", c"vkDestroyBuffer", HookPhase::Before),
        (c"vkAllocateMemory", c"vkFreeMemory", HookPhase::Around),
    ] {
        let create = layer.of_device(device, create_name).expect("a hook");
        let destroy = layer.of_device(device, destroy_name).expect("a hook");
        seen();
        // The panic strikes the first of them.
        plant_panic(create_name.to_str().expect("a name"), phase);
        let objects = [(); 2].map(|()| create_object(create, device, NONE).expect("an object"));
        for object in objects {
            destroy_object(destroy, device, object, NONE);
        }
        let seen = seen();
        assert_eq!(seen.len(), 4, "each command came once: {seen:?}");
        let callbacks = seen[0].user_data;
        assert_eq!(callbacks.is_none(), phase == HookPhase::Before);
        assert!(seen.iter().all(|seen| seen.user_data == callbacks));
    }
    plant_panic("vkDestroyDevice", HookPhase::After);
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
    assert_eq!(seen().len(), 2);
}

/// What the command has created is the program's, whatever happens to the layer behind it.
#[test]
fn ly7_a_panic_behind_the_command_neither_calls_it_again_nor_loses_its_result() {
    let test = "ly7_a_panic_behind_the_command_neither_calls_it_again_nor_loses_its_result";
    if !Child::is_child(test) {
        // Judged, or recorded only.
        for (name, value) in [(JSON, "/dev/null"), ("VK_STEWARD_MEMORY_CHECK", "false")] {
            Child::this_test(test)
                .env("VK_STEWARD_MEMORY_RECORD", "/dev/null")
                .env("VK_STEWARD_MEMORY_BRACKETS", "all")
                .env(name, value)
                .run()
                .assert_code(0);
        }
        return;
    }
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
    let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
    seen();
    plant_panic("vkCreateBuffer", HookPhase::Returned);
    let buffer = create_object(create, device, NONE).expect("what the driver created");
    destroy_object(destroy, device, buffer, NONE);
    assert_eq!(seen().len(), 2, "each command came once");
    // A command without callbacks.
    type Reset = unsafe extern "system" fn(*mut c_void, u64, u32) -> i32;
    let reset = layer.of_device(device, c"vkResetCommandPool");
    // SAFETY: the command has this signature.
    let reset = unsafe { transmute::<VoidFunction, Reset>(reset.expect("a hook")) };
    arguments();
    plant_panic("vkResetCommandPool", HookPhase::Returned);
    // SAFETY: a live device; the driver looks at no pool.
    assert_eq!(unsafe { reset(device, 5, 7) }, 0);
    assert_eq!(arguments(), [5, 7], "it came once");
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}
