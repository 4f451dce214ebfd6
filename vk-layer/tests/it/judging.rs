//! What the layer judges and counts of a program, and what it refuses on purpose, in child processes: each writes a
//! report.

use std::alloc::System;
use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
use serde_json::{Value, json};
use testkit::Child;
use vk_callbacks::Bridge;
use vk_callbacks::raw::{RawCallbacks, RawScope};

use crate::driver::{Layer, VoidFunction, create_object, create_without_table, destroy_object, seen};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
const NONE: *const RawCallbacks = ptr::null();
type Handle = *mut c_void;

/// The report of this test's `body`, which runs in a child with these settings.
pub(crate) fn report_of(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) -> Option<Value> {
    if Child::is_child(test) {
        body();
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let mut child = Child::this_test(test).env("VK_STEWARD_MEMORY_JSON", &file);
    for (name, value) in settings {
        let ours = !name.starts_with("FAKE");
        let prefix = if ours { "VK_STEWARD_MEMORY_" } else { "" };
        child = child.env(&format!("{prefix}{name}"), value);
    }
    child.run().assert_code(0);
    let report = std::fs::read(file).expect("a report");
    Some(serde_json::from_slice(&report).expect("JSON"))
}

/// The row of a kind of object of the one device.
pub(crate) fn of_device<'v>(report: &'v Value, kind: &str) -> &'v Value {
    let kinds = report["program"]["instances"][0]["devices"][0]["kinds"].as_array();
    let mut rows = kinds.expect("rows").iter();
    let row = rows.find(|row| row["kind"] == kind);
    row.unwrap_or_else(|| panic!("{kind} in {report}"))
}

/// Callbacks of one object of the program: what it counts is its own, and it stands on the stack.
#[derive(Default)]
pub(crate) struct OwnCallbacks {
    pub(crate) calls: Vec<(&'static str, usize, usize, RawScope, usize)>,
}

impl OwnCallbacks {
    pub(crate) fn raw(&mut self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_mut(self).cast(),
            pfn_allocation: Some(allocation),
            pfn_reallocation: Some(reallocation),
            pfn_free: Some(free),
            pfn_internal_allocation: None,
            pfn_internal_free: None,
        }
    }
}

unsafe extern "system" fn allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    // SAFETY: the user data of `raw`; one thread calls.
    let own = unsafe { &mut *user_data.cast::<OwnCallbacks>() };
    let block = Box::into_raw(Box::new([0_u64; 4])).cast::<c_void>();
    own.calls.push(("allocation", size, align, scope, block.addr()));
    block
}

unsafe extern "system" fn reallocation(_: *mut c_void, _: *mut c_void, _: usize, _: usize, _: RawScope) -> *mut c_void {
    ptr::null_mut()
}

unsafe extern "system" fn free(user_data: *mut c_void, block: *mut c_void) {
    // SAFETY: as in `allocation`.
    let own = unsafe { &mut *user_data.cast::<OwnCallbacks>() };
    own.calls.push(("free", 0, 0, 0, block.addr()));
    // SAFETY: from `allocation`.
    drop(unsafe { Box::from_raw(block.cast::<[u64; 4]>()) });
}

#[test]
fn ly14_callbacks_of_the_program_are_called_as_without_the_layer_and_counted() {
    let test = "ly14_callbacks_of_the_program_are_called_as_without_the_layer_and_counted";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
        let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
        let mut own = OwnCallbacks::default();
        let raw = own.raw();
        let buffer = create_object(create, device, &raw const raw).expect("a buffer");
        destroy_object(destroy, device, buffer, &raw const raw);
        // 32 bytes, aligned to 8, of scope object: what the driver asks for, and the address that it gets.
        let at = usize::try_from(buffer).expect("an address");
        let expected = [("allocation", 32, 8, 1, at), ("free", 0, 0, 0, at)];
        assert_eq!(own.calls, expected);
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let device = &report["program"]["instances"][0]["devices"][0];
    let expected = "fake, driver 1.2.3 of vendor 0x7, Vulkan 1.2.3";
    assert_eq!(device["description"], expected, "{device}");
    let row = of_device(&report, "VkBuffer");
    for (what, expected) in [
        ("live_blocks", 0),
        ("peak_bytes", 32),
        ("total_bytes", 32),
        ("total_blocks", 1),
        ("objects_created", 1),
        ("objects_alive", 0),
        ("foreign_commands", 2),
    ] {
        assert_eq!(row[what], expected, "{what} of {row}");
    }
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn ly15_each_object_may_bring_its_own_user_data_in_a_struct_that_is_gone() {
    const OBJECTS: usize = 5000;
    let test = "ly15_each_object_may_bring_its_own_user_data_in_a_struct_that_is_gone";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
        let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
        let mut own: Vec<_> = (0..OBJECTS).map(|_| OwnCallbacks::default()).collect();
        let buffers: Vec<_> = own
            .iter_mut()
            .map(|own| {
                let mut on_the_stack = own.raw();
                let buffer = create_object(create, device, &raw const on_the_stack);
                on_the_stack.pfn_free = None;
                on_the_stack.p_user_data = ptr::null_mut();
                buffer.expect("a buffer")
            })
            .collect();
        for (own, buffer) in own.iter_mut().zip(buffers) {
            // Another struct with the same content.
            let raw = own.raw();
            destroy_object(destroy, device, buffer, &raw const raw);
        }
        assert!(own.iter().all(|own| own.calls.len() == 2));
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
        seen();
    }) else {
        return;
    };
    let row = of_device(&report, "VkBuffer");
    assert_eq!(row["total_blocks"], OBJECTS, "{row}");
    assert_eq!(row["peak_bytes"], OBJECTS * 32, "{row}");
    assert_eq!(row["live_blocks"], 0, "{row}");
    assert_eq!(report["findings"], json!([]));
    assert_eq!(report["program"]["check"]["unchecked_kinds"], 0);
}

#[test]
fn ly13_what_the_layer_cannot_register_is_destroyed_as_it_was_created() {
    let test = "ly13_what_the_layer_cannot_register_is_destroyed_as_it_was_created";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let mut own = OwnCallbacks::default();
        let raw = own.raw();
        let instance = layer.create_instance(NONE).expect("an instance");
        seen();
        create_without_table(true);
        for callbacks in [NONE, &raw const raw] {
            for (create, destroy, is_device) in
                [("vkCreateInstance", "vkDestroyInstance", false), ("vkCreateDevice", "vkDestroyDevice", true)]
            {
                let result =
                    if is_device { layer.create_device(instance, callbacks) } else { layer.create_instance(callbacks) };
                assert_eq!(result, Err(-1), "{create}");
                let seen = seen();
                let names: Vec<_> = seen.iter().map(|seen| seen.command).collect();
                assert_eq!(names, [create, destroy]);
                // The driver frees through what it allocated through: ours, or those that watch the program's.
                assert!(seen[0].user_data.is_some());
                assert_eq!(seen[0].user_data, seen[1].user_data, "{create}");
            }
        }
        let calls: Vec<_> = own.calls.iter().map(|call| call.0).collect();
        assert_eq!(calls, ["allocation", "free", "allocation", "free"]);
        create_without_table(false);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let instances = report["program"]["instances"].to_string();
    assert!(instances.contains("\"total_blocks\":1"), "{report}");
    assert!(!instances.contains("\"live_blocks\":1"), "{report}");
    assert_eq!(report["findings"], json!([]), "{report}");
}

#[test]
fn ly20_bound_blocks_and_mapped_ranges_are_counted() {
    type Bind = unsafe extern "system" fn(Handle, u32, *const [u64; 5]) -> i32;
    type Map = unsafe extern "system" fn(Handle, u64, u64, u64, u32, *mut Handle) -> i32;
    type Unmap = unsafe extern "system" fn(Handle, u64);
    const WHOLE: u64 = u64::MAX;
    let test = "ly20_bound_blocks_and_mapped_ranges_are_counted";
    let Some(report) = report_of(test, &[("CHECK", "false")], || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let function = |name| layer.of_device(device, name).expect("the driver has it");
        // SAFETY: the command has this signature.
        let bind = unsafe { transmute::<VoidFunction, Bind>(function(c"vkBindBufferMemory2")) };
        // SAFETY: the command has this signature.
        let map = unsafe { transmute::<VoidFunction, Map>(function(c"vkMapMemory")) };
        // SAFETY: the command has this signature.
        let unmap = unsafe { transmute::<VoidFunction, Unmap>(function(c"vkUnmapMemory")) };
        let allocate = function(c"vkAllocateMemory");
        // 4096 bytes each.
        let blocks = [(); 4].map(|()| create_object(allocate, device, NONE).expect("memory"));
        let infos = blocks.map(|block| [1_000_157_000, 0, 7, block, 0]);
        // The first one twice, the second once; where it is refused, nothing is bound.
        for (from, count, result) in [(0, 2, 0), (0, 1, 0), (1, 3, -2)] {
            // SAFETY: a live device, and so many infos.
            let bound = unsafe { bind(device, count, &raw const infos[from]) };
            assert_eq!(bound, result);
        }
        let map = |block, offset, size| {
            // SAFETY: a live device and block.
            let result = unsafe { map(device, block, offset, size, 0, &mut ptr::null_mut()) };
            assert_eq!(result, 0);
        };
        map(blocks[0], 1024, WHOLE);
        map(blocks[1], 0, 100);
        // SAFETY: a live device, and a block that is mapped.
        unsafe { unmap(device, blocks[0]) };
        map(blocks[2], 4000, WHOLE);
        let free = function(c"vkFreeMemory");
        // Two of them are mapped still, and one of those is bound. The first block stays.
        for block in &blocks[1..] {
            destroy_object(free, device, *block, NONE);
        }
        map(blocks[0], 0, WHOLE);
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let uses = &report["vulkan_memory"][0]["uses"];
    for (state, live, peak, total, blocks) in
        [("bound", 4096, 8192, 8192, 2), ("mapped", 4096, 4096, 3072 + 100 + 96 + 4096, 4)]
    {
        let row = &uses[state];
        let numbers = ["live_bytes", "peak_bytes", "total_bytes", "total_blocks"];
        let expected = [live, peak, total, blocks];
        assert_eq!(numbers.map(|number| row[number].as_u64()), expected.map(Some), "{row}");
    }
}

#[test]
fn ly28_what_is_left_is_said_once_at_the_end_and_the_driver_not_blamed() {
    let test = "ly28_what_is_left_is_said_once_at_the_end_and_the_driver_not_blamed";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        // The first instance goes as the last one, twice: what the second run leaves is said in its report.
        let instance = layer.create_instance(NONE).expect("an instance");
        layer.destroy_instance(instance, NONE);
        let context = Context::root_static(&SYSTEM, ContextOptions::new("program"));
        let program = Bridge::new(context.expect("memory")).expect("memory");
        let raw = program.raw();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
        create_object(create, device, NONE).expect("a buffer");
        create_object(create, device, &raw const raw).expect("a buffer");
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let findings = report["findings"].as_array().expect("findings");
    let left: Vec<_> = findings
        .iter()
        .filter(|finding| finding["kind"] == "LiveAtEnd")
        .map(|finding| (finding["owner"].as_str(), finding["count"].as_u64()))
        .collect();
    // One of the layer's callbacks and one of the program's.
    assert_eq!(left, [(Some("VkBuffer"), Some(1)); 2], "{report}");
    assert_eq!(findings.len(), 2, "{report}");
    let blames = |finding: &Value| finding["sentence"].to_string().contains("implementation");
    assert!(!findings.iter().any(blames), "{report}");
}

/// Two buffers on a device, one with callbacks of the program.
fn two_buffers() -> [Result<u64, i32>; 2] {
    let layer = Layer::new();
    let mut own = OwnCallbacks::default();
    let raw = own.raw();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
    let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
    let buffers = [&raw const raw, NONE].map(|callbacks| {
        let buffer = create_object(create, device, callbacks);
        if let Ok(buffer) = buffer {
            destroy_object(destroy, device, buffer, callbacks);
        }
        buffer
    });
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
    buffers
}

#[test]
fn ly29_a_guard_reports_what_the_driver_does_to_its_blocks() {
    let test = "ly29_a_guard_reports_what_the_driver_does_to_its_blocks";
    let run = |guard, overflows| {
        let mut settings = vec![("GUARD", guard)];
        settings.extend(Some(("FAKE_DRIVER_OVERFLOWS", "1")).filter(|_| overflows));
        report_of(test, &settings, || {
            let _ = two_buffers();
        })
    };
    let Some(report) = run("cookie", true) else {
        return;
    };
    // An instance, a device and a buffer; the program's own callbacks are not guarded.
    assert_eq!(report["guard"]["reports"], 3, "{report}");
    assert_eq!(report["guard"]["mode"], "cookie");
    let owners = report["guard"]["told"].as_array().expect("reports");
    let owners: Vec<_> = owners.iter().map(|told| told["owner"].as_str()).collect();
    assert_eq!(owners, [Some("VkBuffer"), Some("VkDevice"), Some("VkInstance")]);
    for guard in ["fence", "strict", "cookie", "sampled=1"] {
        let report = run(guard, false).expect("a report");
        assert_eq!(report["guard"]["reports"], 0, "{guard}: {report}");
        assert_eq!(report["guard"]["callback_blocks"], 3, "{guard}: {report}");
        assert_eq!(report["findings"], json!([]), "{guard}");
    }
    // A word that is none is said, and nothing is guarded.
    let report = run("fenced", false).expect("a report");
    assert_eq!(report["guard"], Value::Null);
}

#[test]
fn ly30_faults_strike_what_the_driver_asks_for_and_nothing_of_the_program_or_ours() {
    let test = "ly30_faults_strike_what_the_driver_asks_for_and_nothing_of_the_program_or_ours";
    // The instance's request, the device's, and then the buffer's: that of the program's callbacks is not among them.
    let Some(report) = report_of(test, &[("FAIL", "nth=2")], || {
        let [with_own, without] = two_buffers();
        assert!(with_own.is_ok() && without == Err(-1), "{without:?}");
    }) else {
        return;
    };
    let fail = &report["fail"];
    assert_eq!((&fail["refused"], &fail["requests"]), (&json!(1), &json!(3)));
    assert_eq!(fail["first"][0]["command"], "vkCreateBuffer");
    assert_eq!(report["findings"], json!([]));
}
