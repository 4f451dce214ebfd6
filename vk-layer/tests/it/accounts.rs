//! Whose objects are counted where, what the layer keeps of them, and what it holds meanwhile.

use std::ffi::c_void;
use std::sync::Mutex;
use std::{ptr, thread};

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
use serde_json::{Value, json};
use vk_callbacks::Bridge;
use vk_callbacks::raw::{RawCallbacks, RawScope};

use crate::driver::{Layer, create_object, create_with_table_of, destroy_object, do_meanwhile, seen};
use crate::judging::{of_device, report_of};
use crate::system::resident_kilobytes;

const NONE: *const RawCallbacks = ptr::null();
type Handle = *mut c_void;

/// Creates and destroys so many buffers of a device.
fn buffers(layer: &Layer, device: Handle, callbacks: *const RawCallbacks, number: usize) {
    let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
    let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
    for _ in 0..number {
        let buffer = create_object(create, device, callbacks).expect("a buffer");
        destroy_object(destroy, device, buffer, callbacks);
    }
    seen();
}

/// A whole life on another thread, beside this device, whose commands wait for it.
fn live_on_another_thread(device: usize) {
    let other = thread::spawn(move || {
        let layer = Layer::new();
        let device: Handle = ptr::with_exposed_provenance_mut(device);
        buffers(&layer, device, NONE, 3);
        let instance = layer.create_instance(NONE).expect("an instance");
        let own = layer.create_device(instance, NONE).expect("a device");
        buffers(&layer, own, NONE, 3);
        layer.destroy_device(own, NONE);
        layer.destroy_instance(instance, NONE);
    });
    other.join().expect("a thread that ends");
}

/// The device that the allocation below uses on another thread, once.
static DEVICE: Mutex<Option<usize>> = Mutex::new(None);

unsafe extern "system" fn allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let device = DEVICE.lock().expect("nobody panics").take();
    device.into_iter().for_each(live_on_another_thread);
    // SAFETY: the callbacks of a bridge that lives.
    let behind = unsafe { &*user_data.cast::<RawCallbacks>() };
    let allocation = behind.pfn_allocation.expect("a function");
    // SAFETY: the bridge's own user data; size, alignment and scope are a driver's request.
    unsafe { allocation(behind.p_user_data, size, align, scope) }
}

unsafe extern "system" fn free(user_data: *mut c_void, block: *mut c_void) {
    // SAFETY: the callbacks of a bridge that lives.
    let behind = unsafe { &*user_data.cast::<RawCallbacks>() };
    let free = behind.pfn_free.expect("a function");
    // SAFETY: the bridge's own user data, and a block of its.
    unsafe { free(behind.p_user_data, block) };
}

unsafe extern "system" fn reallocation(_: *mut c_void, _: *mut c_void, _: usize, _: usize, _: RawScope) -> *mut c_void {
    ptr::null_mut()
}

/// With a lock held over a command or a callback this would wait for ever.
#[test]
fn ly10_a_driver_and_a_callback_may_wait_for_commands_of_other_threads() {
    let test = "ly10_a_driver_and_a_callback_may_wait_for_commands_of_other_threads";
    for settings in [&[("STACKS", "false")][..], &[("STACKS", "true"), ("GUARD", "cookie")]] {
        let report = report_of(test, settings, || {
            let layer = Layer::new();
            let instance = layer.create_instance(NONE).expect("an instance");
            let device = layer.create_device(instance, NONE).expect("a device");
            let address = device.expose_provenance();
            do_meanwhile(move || live_on_another_thread(address));
            buffers(&layer, device, NONE, 1);
            let options = ContextOptions::new("program");
            let context = Context::root_static(&FromGlobalAlloc::SYSTEM, options);
            let program = Bridge::new(context.expect("memory")).expect("memory");
            let behind = program.raw();
            let raw = RawCallbacks {
                p_user_data: ptr::from_ref(&behind).cast_mut().cast(),
                pfn_allocation: Some(allocation),
                pfn_reallocation: Some(reallocation),
                pfn_free: Some(free),
                pfn_internal_allocation: None,
                pfn_internal_free: None,
            };
            *DEVICE.lock().expect("nobody panics") = Some(address);
            buffers(&layer, device, &raw const raw, 1);
            assert!(DEVICE.lock().expect("nobody panics").is_none());
            layer.destroy_device(device, NONE);
            layer.destroy_instance(instance, NONE);
            program.close().expect("nothing is left");
        });
        let Some(report) = report else { return };
        assert_eq!(report["findings"], json!([]), "{report}");
    }
}

#[test]
fn ly18_each_kind_of_each_device_and_instance_has_an_account() {
    let test = "ly18_each_kind_of_each_device_and_instance_has_an_account";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instances = [(); 2].map(|()| layer.create_instance(NONE).expect("an instance"));
        let mut devices = Vec::new();
        for (instance, numbers) in instances.iter().zip([[1, 2], [3, 4]]) {
            for number in numbers {
                let device = layer.create_device(*instance, NONE).expect("a device");
                buffers(&layer, device, NONE, number);
                devices.push(device);
            }
        }
        for device in devices {
            layer.destroy_device(device, NONE);
        }
        for instance in instances {
            layer.destroy_instance(instance, NONE);
        }
    }) else {
        return;
    };
    // In the order of their creation.
    let number = |rows: &Value, kind: &str| {
        let mut rows = rows.as_array().expect("rows").iter();
        let row = rows.find(|row| row["kind"] == kind);
        row.map(|row| row["objects_created"].as_u64().expect("a number"))
    };
    let instances = report["program"]["instances"].as_array().expect("instances");
    let found: Vec<Vec<_>> = instances
        .iter()
        .map(|instance| {
            assert_eq!(number(&instance["kinds"], "VkInstance"), Some(1));
            assert_eq!(number(&instance["kinds"], "VkBuffer"), None);
            let devices = instance["devices"].as_array().expect("devices");
            let of_device = |device: &Value| {
                assert_eq!(number(&device["kinds"], "VkDevice"), Some(1));
                number(&device["kinds"], "VkBuffer")
            };
            devices.iter().map(of_device).collect()
        })
        .collect();
    assert_eq!(found, [[Some(1), Some(2)], [Some(3), Some(4)]], "{report}");
}

#[test]
fn ly21_what_the_layer_keeps_is_bounded_by_what_lives() {
    const FEW: usize = 3_000;
    const MANY: usize = 30_000;
    let test = "ly21_what_the_layer_keeps_is_bounded_by_what_lives";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        buffers(&layer, device, NONE, FEW);
        let before = resident_kilobytes();
        for _ in 0..MANY / FEW {
            buffers(&layer, device, NONE, FEW);
        }
        let grown = resident_kilobytes().saturating_sub(before);
        assert!(grown <= 1024, "{grown} kB more after {MANY} objects");
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let row = of_device(&report, "VkBuffer");
    assert_eq!(row["objects_created"], FEW + MANY, "{row}");
    assert_eq!(row["live_blocks"], 0, "{row}");
}

/// Each object may bring callbacks of its own (V5). A plan stands in front of them for as long as the object lives.
/// The program frees the memory of none of its devices: each leaves something, and the accounts are bounded all the
/// same.
#[test]
fn ly21_devices_that_leave_something_are_counted_together_after_the_first_64() {
    const DEVICES: u64 = 200;
    let test = "ly21_devices_that_leave_something_are_counted_together_after_the_first_64";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        for _ in 0..DEVICES {
            let device = layer.create_device(instance, NONE).expect("a device");
            let allocate = layer.of_device(device, c"vkAllocateMemory");
            create_object(allocate.expect("a hook"), device, NONE).expect("memory");
            layer.destroy_device(device, NONE);
        }
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let devices = report["program"]["instances"][0]["devices"].as_array();
    let devices = devices.expect("devices");
    assert_eq!(devices.len(), 64);
    let rows = devices.iter().map(|device| {
        let kinds = device["kinds"].as_array().expect("kinds");
        let row = kinds.iter().find(|row| row["kind"] == "VkDeviceMemory");
        row.expect("a row")["objects_alive"].as_u64().expect("a number")
    });
    assert_eq!(rows.sum::<u64>(), DEVICES, "nothing is lost");
}

#[test]
fn ly21_callbacks_of_objects_that_are_gone_take_no_memory_with_faults() {
    const FEW: usize = 3_000;
    const MANY: usize = 30_000;
    unsafe extern "system" fn allocation(_: *mut c_void, size: usize, _: usize, _: RawScope) -> *mut c_void {
        // SAFETY: any size.
        unsafe { libc::malloc(size) }
    }
    unsafe extern "system" fn reallocation(
        _: *mut c_void,
        block: *mut c_void,
        size: usize,
        _: usize,
        _: RawScope,
    ) -> *mut c_void {
        // SAFETY: a block of `allocation`.
        unsafe { libc::realloc(block, size) }
    }
    unsafe extern "system" fn free(_: *mut c_void, block: *mut c_void) {
        // SAFETY: a block of `allocation`.
        unsafe { libc::free(block) }
    }
    let test = "ly21_callbacks_of_objects_that_are_gone_take_no_memory_with_faults";
    let settings = [("FAIL", "nth=100000000"), ("FAIL_APPLICATION", "true")];
    let Some(report) = report_of(test, &settings, || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let mut number = 0;
        let mut some = |count: usize| {
            for _ in 0..count {
                number += 16;
                let raw = RawCallbacks {
                    p_user_data: ptr::without_provenance_mut(number),
                    pfn_allocation: Some(allocation),
                    pfn_reallocation: Some(reallocation),
                    pfn_free: Some(free),
                    pfn_internal_allocation: None,
                    pfn_internal_free: None,
                };
                buffers(&layer, device, &raw const raw, 1);
            }
        };
        some(FEW);
        let before = resident_kilobytes();
        some(MANY);
        let grown = resident_kilobytes().saturating_sub(before);
        assert!(grown <= 1024, "{grown} kB more after {MANY} objects");
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    assert_eq!(report["findings"], json!([]), "{report}");
}

#[test]
fn ly24_one_checker_judges_all_and_can_be_switched_off() {
    let test = "ly24_one_checker_judges_all_and_can_be_switched_off";
    let run = |check| {
        report_of(test, &[("CHECK", check)], || {
            let layer = Layer::new();
            for _ in 0..2 {
                let instance = layer.create_instance(NONE).expect("an instance");
                let device = layer.create_device(instance, NONE).expect("a device");
                let wait = layer.of_device(device, c"vkDeviceWaitIdle").expect("a hook");
                // A thread of the driver's own allocates and frees there.
                // SAFETY: the command has this signature.
                let wait = unsafe {
                    std::mem::transmute::<unsafe extern "system" fn(), unsafe extern "system" fn(Handle) -> i32>(wait)
                };
                // SAFETY: a live device.
                assert_eq!(unsafe { wait(device) }, -4);
                layer.destroy_device(device, NONE);
                layer.destroy_instance(instance, NONE);
            }
        })
    };
    let Some(judged) = run("true") else { return };
    let findings = judged["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 2, "{judged}");
    for finding in findings {
        assert_eq!(finding["count"], 2, "of both instances: {finding}");
        assert!(finding["sentence"].to_string().contains("the implementation"), "{finding}");
    }
    let unjudged = run("false").expect("a report");
    assert_eq!(unjudged["program"]["check"], Value::Null);
    assert_eq!(of_device(&unjudged, "VkDevice")["objects_created"], 2);
}

#[test]
fn ly4_a_device_that_was_left_does_not_answer_for_one_with_its_word() {
    let test = "ly4_a_device_that_was_left_does_not_answer_for_one_with_its_word";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let left = layer.create_device(instance, NONE).expect("a device");
        buffers(&layer, left, NONE, 1);
        create_with_table_of(left);
        let device = layer.create_device(instance, NONE).expect("a device");
        buffers(&layer, device, NONE, 2);
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let devices = report["program"]["instances"][0]["devices"].as_array();
    let mut counted: Vec<_> = devices
        .expect("devices")
        .iter()
        .map(|device| {
            let kinds = device["kinds"].as_array().expect("rows");
            let number = |kind: &str, column: &str| {
                let row = kinds.iter().find(|row| row["kind"] == kind);
                row.and_then(|row| row[column].as_u64())
            };
            (number("VkBuffer", "objects_created"), number("VkDevice", "objects_alive"))
        })
        .collect();
    counted.sort_unstable();
    assert_eq!(counted, [(Some(1), Some(1)), (Some(2), Some(0))], "{report}");
}

#[test]
fn ly22_the_peak_of_all_is_exact_and_less_than_the_sum_of_the_kinds() {
    let test = "ly22_the_peak_of_all_is_exact_and_less_than_the_sum_of_the_kinds";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let function = |name| layer.of_device(device, name).expect("a hook");
        let (create, destroy) = (function(c"vkCreateBuffer"), function(c"vkDestroyBuffer"));
        let (allocate, free) = (function(c"vkAllocateMemory"), function(c"vkFreeMemory"));
        // Each kind has its bridge before either has its peak.
        destroy_object(free, device, create_object(allocate, device, NONE).expect("memory"), NONE);
        for (create, destroy, number) in [(create, destroy, 3), (allocate, free, 5)] {
            let objects: Vec<_> =
                (0..number).map(|_| create_object(create, device, NONE).expect("an object")).collect();
            for object in objects {
                destroy_object(destroy, device, object, NONE);
            }
        }
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    // 48 bytes each: 32, and 16 in front.
    assert_eq!(of_device(&report, "VkBuffer")["peak_bytes"], 3 * 48);
    assert_eq!(of_device(&report, "VkDeviceMemory")["peak_bytes"], 5 * 48);
    let all = |name: &str| report["program"]["all"][name].as_u64().expect("a number");
    // The instance and the device live beside the five.
    assert_eq!(all("peak_bytes"), 7 * 48, "{report}");
    assert_eq!(all("live_bytes"), 0, "{report}");
}
