//! Which account has what: the order of instances and devices, blocks that come back through a neighbour's callbacks,
//! and sums.

use std::ffi::c_void;
use std::fs;
use std::ptr;
use vk_report::units::bytes;

use serde_json::{Value, json};
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;
use vk_report::state_file;

use crate::driver::{Layer, create_object, destroy_object, device_callbacks, do_meanwhile, seen};
use crate::judging::{OwnCallbacks, of_device, report_of};

const NONE: *const RawCallbacks = ptr::null();
type Handle = *mut c_void;

/// Creates so many buffers of a device.
fn create_buffers(layer: &Layer, device: Handle, callbacks: *const RawCallbacks, number: usize) -> Vec<u64> {
    let create = layer.of_device(device, c"vkCreateBuffer").expect("a hook");
    let create = || create_object(create, device, callbacks).expect("a buffer");
    let buffers = (0..number).map(|_| create()).collect();
    seen();
    buffers
}

/// The numbers of all kinds of all instances and devices.
fn rows(report: &Value) -> Vec<Value> {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let mut rows = Vec::new();
    for instance in list(&report["program"]["instances"]) {
        rows.extend(list(&instance["kinds"]));
        for device in list(&instance["devices"]) {
            rows.extend(list(&device["kinds"]));
        }
    }
    rows
}

fn sum(report: &Value, number: &str) -> u64 {
    let rows = rows(report);
    rows.iter().map(|row| row[number].as_u64().expect("a number")).sum()
}

/// The kinds of findings, how often, and their sentences.
fn findings(report: &Value) -> Vec<(String, u64, String)> {
    let rows = report["findings"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let one = |row: &Value| {
        let count = row["count"].as_u64().expect("a number");
        (text(&row["kind"]), count, text(&row["sentence"]))
    };
    rows.iter().map(one).collect()
}

#[test]
fn ly60_instances_and_devices_are_numbered_in_the_order_in_which_they_were_created() {
    let test = "ly60_instances_and_devices_are_numbered_in_the_order_in_which_they_were_created";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.txt");
    let name = file.to_str().expect("UTF-8");
    let Some(report) = report_of(test, &[("TEXT", name)], || {
        let layer = Layer::new();
        // A probe that comes and goes has the accounts of the next instance.
        let probe = layer.create_instance(NONE).expect("an instance");
        layer.destroy_instance(probe, NONE);
        let instances = [1, 2, 3].map(|number| {
            let instance = layer.create_instance(NONE).expect("an instance");
            let devices: Vec<_> =
                (1..=number).map(|_| layer.create_device(instance, NONE).expect("a device")).collect();
            (instance, devices)
        });
        for (number, (_, devices)) in (1..).zip(&instances) {
            for (below, device) in (1..).zip(devices) {
                create_buffers(&layer, *device, NONE, 10 * number + below);
            }
        }
    }) else {
        return;
    };
    let buffers: Vec<Vec<u64>> = report["program"]["instances"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|instance| {
            let devices = instance["devices"].as_array().expect("a list");
            let of = |device: &Value| {
                let rows = device["kinds"].as_array().expect("rows");
                let row = rows.iter().find(|row| row["kind"] == "VkBuffer").expect("buffers");
                row["objects_alive"].as_u64().expect("a number")
            };
            devices.iter().map(of).collect()
        })
        .collect();
    assert_eq!(buffers, [vec![11], vec![21, 22], vec![31, 32, 33]]);
    let text = fs::read_to_string(&file).expect("a report");
    let heads = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("instance ") || line.starts_with("device ") && line.contains(':')
    };
    let alive = |line: &str| line.trim_start().starts_with("VkBuffer");
    let of_buffers: Vec<_> = text
        .lines()
        .filter(|line| alive(line))
        .map(|line| line.split_whitespace().last().expect("a number").to_owned())
        .collect();
    assert_eq!(of_buffers, ["11", "21", "22", "31", "32", "33"], "{text}");
    let heads: Vec<_> =
        text.lines().filter(heads).map(|line| line.trim().split(':').next().unwrap_or_default().to_owned()).collect();
    let expected = [
        "instance 1",
        "device 1",
        "instance 2",
        "device 1",
        "device 2",
        "instance 3",
        "device 1",
        "device 2",
        "device 3",
    ];
    assert_eq!(heads, expected, "{text}");
}

/// How a driver gives a block back through a neighbour's callbacks.
#[derive(Clone, Copy)]
enum Way {
    Free,
    ReallocateToZero,
    ReallocateAndFree,
}

impl Way {
    const ALL: [Self; 3] = [Self::Free, Self::ReallocateToZero, Self::ReallocateAndFree];

    fn give_back(self, through: &RawCallbacks, block: usize) {
        let block = ptr::with_exposed_provenance_mut::<c_void>(block);
        let reallocation = through.pfn_reallocation.expect("a function");
        let free = through.pfn_free.expect("a function");
        // SAFETY: live callbacks, and a live block of another bridge of the process: that the two do not fit is what
        // the test is about.
        let resize = |size| unsafe { reallocation(through.p_user_data, block, size, 8, 1) };
        // SAFETY: live callbacks, and a live block of another bridge: that the two do not fit is the test.
        let free = |block| unsafe { free(through.p_user_data, block) };
        match self {
            Self::Free => free(block),
            Self::ReallocateToZero => assert!(resize(0).is_null()),
            Self::ReallocateAndFree => {
                let moved = resize(4000);
                assert!(!moved.is_null());
                free(moved);
            }
        }
    }
}

/// A driver that creates buffers, and frees their blocks in commands about other things, through the callbacks of
/// those. A text has room for some: the largest must be among them, however late it came. Stacks of one place are one.
#[test]
fn ly46_the_layers_own_text_has_the_largest_leak_first() {
    let test = "ly46_the_layers_own_text_has_the_largest_leak_first";
    if !Child::is_child(test) {
        let child = Child::this_test(test).env("VK_STEWARD_MEMORY_TEXT", "-");
        let done = child.env("VK_STEWARD_MEMORY_STACKS", "true").run();
        done.assert_code(0);
        let first = "\n  1. vkCreateBuffer: 10 of 10 VkBuffer alive";
        let peak = "call stacks held it\n  1. vkCreateBuffer: 10 blocks of VkBuffer";
        assert!(done.stderr.contains(first) && done.stderr.contains(peak), "{done}");
        return;
    }
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    create_buffers(&layer, device, NONE, 1);
    create_buffers(&layer, device, NONE, 9);
}

#[test]
fn ly61_a_block_that_comes_back_through_a_neighbours_callbacks_is_freed() {
    const ROUNDS: usize = 20;
    let test = "ly61_a_block_that_comes_back_through_a_neighbours_callbacks_is_freed";
    for settings in
        [&[][..], &[("CHECK", "false")], &[("STACKS", "true")], &[("GUARD", "cookie")], &[("GUARD", "strict")]]
    {
        let Some(report) = report_of(test, settings, || {
            let layer = Layer::new();
            let [first, other] = [(); 2].map(|()| {
                let instance = layer.create_instance(NONE).expect("an instance");
                let device = layer.create_device(instance, NONE).expect("a device");
                (instance, device, device_callbacks().expect("callbacks"))
            });
            // In a command of another device of another instance, and of the device whose objects they were.
            for (_, device, callbacks) in [other, first] {
                for way in Way::ALL {
                    let blocks = create_buffers(&layer, first.1, NONE, ROUNDS);
                    for block in blocks {
                        let block = usize::try_from(block).expect("an address");
                        do_meanwhile(move || way.give_back(&callbacks, block));
                        let memory = layer.of_device(device, c"vkAllocateMemory").expect("a hook");
                        let free = layer.of_device(device, c"vkFreeMemory").expect("a hook");
                        let object = create_object(memory, device, NONE).expect("memory");
                        destroy_object(free, device, object, NONE);
                    }
                }
            }
            // The owner's account has ended with the device.
            let late = create_buffers(&layer, first.1, NONE, 1);
            layer.destroy_device(first.1, NONE);
            let late = usize::try_from(late[0]).expect("an address");
            do_meanwhile(move || Way::Free.give_back(&other.2, late));
            create_buffers(&layer, other.1, NONE, 1);
            layer.destroy_device(other.1, NONE);
            layer.destroy_instance(first.0, NONE);
            layer.destroy_instance(other.0, NONE);
        }) else {
            return;
        };
        let buffers: Vec<_> = rows(&report).into_iter().filter(|row| row["kind"] == "VkBuffer").collect();
        let of_first = buffers.iter().find(|row| row["objects_created"] == 6 * ROUNDS + 1).expect("the first device's");
        // With its last block the ended device has nothing left: others may have its accounts.
        let devices = [0, 1].map(|instance| &report["program"]["instances"][instance]["devices"][0]);
        let in_use = devices.map(|device| device["in_use"].clone());
        assert_eq!(in_use, [json!(false), json!(true)], "{settings:?}: {devices:?}");
        let own = of_first["live_blocks"].as_u64();
        assert_eq!(own, Some(0), "{settings:?}: {of_first}");
        let alive: u64 = rows(&report)
            .iter()
            .filter(|row| row["kind"] != "VkBuffer")
            .map(|row| row["live_blocks"].as_u64().expect("a number"))
            .sum();
        assert_eq!(alive, 0, "{settings:?}: of the neighbours nothing went {report}");
        if settings == [("CHECK", "false")] {
            assert!(report["program"]["check"].is_null());
            continue;
        }
        let found = findings(&report);
        let count = |kind: &str| -> u64 { found.iter().filter(|(of, ..)| of == kind).map(|(_, count, _)| count).sum() };
        let rounds = ROUNDS as u64;
        // By free, by the free behind a reallocation, and the late one.
        assert_eq!(count("FreedThroughOther"), 2 * 3 * rounds + 1, "{found:?}");
        assert_eq!(count("ReallocatedThroughOther"), 2 * rounds, "{found:?}");
        let of_first =
            |sentence: &str| sentence.contains("never freed") && !sentence.contains("taken in vkCreateBuffer");
        assert!(!found.iter().any(|(_, _, sentence)| of_first(sentence)), "{found:?}");
        // The one buffer of the other device is alive.
        assert_eq!(count("LiveAtEnd") + count("LiveAfterDestroy"), 1, "{found:?}");
    }
}

#[test]
fn ly61_the_same_callbacks_of_a_program_for_two_kinds_of_objects_are_its_own_affair() {
    let test = "ly61_the_same_callbacks_of_a_program_for_two_kinds_of_objects_are_its_own_affair";
    let Some(report) = report_of(test, &[], || {
        let layer = Layer::new();
        let mut own = OwnCallbacks::default();
        let raw = own.raw();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, &raw const raw).expect("a device");
        let callbacks = device_callbacks().expect("callbacks");
        let block = usize::try_from(create_buffers(&layer, device, &raw const raw, 1)[0]).expect("an address");
        do_meanwhile(move || Way::Free.give_back(&callbacks, block));
        let second = create_buffers(&layer, device, &raw const raw, 1)[0];
        let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
        destroy_object(destroy, device, second, &raw const raw);
        layer.destroy_device(device, &raw const raw);
        layer.destroy_instance(instance, NONE);
        let calls = |name| own.calls.iter().filter(|call| call.0 == name).count();
        let (taken, freed) = (calls("allocation"), calls("free"));
        assert_eq!((taken, freed), (3, 3), "{:?}", own.calls);
    }) else {
        return;
    };
    assert_eq!(report["findings"], json!([]));
    assert_eq!(sum(&report, "live_blocks"), 0, "{report}");
}

#[test]
fn ly62_a_kind_of_which_a_program_destroyed_null_alone_has_no_row() {
    let test = "ly62_a_kind_of_which_a_program_destroyed_null_alone_has_no_row";
    let folder = tempfile::tempdir().expect("a folder");
    let [file, state] = ["report.txt", "state"].map(|name| folder.path().join(name));
    let [name, state_name] = [&file, &state].map(|file| file.to_str().expect("UTF-8"));
    let settings = [("TEXT", name), ("STATE", state_name)];
    let Some(report) = report_of(test, &settings, || {
        let layer = Layer::new();
        let mut own = OwnCallbacks::default();
        let raw = own.raw();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        for name in [c"vkDestroyBuffer", c"vkFreeMemory", c"vkDestroyCommandPool"] {
            let destroy = layer.of_device(device, name).expect("a hook");
            destroy_object(destroy, device, 0, NONE);
        }
        create_buffers(&layer, device, &raw const raw, 1);
        layer.destroy_device(device, NONE);
        layer.destroy_instance(instance, NONE);
    }) else {
        return;
    };
    let kinds: Vec<_> = rows(&report).iter().map(|row| row["kind"].clone()).collect();
    assert_eq!(kinds, ["VkInstance", "VkBuffer", "VkDevice"], "{report}");
    let state = state_file::read(&state).expect("a state");
    let mut kinds: Vec<_> = state.kinds.iter().map(|kind| &*kind.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["VkBuffer", "VkDevice", "VkInstance"], "{state}");
    let text = fs::read_to_string(&file).expect("a report");
    assert!(!text.contains("  VkCommandPool") && !text.contains("  VkDeviceMemory"), "{text}");
    assert!(text.contains("(1 command with callbacks of the program)"), "{text}");
}

#[test]
fn ly63_totals_are_those_of_the_table_where_the_program_passes_callbacks_too() {
    let test = "ly63_totals_are_those_of_the_table_where_the_program_passes_callbacks_too";
    let folder = tempfile::tempdir().expect("a folder");
    let (file, state) = (folder.path().join("report.txt"), folder.path().join("state"));
    let (name, state_name) = (file.to_str().expect("UTF-8"), state.to_str().expect("UTF-8"));
    let settings = [("TEXT", name), ("STATE", state_name)];
    let Some(report) = report_of(test, &settings, || {
        let layer = Layer::new();
        let mut own = OwnCallbacks::default();
        let raw = own.raw();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, &raw const raw).expect("a device");
        let buffers = create_buffers(&layer, device, &raw const raw, 500);
        let destroy = layer.of_device(device, c"vkDestroyBuffer").expect("a hook");
        for buffer in buffers.into_iter().skip(5) {
            destroy_object(destroy, device, buffer, &raw const raw);
        }
        create_buffers(&layer, device, NONE, 3);
        std::mem::forget(own);
    }) else {
        return;
    };
    let all = &report["program"]["all"];
    let number = |name: &str| all[name].as_u64().expect("a number");
    assert_eq!(number("live_bytes"), sum(&report, "live_bytes"), "{report}");
    for row in rows(&report) {
        assert!(row["peak_bytes"].as_u64() <= Some(number("peak_bytes")), "{row} of {all}");
    }
    assert!(number("peak_bytes") <= sum(&report, "peak_bytes"), "{report}");
    let text = fs::read_to_string(&file).expect("a report");
    let sentence = format!("Live: {}. Peak: {}.", bytes(number("live_bytes")), bytes(number("peak_bytes")));
    assert!(text.contains(&sentence), "{text}");
    // The state file has the same rows.
    let state = state_file::read(&state).expect("a state");
    let live: u64 = state.kinds.iter().map(|kind| kind.usage.live_bytes).sum();
    assert_eq!(live, sum(&report, "live_bytes"), "{state}");
    let buffers = of_device(&report, "VkBuffer");
    assert_eq!(buffers["live_bytes"], 5 * 32 + 3 * 48, "{buffers}");
    assert_eq!(buffers["requested_by_scope"]["object"], 8 * 32, "{buffers}");
}

/// Loaders and layers call commands through the first layer while another one runs.
#[test]
fn ly36_what_is_called_within_a_command_is_of_that_command() {
    let test = "ly36_what_is_called_within_a_command_is_of_that_command";
    let settings = [("STACKS", "true"), ("BRACKETS", "all")];
    let Some(report) = report_of(test, &settings, || {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        let device = layer.create_device(instance, NONE).expect("a device");
        let hook = |name| layer.of_device(device, name).expect("a hook");
        let (allocate, free) = (hook(c"vkAllocateMemory"), hook(c"vkFreeMemory"));
        let pool = hook(c"vkCreateCommandPool");
        do_meanwhile(move || {
            create_object(pool, device, NONE).expect("a pool");
            let memory = create_object(allocate, device, NONE).expect("memory");
            destroy_object(free, device, memory, NONE);
        });
        create_buffers(&layer, device, NONE, 1);
    }) else {
        return;
    };
    let stacks = report["leaks"]["stacks"].as_array().expect("stacks");
    for kind in ["VkBuffer", "VkCommandPool"] {
        let of_kind: Vec<_> = stacks.iter().filter(|one| one["kind"] == kind).collect();
        let [stack] = of_kind[..] else {
            panic!("{kind}: {stacks:?}");
        };
        assert_eq!(stack["command"], "vkCreateBuffer", "{stack}");
        let live = ["objects", "blocks"].map(|what| stack[what]["live"].as_u64());
        assert_eq!(live, [Some(1); 2], "{stack}");
    }
}

/// What the process grew by is `malloc`'s only as far as no memory of Vulkan accounts for it.
#[test]
fn growth_that_device_memory_accounts_for_has_no_hint() {
    const BYTES: usize = 32 << 20;
    let test = "growth_that_device_memory_accounts_for_has_no_hint";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.txt");
    let name = file.to_str().expect("UTF-8");
    for (is_seen, seen) in [(true, "true"), (false, "false")] {
        let settings = [("TEXT", name), ("CHECK", "false"), ("FAKE_SEEN", seen)];
        let Some(_) = report_of(test, &settings, || {
            let layer = Layer::new();
            let instance = layer.create_instance(NONE).expect("an instance");
            let device = layer.create_device(instance, NONE).expect("a device");
            let allocate = layer.of_device(device, c"vkAllocateMemory");
            let allocate = allocate.expect("a hook");
            // As a driver in software does: 4096 bytes each.
            std::mem::forget(vec![1_u8; BYTES]);
            let is_seen = std::env::var("FAKE_SEEN").is_ok_and(|seen| seen == "true");
            for _ in 0..if is_seen { BYTES / 4096 } else { 0 } {
                create_object(allocate, device, NONE).expect("memory");
            }
        }) else {
            return;
        };
        let text = fs::read_to_string(&file).expect("a report");
        let is_said = text.contains("\nThe process grew by ");
        assert_eq!(is_said, !is_seen, "{text}");
    }
}
