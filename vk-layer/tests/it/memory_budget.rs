//! The budgets of heaps, over the fake driver, which has a heap where `FAKE_DRIVER_BUDGET` is set.

use std::ffi::CStr;
use std::ptr;

use serde_json::{Value, json};
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{BUDGETS_READ, CreateInfo, LINK, Layer, LinkInfo, create_object, destroy_object};

const NONE: *const RawCallbacks = ptr::null();

fn allocate_memory(is_enabled: bool) {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let mut link = LinkInfo::new(48, &LINK);
    let mut info = CreateInfo::new(&mut link);
    let names = [c"VK_EXT_memory_budget".as_ptr()];
    if is_enabled {
        info.enable(&names);
    }
    let device = layer.create_device_with(instance, &info, NONE);
    let device = device.expect("a device");
    let function = |name: &CStr| layer.of_device(device, name).expect("a hook");
    let (allocate, free) = (function(c"vkAllocateMemory"), function(c"vkFreeMemory"));
    for _ in 0..3 {
        let memory = create_object(allocate, device, NONE).expect("memory");
        destroy_object(free, device, memory, NONE);
    }
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
    assert_eq!(BUDGETS_READ.get(), u32::from(is_enabled), "once");
}

#[test]
fn ly20_the_budget_of_a_heap_is_read_once_where_the_program_enables_it() {
    let test = "ly20_the_budget_of_a_heap_is_read_once_where_the_program_enables_it";
    if Child::is_child(test) {
        return allocate_memory(std::env::var_os("STEWARD_TEST_ENABLE").is_some());
    }
    for (is_enabled, budget) in [(true, 700), (false, 0)] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("report.json");
        let child = Child::this_test(test).env("VK_STEWARD_MEMORY_JSON", &file).env("FAKE_DRIVER_BUDGET", "700");
        let child =
            if is_enabled { child.env("STEWARD_TEST_ENABLE", "1") } else { child.env_remove("STEWARD_TEST_ENABLE") };
        child.run().assert_code(0);
        let report = std::fs::read(&file).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        let memory = &report["vulkan_memory"][0];
        let heap = &memory["heaps"][0];
        assert_eq!((&heap["size"], &heap["budget"]), (&json!(1000), &json!(budget)));
        assert_eq!(memory["types"][0]["budget"], 0, "of heaps alone");
    }
}
