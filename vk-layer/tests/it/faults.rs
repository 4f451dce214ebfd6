//! Faults of a plan, and of the driver, over the fake driver.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{Layer, create_object, destroy_object, device_callbacks};
use crate::judging::{OwnCallbacks, report_of};

const NONE: *const RawCallbacks = ptr::null();

/// The plan refuses the third request: the instance and the device have had one each.
#[test]
fn ly30_a_plan_strikes_the_programs_own_callbacks_if_it_is_told_to() {
    let test = "ly30_a_plan_strikes_the_programs_own_callbacks_if_it_is_told_to";
    // Settings of both runs: the child knows which by its environment.
    for fail_application in ["true", "false"] {
        let settings = [("FAIL", "nth=2"), ("FAIL_APPLICATION", fail_application)];
        let Some(report) = report_of(test, &settings, create_with_own_callbacks) else {
            return;
        };
        let fail = &report["fail"];
        assert_eq!(fail["refused"], 1, "{fail}");
        let refused = &fail["first"][0];
        let expected = if fail_application == "true" {
            ("VkBuffer", 32)
        } else {
            // With the 16 in front.
            ("VkDeviceMemory", 48)
        };
        let of_it = (refused["owner"].as_str(), refused["bytes"].as_u64());
        assert_eq!(of_it, (Some(expected.0), Some(expected.1)), "{fail}");
        assert_eq!(report["findings"], Value::Array(vec![]), "{report}");
    }
}

fn create_with_own_callbacks() {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let function = |name| layer.of_device(device, name).expect("a hook");
    let (create, destroy) = (function(c"vkCreateBuffer"), function(c"vkDestroyBuffer"));
    let (allocate, free) = (function(c"vkAllocateMemory"), function(c"vkFreeMemory"));
    let strikes_own = std::env::var("VK_STEWARD_MEMORY_FAIL_APPLICATION").as_deref() == Ok("true");
    let mut own = OwnCallbacks::default();
    let raw = own.raw();
    let mut created = 0;
    for number in 0..3 {
        let buffer = create_object(create, device, &raw const raw);
        assert_eq!(buffer.is_err(), strikes_own && number == 0, "{number}");
        if let Ok(buffer) = buffer {
            destroy_object(destroy, device, buffer, &raw const raw);
            created += 1;
        }
        let memory = create_object(allocate, device, NONE);
        assert_eq!(memory.is_err(), !strikes_own && number == 0, "{number}");
        if let Ok(memory) = memory {
            destroy_object(free, device, memory, NONE);
        }
    }
    // What was refused the program was never asked for.
    assert_eq!(own.calls.len(), 2 * created);
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

#[test]
fn ly52_what_malloc_gave_and_callbacks_free_is_reported_and_not_freed() {
    let test = "ly52_what_malloc_gave_and_callbacks_free_is_reported_and_not_freed";
    // Ours, the program's, and those of a guard, with a checker and without.
    for guard in ["", "cookie", "strict"] {
        let settings = [("GUARD", guard), ("FAKE_DRIVER_FREES_MALLOC", "1")];
        let Some(report) = report_of(test, &settings, create_a_buffer_each) else {
            return;
        };
        let findings = report["findings"].as_array().expect("findings");
        let count = |kind: &str, command: &str, owner: &str| -> u64 {
            let rows =
                findings.iter().filter(|row| row["kind"] == kind && row["command"] == command && row["owner"] == owner);
            rows.map(|row| row["count"].as_u64().expect("a number")).sum()
        };
        for kind in ["FreedUnknown", "ReallocatedUnknown"] {
            assert_eq!(count(kind, "vkCreateInstance", "VkInstance"), 1, "{report}");
            assert_eq!(count(kind, "vkCreateDevice", "VkDevice"), 1, "{report}");
            assert_eq!(count(kind, "vkCreateBuffer", "VkBuffer"), 2, "{report}");
        }
        // And nothing else. Ours and the program's are two owners.
        assert_eq!(findings.len(), 8, "{report}");
    }
}

fn create_a_buffer_each() {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let function = |name| layer.of_device(device, name).expect("a hook");
    let (create, destroy) = (function(c"vkCreateBuffer"), function(c"vkDestroyBuffer"));
    let mut own = OwnCallbacks::default();
    let raw = own.raw();
    for callbacks in [NONE, &raw const raw] {
        let buffer = create_object(create, device, callbacks).expect("a buffer");
        destroy_object(destroy, device, buffer, callbacks);
    }
    // The program's callbacks never saw the pointer.
    assert_eq!(own.calls.len(), 2);
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

/// Two sets of one user data and the same three functions, of which the second one is notified as well.
#[test]
fn ly14_a_second_set_of_callbacks_hears_its_notifications_with_and_without_faults() {
    static NOTIFIED: AtomicU64 = AtomicU64::new(0);
    unsafe extern "system" fn notified(
        _: *mut c_void,
        _: usize,
        _: vk_callbacks::raw::RawInternalType,
        _: vk_callbacks::raw::RawScope,
    ) {
        NOTIFIED.fetch_add(1, Ordering::Relaxed);
    }
    let test = "ly14_a_second_set_of_callbacks_hears_its_notifications_with_and_without_faults";
    for fail_application in ["false", "true"] {
        let settings = [("FAIL", "nth=1000000"), ("FAIL_APPLICATION", fail_application)];
        let report = report_of(test, &settings, || {
            let layer = Layer::new();
            let instance = layer.create_instance(NONE).expect("an instance");
            let mut own = OwnCallbacks::default();
            let first = own.raw();
            let second =
                RawCallbacks { pfn_internal_allocation: Some(notified), pfn_internal_free: Some(notified), ..first };
            for raw in [first, second] {
                let device = layer.create_device(instance, &raw const raw).expect("a device");
                let passed = device_callbacks().expect("callbacks");
                if let Some(notify) = passed.pfn_internal_allocation {
                    // SAFETY: as a driver, of a device that lives.
                    unsafe { notify(passed.p_user_data, 64, 0, 3) };
                }
                layer.destroy_device(device, &raw const raw);
            }
            assert_eq!(NOTIFIED.load(Ordering::Relaxed), 1);
            layer.destroy_instance(instance, NONE);
        });
        if report.is_none() {
            return;
        }
    }
}
