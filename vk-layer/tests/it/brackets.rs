//! Brackets around commands without a `pAllocator`, over a driver that is made up, in child processes with the setting.

use std::env;
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr;

use serde_json::{Value, json};
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{Layer, VoidFunction, arguments, create_object, destroy_object, draw, unknown};
use crate::judging::report_of;

const NONE: *const RawCallbacks = ptr::null();
type Handle = *mut c_void;

/// Commands of a device. The device stands for its queue and command buffers: all begin with the same word.
fn with_device(body: impl FnOnce(&Layer, Handle)) {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    body(&layer, device);
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

fn function(layer: &Layer, device: Handle, name: &CStr) -> VoidFunction {
    layer.of_device(device, name).expect("the driver has it")
}

/// Calls a command that has its handle alone.
fn call(function: VoidFunction, handle: Handle) -> i32 {
    type Function = unsafe extern "system" fn(Handle) -> i32;
    // SAFETY: the command has this signature, or answers with nothing.
    let function = unsafe { transmute::<VoidFunction, Function>(function) };
    // SAFETY: a live handle.
    unsafe { function(handle) }
}

/// Draws, which allocates for the pool; resets the pool, which does too; and waits, where a thread of the driver frees.
fn use_device(layer: &Layer, device: Handle) {
    type Reset = unsafe extern "system" fn(Handle, u64, u32) -> i32;
    let create = function(layer, device, c"vkCreateCommandPool");
    let pool = create_object(create, device, NONE).expect("a pool");
    let drawn = function(layer, device, c"vkCmdDraw");
    let is_all = env::var_os("VK_STEWARD_MEMORY_BRACKETS").is_some_and(|set| set == "all");
    let is_hooked = drawn as usize != draw as *const () as usize;
    assert_eq!(is_hooked, is_all, "recording is hooked on demand alone");
    call(drawn, device);
    let reset = function(layer, device, c"vkResetCommandPool");
    // SAFETY: the command has this signature.
    let reset = unsafe { transmute::<VoidFunction, Reset>(reset) };
    // SAFETY: a live device and pool.
    assert_eq!(unsafe { reset(device, pool, 7) }, 0);
    assert_eq!(arguments(), [pool, 7]);
    let waited = call(function(layer, device, c"vkDeviceWaitIdle"), device);
    assert_eq!(waited, -4, "the driver's answer comes through");
    let destroy = function(layer, device, c"vkDestroyCommandPool");
    destroy_object(destroy, device, pool, NONE);
}

fn kinds(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    let kinds = findings.iter().map(|finding| finding["kind"].as_str());
    kinds.map(|kind| kind.expect("a word")).collect()
}

#[test]
fn ly25_what_the_drivers_threads_do_is_a_finding_and_what_recording_allocates_is_none() {
    let test = "ly25_what_the_drivers_threads_do_is_a_finding_and_what_recording_allocates_is_none";
    let foreign = ["AskedOnForeignThread", "FreedOnForeignThread"];
    for (brackets, expected, dropped) in [
        // As without the setting.
        ("", &foreign[..], 0),
        ("some", &foreign[..], 0),
        ("all", &foreign[..], 0),
        // Of drawing, resetting and the thread: two each.
        ("none", &[][..], 6),
    ] {
        let report = report_of(test, &[("BRACKETS", brackets)], || with_device(use_device));
        let Some(report) = report else { return };
        assert_eq!(kinds(&report), expected, "{brackets}: {report}");
        assert_eq!(report["program"]["check"]["between_commands"], dropped, "{brackets}");
        let level = &report["findings"][0]["level"];
        assert_eq!(*level == "violation", brackets == "all", "{brackets}: {report}");
    }
}

#[test]
fn ly26_every_parameter_reaches_the_driver_whatever_the_command() {
    type Trace =
        unsafe extern "system" fn(Handle, u64, u32, u64, u32, u64, u64, u32, u64, u64, u32, u64, u32, u32, u32);
    type Bias = unsafe extern "system" fn(Handle, f32, f32, f32);
    const FAR: u64 = u64::MAX - 5;
    let test = "ly26_every_parameter_reaches_the_driver_whatever_the_command";
    let report = report_of(test, &[("BRACKETS", "all")], || {
        with_device(|layer, device| {
            let trace = function(layer, device, c"vkCmdTraceRaysNV");
            // SAFETY: the command has this signature.
            let trace = unsafe { transmute::<VoidFunction, Trace>(trace) };
            // SAFETY: a live handle.
            unsafe { trace(device, FAR, 2, 3, 4, FAR, 6, 7, 8, FAR, 10, FAR, 12, 13, 14) };
            let expected = [FAR, 2, 3, 4, FAR, 6, 7, 8, FAR, 10, FAR, 12, 13, 14];
            assert_eq!(arguments(), expected);
            let bias = function(layer, device, c"vkCmdSetDepthBias");
            // SAFETY: the command has this signature.
            let bias = unsafe { transmute::<VoidFunction, Bias>(bias) };
            // SAFETY: a live handle.
            unsafe { bias(device, 1.5, -2.25, 3.0e30) };
            let expected = [1.5_f32, -2.25, 3.0e30].map(|float| u64::from(float.to_bits()));
            assert_eq!(arguments(), expected);
        });
    });
    let Some(report) = report else { return };
    assert_eq!(report["findings"], json!([]));
    assert_eq!(report["program"]["check"]["without_brackets"], json!([]));
}

#[test]
fn ly17_a_command_that_nobody_knows_is_not_hooked_and_is_named() {
    let test = "ly17_a_command_that_nobody_knows_is_not_hooked_and_is_named";
    let report = report_of(test, &[("BRACKETS", "all")], || {
        with_device(|layer, device| {
            for _ in 0..2 {
                let found = function(layer, device, c"vkFrobnicateEXT");
                assert_eq!(found as usize, unknown as *const () as usize);
            }
            assert!(layer.of_device(device, c"vkFrobnicateTwiceEXT").is_none());
            use_device(layer, device);
        });
    });
    let Some(report) = report else { return };
    let check = &report["program"]["check"];
    assert_eq!(check["without_brackets"], json!(["vkFrobnicateEXT"]));
    // What comes outside of brackets may come from it.
    assert_eq!(report["findings"], json!([]));
    assert_eq!(check["between_commands"], 2);
}
