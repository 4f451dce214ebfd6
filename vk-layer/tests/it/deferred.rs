//! Commands that create several objects, at once or later, over a driver that is made up.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;

use serde_json::{Value, json};
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{self, BinaryList, Layer, VoidFunction, destroy_object};
use crate::judging::{OwnCallbacks, of_device, report_of};

const NONE: *const RawCallbacks = ptr::null();
type Handle = *mut c_void;

/// Creates three pipelines, of which the second fails, and destroys the others, with these callbacks and in this way.
fn pipelines(device: Handle, layer: &Layer, callbacks: *const RawCallbacks, way: Way) {
    type Create = unsafe extern "system" fn(Handle, u64, u64, u32, *const c_void, *const RawCallbacks, *mut u64) -> i32;
    type CreateOperation = unsafe extern "system" fn(Handle, *const RawCallbacks, *mut u64) -> i32;
    type OnOperation = unsafe extern "system" fn(Handle, u64) -> i32;
    let function = |name| layer.of_device(device, name).expect("the driver has it");
    let on_operation = |name| {
        // SAFETY: the command has this signature.
        unsafe { transmute::<VoidFunction, OnOperation>(function(name)) }
    };
    let create = function(c"vkCreateRayTracingPipelinesKHR");
    // SAFETY: the command has this signature.
    let create = unsafe { transmute::<VoidFunction, Create>(create) };
    let create_operation = function(c"vkCreateDeferredOperationKHR");
    // SAFETY: the command has this signature.
    let create_operation = unsafe { transmute::<VoidFunction, CreateOperation>(create_operation) };
    let join = on_operation(c"vkDeferredOperationJoinKHR");
    let result = on_operation(c"vkGetDeferredOperationResultKHR");
    let (mut operation, mut pipelines) = (0, vec![0; 3]);
    if way != Way::AtOnce {
        // SAFETY: a live device, and room for a handle.
        let result = unsafe { create_operation(device, NONE, &raw mut operation) };
        assert_eq!(result, 0);
    }
    // SAFETY: a live device, room for three, and callbacks that outlive all.
    let created = unsafe { create(device, operation, 0, 3, ptr::null(), callbacks, pipelines.as_mut_ptr()) };
    if way == Way::AtOnce {
        assert_eq!(created, -1, "the driver's answer comes through");
    } else if way == Way::Polled {
        let concurrency = on_operation(c"vkGetDeferredOperationMaxConcurrencyKHR");
        // SAFETY: a live device and operation.
        assert_eq!(unsafe { concurrency(device, operation) }, 1);
        assert_eq!(pipelines, [0; 3]);
        // As a thread of the driver's own: the layer sees nothing of it.
        for expected in [1_000_268_001, 0] {
            // SAFETY: a live device and operation.
            assert_eq!(unsafe { driver::join(device, operation) }, expected);
        }
        // SAFETY: a live device and operation.
        assert_eq!(unsafe { concurrency(device, operation) }, 0);
    } else {
        assert_eq!(created, 1_000_268_002);
        // SAFETY: a live device and operation.
        assert_eq!(unsafe { result(device, operation) }, 1);
        // SAFETY: a live device and operation.
        assert_eq!(unsafe { join(device, operation) }, 1_000_268_001);
        assert_eq!(pipelines, [0; 3]);
        for _ in 0..2 {
            // SAFETY: a live device and operation.
            assert_eq!(unsafe { join(device, operation) }, 0);
            // SAFETY: a live device and operation.
            assert_eq!(unsafe { result(device, operation) }, 0);
        }
    }
    assert_eq!(pipelines[1], 0);
    let mut created = vec![pipelines[0], pipelines[2]];
    // The array is not read once the operation is known to be done.
    pipelines.fill(u64::MAX);
    if way == Way::Polled {
        // SAFETY: a live device and operation.
        assert_eq!(unsafe { result(device, operation) }, 0);
    }
    if way == Way::UsedAgain {
        let mut more = [0; 3];
        let at = more.as_mut_ptr();
        // SAFETY: a live device; the operation is done, and may be used again.
        let result = unsafe { create(device, operation, 0, 3, ptr::null(), callbacks, at) };
        assert_eq!(result, 1_000_268_002);
        for expected in [1_000_268_001, 0] {
            // SAFETY: a live device and operation.
            assert_eq!(unsafe { join(device, operation) }, expected);
        }
        created.extend([more[0], more[2]]);
    }
    if way != Way::AtOnce {
        destroy_object(function(c"vkDestroyDeferredOperationKHR"), device, operation, NONE);
    }
    if way != Way::LeftAlive {
        for pipeline in created {
            destroy_object(function(c"vkDestroyPipeline"), device, pipeline, callbacks);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    AtOnce,
    Deferred,
    /// Deferred; the program queries how many threads may join until none may.
    Polled,
    /// Deferred, and the same again with the operation, which is not destroyed in between.
    UsedAgain,
    /// Deferred, and the pipelines stay.
    LeftAlive,
}

/// The report of two times three pipelines: with callbacks of the program, and without.
fn report(test: &str, way: Way) -> Option<Value> {
    report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let mut own = OwnCallbacks::default();
        let raw = own.raw();
        pipelines(device, &layer, &raw const raw, way);
        pipelines(device, &layer, NONE, way);
        let frees = own.calls.iter().filter(|call| call.0 == "free").count();
        let expected = match way {
            Way::LeftAlive => (2, 0),
            Way::UsedAgain => (4, 4),
            _ => (2, 2),
        };
        assert_eq!((own.calls.len() - frees, frees), expected);
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    })
}

fn assert_row(row: &Value, numbers: [(&str, u64); 4]) {
    for (name, expected) in numbers {
        assert_eq!(row[name], expected, "{name} of {row}");
    }
}

#[test]
fn ly16_each_object_of_a_command_that_failed_in_part_counts() {
    let test = "ly16_each_object_of_a_command_that_failed_in_part_counts";
    let Some(report) = report(test, Way::AtOnce) else {
        return;
    };
    assert_row(
        of_device(&report, "VkPipeline"),
        [("objects_created", 4), ("objects_alive", 0), ("total_blocks", 4), ("live_blocks", 0)],
    );
    // The driver reports refused memory, though none was refused.
    assert!(!report["findings"].to_string().contains("violation"));
}

#[test]
fn ly16_what_a_refused_command_did_not_write_is_no_object() {
    type Create = unsafe extern "system" fn(Handle, u64, u32, *const c_void, *const RawCallbacks, *mut u64) -> i32;
    let test = "ly16_what_a_refused_command_did_not_write_is_no_object";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let create = layer.of_device(device, c"vkCreateComputePipelines");
        // SAFETY: the command has this signature.
        let create = unsafe { transmute::<VoidFunction, Create>(create.expect("it is there")) };
        // What stands in memory that the program has not written.
        let mut pipelines = [0x7f00_dead_beef_u64, u64::MAX];
        let at = pipelines.as_mut_ptr();
        // SAFETY: a live device, and room for two.
        let result = unsafe { create(device, 0, 2, ptr::null(), NONE, at) };
        assert_eq!(result, driver::VALIDATION_FAILED, "the driver's answer comes through");
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let kinds = report["program"]["instances"][0]["devices"][0]["kinds"].as_array();
    let mut kinds = kinds.expect("rows").iter();
    assert!(kinds.all(|row| row["kind"] != "VkPipeline"), "{report}");
    assert_eq!(report["findings"], json!([]), "{report}");
}

#[test]
fn ly16_each_object_of_a_list_counts() {
    type Create = unsafe extern "system" fn(Handle, *const c_void, *const RawCallbacks, *mut BinaryList) -> i32;
    let test = "ly16_each_object_of_a_list_counts";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let function = |name| layer.of_device(device, name).expect("the driver has it");
        let create = function(c"vkCreatePipelineBinariesKHR");
        // SAFETY: the command has this signature.
        let create = unsafe { transmute::<VoidFunction, Create>(create) };
        let mut binaries = [0; 2];
        let mut list =
            BinaryList { s_type: 1_000_483_003, p_next: ptr::null(), count: 2, handles: binaries.as_mut_ptr() };
        // SAFETY: a live device, and room for two.
        let result = unsafe { create(device, ptr::null(), NONE, &raw mut list) };
        assert_eq!(result, 0);
        for binary in binaries {
            destroy_object(function(c"vkDestroyPipelineBinaryKHR"), device, binary, NONE);
        }
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    assert_row(
        of_device(&report, "VkPipelineBinaryKHR"),
        [("objects_created", 2), ("objects_alive", 0), ("total_blocks", 2), ("live_blocks", 0)],
    );
    assert_eq!(report["findings"], json!([]), "{report}");
}

#[test]
fn ly16_what_is_deferred_counts_when_it_is_done_and_is_watched_until_then() {
    let test = "ly16_what_is_deferred_counts_when_it_is_done_and_is_watched_until_then";
    assert_deferred_counts(test, Way::Deferred);
}

#[test]
fn ly16_what_is_deferred_is_known_to_be_done_where_nobody_may_join_any_more() {
    let test = "ly16_what_is_deferred_is_known_to_be_done_where_nobody_may_join_any_more";
    assert_deferred_counts(test, Way::Polled);
}

fn assert_deferred_counts(test: &str, way: Way) {
    let Some(report) = report(test, way) else {
        return;
    };
    assert_row(
        of_device(&report, "VkPipeline"),
        [("objects_created", 4), ("objects_alive", 0), ("total_blocks", 4), ("live_blocks", 0)],
    );
    // The checker suspects a driver that works outside of commands.
    if way != Way::Polled {
        assert_eq!(report["findings"], json!([]), "{report}");
    }
}

#[test]
fn ly16_an_operation_that_is_used_again_counts_the_new_objects() {
    let test = "ly16_an_operation_that_is_used_again_counts_the_new_objects";
    let Some(report) = report(test, Way::UsedAgain) else {
        return;
    };
    assert_row(
        of_device(&report, "VkPipeline"),
        [("objects_created", 8), ("objects_alive", 0), ("total_blocks", 8), ("live_blocks", 0)],
    );
    assert_eq!(report["findings"], json!([]), "{report}");
}

#[test]
fn ly16_deferred_objects_that_are_left_are_said() {
    let test = "ly16_deferred_objects_that_are_left_are_said";
    let Some(report) = report(test, Way::LeftAlive) else {
        return;
    };
    assert_row(
        of_device(&report, "VkPipeline"),
        [("objects_created", 4), ("objects_alive", 4), ("total_blocks", 4), ("live_blocks", 4)],
    );
    let findings = report["findings"].as_array().expect("findings");
    let left: Vec<_> = findings.iter().map(|finding| (finding["kind"].as_str(), finding["owner"].as_str())).collect();
    assert_eq!(left, [(Some("LiveAtEnd"), Some("VkPipeline")); 2], "{report}");
}
