//! Reports on request, over the fake driver: each with a number of its own.

use std::ffi::c_void;
use std::mem::transmute;
use std::path::Path;
use std::time::Duration;
use std::{env, fs, ptr, thread};

use serde_json::Value;
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{Layer, VoidFunction, create_object, destroy_object};
use crate::system::{report_requests, request_report};

const NONE: *const RawCallbacks = ptr::null();
const JSON: &str = "VK_STEWARD_MEMORY_JSON";

#[test]
fn ly54_reports_of_one_run_lie_beside_each_other() {
    let test = "ly54_reports_of_one_run_lie_beside_each_other";
    if Child::is_child(test) {
        return create_and_request();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (setting, value) = report_requests(folder.path());
    let child = Child::this_test(test)
        .env(JSON, folder.path().join("%n.json"))
        .env(setting, value)
        .env("VK_STEWARD_MEMORY_STACKS", "true");
    child.run().assert_code(0);
    let buffers = |number: u32| alive(&folder.path().join(format!("{number}.json")));
    // At the first request, at the second, and at the end.
    assert_eq!((buffers(1), buffers(2), buffers(3)), (2, 4, 0));
    assert!(!folder.path().join("4.json").exists());
}

/// Buffers that the report says are alive, by all call stacks.
fn alive(report: &Path) -> u64 {
    let report = fs::read(report).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let stacks = report["leaks"]["stacks"].as_array().expect("stacks");
    let of_buffers = stacks.iter().filter(|stack| stack["command"] == "vkCreateBuffer");
    of_buffers.map(|stack| stack["objects"]["live"].as_u64().expect("a number")).sum()
}

fn create_and_request() {
    assert!(env::var_os(JSON).is_some());
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
    let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
    let one_more = || create_object(create, device, NONE).expect("a buffer");
    let mut buffers = vec![one_more()];
    for more in [0, 2] {
        buffers.extend((0..more).map(|_| one_more()));
        request_report();
        // Its hook writes the report.
        buffers.push(one_more());
        let oldest = buffers.remove(0);
        if more == 0 {
            destroy_object(destroy, device, oldest, NONE);
        } else {
            buffers.push(oldest);
        }
    }
    for buffer in buffers {
        destroy_object(destroy, device, buffer, NONE);
    }
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

/// Nothing but submits: no command that has callbacks, of which reports count how many came.
#[test]
fn ly34_requests_are_met_while_the_program_only_submits() {
    let test = "ly34_requests_are_met_while_the_program_only_submits";
    if let Some(folder) = env::var_os("STEWARD_TEST_FOLDER").filter(|_| Child::is_child(test)) {
        return submit_and_request(Path::new(&folder));
    }
    // Without the checker, stacks and a state file only the request needs submits.
    for check in ["true", "false"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (setting, value) = report_requests(folder.path());
        let child = Child::this_test(test)
            .env("STEWARD_TEST_FOLDER", folder.path())
            .env(JSON, folder.path().join("%n.json"))
            .env("VK_STEWARD_MEMORY_CHECK", check)
            .env(setting, value);
        child.run().assert_code(0);
    }
}

fn submit_and_request(folder: &Path) {
    type Submit = unsafe extern "system" fn(*mut c_void, u32, *const c_void, u64) -> i32;
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let submit = layer.of_device(device, c"vkQueueSubmit").expect("a hook");
    // SAFETY: the command has this signature.
    let submit = unsafe { transmute::<VoidFunction, Submit>(submit) };
    let submit = |times: u32| {
        for _ in 0..times {
            // SAFETY: the device stands for its queue: both begin with the same word.
            assert_eq!(unsafe { submit(device, 0, ptr::null(), 0) }, 0);
        }
    };
    let report = |number: u32| folder.join(format!("{number}.json"));
    for number in [1, 2] {
        request_report();
        submit(1);
        assert!(report(number).exists(), "{number}");
    }
    // Beside the report that comes next; among 64 submits one looks, if that was not done a moment ago.
    for number in [3, 4] {
        let request = folder.join(format!("{number}.json.request"));
        fs::write(&request, "").expect("a file");
        thread::sleep(Duration::from_millis(20));
        submit(64);
        assert!(report(number).exists() && !request.exists(), "{number}");
    }
    assert!(!report(5).exists());
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}
