//! Device memory that the driver itself allocates, over the fake driver, which reports it where `FAKE_DRIVER_REPORTS`
//! is set.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr;

use serde_json::Value;
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{CreateInfo, LINK, Layer, LinkInfo, ReportEvent, create_object, destroy_object, looked_up};

const NONE: *const RawCallbacks = ptr::null();

thread_local! {
    /// Events that the program's own callback got.
    static OWN_EVENTS: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "system" fn own_callback(_: *const ReportEvent, user_data: *mut c_void) {
    assert_eq!(user_data.addr(), 77);
    OWN_EVENTS.set(OWN_EVENTS.get() + 1);
}

/// `VkDeviceDeviceMemoryReportCreateInfoEXT` and the struct of the feature, which ends earlier.
#[repr(C)]
struct ChainedReport {
    s_type: i32,
    p_next: *const c_void,
    word: u32,
    callback: unsafe extern "system" fn(*const ReportEvent, *mut c_void),
    user_data: *mut c_void,
}

fn report(s_type: i32, p_next: *const c_void, word: u32) -> ChainedReport {
    ChainedReport { s_type, p_next, word, callback: own_callback, user_data: ptr::without_provenance_mut(77) }
}

/// With a callback of the program, whose chain says this of the feature, or without.
fn create_a_buffer(feature: Option<u32>) {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    looked_up();
    let mut link = LinkInfo::new(48, &LINK);
    let mut info = CreateInfo::new(&mut link);
    let feature = feature.map(|on| report(1_000_284_000, info.p_next, on));
    let own = feature.as_ref().map(|feature| report(1_000_284_001, ptr::from_ref(feature).cast(), 0));
    if let Some(own) = &own {
        info.p_next = ptr::from_ref(own).cast();
    }
    let device = layer.create_device_with(instance, &info, NONE).expect("a device");
    // What the layer asks the physical device is found already: later look-ups lead to the first layer.
    let late = looked_up();
    let late = late.iter().filter(|(name, _)| name != "vkCreateDevice");
    assert_eq!(late.count(), 0);
    let function = |name: &CStr| layer.of_device(device, name).expect("a hook");
    let (create, destroy) = (function(c"vkCreateBuffer"), function(c"vkDestroyBuffer"));
    let first = create_object(create, device, NONE).expect("a buffer");
    // This one is left.
    create_object(create, device, NONE).expect("a buffer");
    destroy_object(destroy, device, first, NONE);
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

#[test]
fn ly53_what_the_driver_allocates_of_device_memory_is_counted_if_asked_for() {
    let test = "ly53_what_the_driver_allocates_of_device_memory_is_counted_if_asked_for";
    if Child::is_child(test) {
        let feature = std::env::var("STEWARD_TEST_FEATURE").ok();
        let feature = feature.map(|text| text.parse().expect("a number"));
        create_a_buffer(feature);
        // As without the layer: its own callback, where its own struct has the feature.
        let is_offered = std::env::var_os("FAKE_DRIVER_REPORTS").is_some();
        let own = u32::from(is_offered) * 4 * u32::from(feature == Some(1));
        return assert_eq!(OWN_EVENTS.get(), own);
    }
    // Asked for, offered, what the program says of the feature, and whether anything is counted.
    for (asked, offered, feature, is_counted) in [
        ("true", "1", "", true),
        ("true", "1", "1", true),
        ("true", "1", "0", false),
        ("true", "", "", false),
        ("false", "1", "1", false),
        ("false", "1", "", false),
    ] {
        let case = (asked, offered, feature);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("report.json");
        let mut child =
            Child::this_test(test).env("VK_STEWARD_MEMORY_JSON", &file).env("VK_STEWARD_MEMORY_MEMORY_REPORT", asked);
        for (name, value) in [("FAKE_DRIVER_REPORTS", offered), ("STEWARD_TEST_FEATURE", feature)] {
            child = if value.is_empty() { child.env_remove(name) } else { child.env(name, value) };
        }
        let ran = child.run();
        ran.assert_code(0);
        let is_said = ran.stderr.contains("memory_report: what the driver");
        assert_eq!(is_said, asked == "true" && !is_counted, "{case:?}: {ran}");
        let report = std::fs::read(&file).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        let rows = &report["vulkan_memory"][0]["driver"]["kinds"];
        if !is_counted {
            let none = [Value::Null, Value::Array(Vec::new())];
            assert!(none.contains(rows), "{case:?}: {rows}");
            continue;
        }
        // Two buffers of 1000 bytes, and what was refused when the device was created.
        let row = |kind: &str| {
            let rows = rows.as_array().expect("rows");
            let row = rows.iter().find(|row| row[0] == kind);
            let row = row.unwrap_or_else(|| panic!("{kind} in {rows:?}"));
            let numbers = ["live_bytes", "peak_bytes", "total_bytes", "total_blocks", "refusals"];
            numbers.map(|name| row[1][name].as_u64().expect("a number"))
        };
        assert_eq!(row("VkBuffer"), [1000, 2000, 2000, 2, 0], "{case:?}");
        assert_eq!(row("VkImage"), [0, 0, 0, 0, 1], "{case:?}");
    }
}
