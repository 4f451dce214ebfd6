//! Every number of the report of a program whose truth is known: the driver of these tests asks for 32 bytes an object.

use std::collections::BTreeSet;
use std::ptr;

use serde_json::{Value, json};
use vk_callbacks::raw::RawCallbacks;
use vk_report::report::Report;

use crate::driver::{Layer, create_object, destroy_object, fail_creation};
use crate::judging::{OwnCallbacks, report_of};

const NONE: *const RawCallbacks = ptr::null();
const FORMAT: &str = include_str!("../../../steward/REPORT-FORMAT.md");
/// A block through the layer's callbacks has a header of 16 bytes.
const CHARGED: u64 = 32 + 16;

fn object(bytes: u64) -> Value {
    json!({ "command": 0, "object": bytes, "cache": 0, "device": 0, "instance": 0 })
}

/// The program: an instance and a device; three buffers, of which one ends; then two memory objects, one with callbacks
/// of the program, of which the other ends, and one that the driver refuses.
pub(crate) fn known_program() {
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let function = |name| layer.of_device(device, name).expect("a hook");
    let (create, destroy) = (function(c"vkCreateBuffer"), function(c"vkDestroyBuffer"));
    let buffers = [(); 3].map(|()| create_object(create, device, NONE).expect("a buffer"));
    destroy_object(destroy, device, buffers[1], NONE);
    let (allocate, free) = (function(c"vkAllocateMemory"), function(c"vkFreeMemory"));
    let mut own = OwnCallbacks::default();
    let raw = own.raw();
    create_object(allocate, device, &raw const raw).expect("memory");
    let memory = create_object(allocate, device, NONE).expect("memory");
    destroy_object(free, device, memory, NONE);
    fail_creation(true);
    create_object(allocate, device, NONE).expect_err("refused");
    fail_creation(false);
    // The program ends with all of it.
    std::mem::forget(own);
}

/// The number of commands, and the live bytes after each, from 1.
const LIVE: [u64; 10] = {
    let after = CHARGED;
    [
        after,
        2 * after,
        3 * after,
        4 * after,
        5 * after,
        4 * after,
        4 * after + 32,
        5 * after + 32,
        4 * after + 32,
        4 * after + 32,
    ]
};

#[test]
fn ly64_every_number_of_a_programs_report_is_the_truth() {
    let test = "ly64_every_number_of_a_programs_report_is_the_truth";
    let Some(report) = report_of(test, &[("BRACKETS", "some")], known_program) else {
        return;
    };
    let read: Report = serde_json::from_value(report.clone()).expect("a report");
    assert_eq!(serde_json::to_value(&read).expect("JSON"), report, "one definition");
    let commands = LIVE.len();
    let live = LIVE[commands - 1];
    let row = |name, depth, live, peak, blocks, total| {
        json!({
            "name": name, "depth": depth, "group": false, "live_bytes": live, "live_by_scope": object(live), "peak_bytes": peak,
            "peak_slack": 0, "total_blocks": blocks, "total_bytes": total,
        })
    };
    let group = |name, depth, live, blocks, total| {
        json!({
            "name": name, "depth": depth, "group": true, "live_bytes": live, "live_by_scope": object(live), "peak_bytes": 0,
            "peak_slack": 0, "total_blocks": blocks, "total_bytes": total,
        })
    };
    let of_device = 3 * CHARGED + 32;
    let total_of_device = 5 * CHARGED + 32;
    // Of two allocators of one kind the sum of the peaks is an upper bound.
    let mut memory = row("VkDeviceMemory", 2, 32, CHARGED + 32, 2, CHARGED + 32);
    memory["peak_slack"] = json!(32);
    let contexts = [
        group("instance 1", 0, live, 7, CHARGED + total_of_device),
        row("VkInstance", 1, CHARGED, CHARGED, 1, CHARGED),
        group("device 1", 1, of_device, 6, total_of_device),
        memory,
        row("VkBuffer", 2, 2 * CHARGED, 3 * CHARGED, 3, 3 * CHARGED),
        row("VkDevice", 2, CHARGED, CHARGED, 1, CHARGED),
    ];
    assert_eq!(report["contexts"], json!(contexts), "{report:#}");
    let left = |context, blocks: u64| json!({ "context": context, "blocks": blocks, "bytes": blocks * 32, "by_scope": object(blocks * 32) });
    let leftovers = [left("VkInstance", 1), left("VkDeviceMemory", 1), left("VkBuffer", 2), left("VkDevice", 1)];
    assert_eq!(report["leftovers"], json!(leftovers), "requested bytes");
    let phase = |name, commands, blocks, freed, bytes, live, live_blocks, (peak, slack): (u64, u64)| {
        json!({
            "name": name, "commands": commands, "blocks": blocks, "blocks_by_scope": object(blocks), "freed": freed,
            "freed_by_scope": object(freed), "bytes": bytes, "bytes_by_scope": object(bytes), "live_bytes": live,
            "live_by_scope": object(live), "live_blocks": live_blocks, "live_blocks_by_scope": object(live_blocks),
            "peak_bytes": peak, "peak_slack": slack,
        })
    };
    let expected = [
        phase("run", 2, 2, 0, 2 * CHARGED, 2 * CHARGED, 2, (2 * CHARGED, 0)),
        // The peak of the program's own callbacks is added.
        phase("device created", 8, 5, 2, 4 * CHARGED + 32, live, 5, (5 * CHARGED + 32, 32)),
    ];
    assert_eq!(report["phases"], json!(expected), "{report:#}");
    let highest = report["phases"].as_array().expect("phases").iter();
    let highest = highest.max_by_key(|phase| phase["peak_bytes"].as_u64());
    let highest = highest.expect("a phase");
    assert_eq!(report["peak_bytes"], highest["peak_bytes"]);
    assert_eq!(report["peak_phase"], highest["name"]);
    let least = report["peak_bytes"].as_u64().expect("a number") - report["peak_slack"].as_u64().expect("a number");
    assert!(least <= 5 * CHARGED + 32, "{report:#}");
    assert_eq!(report["fullest_phase"], "device created");
    let timeline = report["timeline"].as_array().expect("samples");
    assert!(timeline.len() >= commands, "{timeline:?}");
    for sample in timeline {
        let at = sample["at"].as_u64().expect("a number");
        let after = at.checked_sub(1).map_or(0, |at| LIVE[usize::try_from(at).expect("few")]);
        let phase = usize::from(sample["phase"] == 1);
        assert_eq!(sample["live_by_scope"], object(after), "{sample}");
        assert!(if phase == 0 { at <= 2 } else { at >= 2 }, "{sample}");
    }
    // LY75: these are few moments, and each is a point.
    let courses = &report["program"]["courses"];
    let moments = courses["at"].as_array().expect("moments");
    assert!(moments.len() >= commands, "{courses}");
    let rows = courses["rows"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().map(|row| &row["name"]).collect();
    assert!(names.len() == 4 && names.contains(&&json!("VkBuffer")), "{names:?}");
    for (place, at) in moments.iter().enumerate() {
        let live = rows.iter().map(|row| row["live_bytes"][place].as_u64());
        let at = at.as_u64().and_then(|at| at.checked_sub(1));
        let expected = at.map_or(0, |at| LIVE[usize::try_from(at).expect("few")]);
        assert_eq!(live.sum::<Option<u64>>(), Some(expected), "{place}: {courses}");
    }
    // The driver of these tests has one memory type, and says nothing of its heap.
    let memory_row = json!({
        "index": 0, "live_bytes": 4096, "live_blocks": 1, "peak_bytes": 8192, "total_bytes": 8192, "total_blocks": 2, "refusals": 1,
        "size": 0, "budget": 0,
    });
    let memory = json!([{
        "device": "instance 1, device 1", "heaps": [], "types": [memory_row], "uses": {}, "driver": null, "lost_blocks": 0,
    }]);
    assert_eq!(report["vulkan_memory"], memory, "{report:#}");
    // The layer, the driver below it and this test are one file.
    let here = std::env::current_exe().expect("a test knows its file");
    let source = json!({
        "kind": "program", "commands": commands, "process": report["source"]["process"], "executable": here.file_name().and_then(|name| name.to_str()),
        "arguments": null, "loader": null, "layers": [], "layers_below": [here], "drivers": [],
        "devices": ["fake, driver 1.2.3 of vendor 0x7, Vulkan 1.2.3"],
    });
    assert_eq!(report["source"], source);
    assert!(report["source"]["process"].as_u64() > Some(1));
    // The refusal, for which the driver asked for nothing. An instance is alive: nothing is a leftover yet.
    let finding = json!({
        "rule": "V9", "kind": "OutOfMemoryWithoutNull", "level": "note", "owner": "", "command": "vkAllocateMemory", "scope": "",
        "count": 1, "bytes": 0, "first_serial": 10,
        "thread": null, "known": null, "sentence": "the implementation answered VK_ERROR_OUT_OF_HOST_MEMORY, in vkAllocateMemory, though no request on its thread \
            had been refused",
    });
    assert_eq!(report["findings"], json!([finding]));
    // The layer's own members.
    let kind = |kind, live, live_blocks, (peak, slack), total, total_blocks, created, alive, foreign, requested| {
        json!({
            "kind": kind, "live_bytes": live, "live_blocks": live_blocks, "peak_bytes": peak, "peak_slack": slack, "total_bytes": total,
            "total_blocks": total_blocks, "objects_created": created, "objects_alive": alive, "foreign_commands": foreign,
            "live_by_scope": object(live), "requested_by_scope": object(requested), "fullest_by_scope": object(live),
        })
    };
    let of_instance = [kind("VkInstance", CHARGED, 1, (CHARGED, 0), CHARGED, 1, 1, 1, 0, 32)];
    let of_device = [
        kind("VkDeviceMemory", 32, 1, (CHARGED + 32, 32), CHARGED + 32, 2, 2, 1, 1, 32),
        kind("VkBuffer", 2 * CHARGED, 2, (3 * CHARGED, 0), 3 * CHARGED, 3, 3, 2, 0, 64),
        kind("VkDevice", CHARGED, 1, (CHARGED, 0), CHARGED, 1, 1, 1, 0, 32),
    ];
    let device = json!({
        "in_use": true, "kinds": of_device, "description": "fake, driver 1.2.3 of vendor 0x7, Vulkan 1.2.3",
    });
    let program = json!({
        "library": here, "instances": [{ "in_use": true, "kinds": of_instance, "devices": [device] }],
        "all": { "live_bytes": live, "peak_bytes": 5 * CHARGED + 32 }, "passed_through": [], "settings": [], "lost_phases": 0,
        "has_ended": true, "unseen_growth": null, "courses": courses,
        "check": { "between_commands": 0, "lost": 0, "unchecked_kinds": 0, "without_brackets": [] },
    });
    assert_eq!(report["program"], program, "{report:#}");
    for (name, value) in report.as_object().expect("an object") {
        let is_absent = [
            "callback_coverage",
            "call_sites",
            "defragmentation",
            "device_memory",
            "environment",
            "fail",
            "guard",
            "known_findings",
            "leaks",
            "unjudged",
        ]
        .contains(&name.as_str());
        assert_eq!(value.is_null(), is_absent, "{name}");
    }
    every_member_is_documented(&report);
}

/// The members of an object, with the way to them. A number by scope is one member.
fn members(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if !object.contains_key("cache") && !object.is_empty() => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                members(value, &path, found);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            list.iter().for_each(|one| members(one, &format!("{path}[]"), found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

/// `report_format` of the program compares the definition with the types; this with what is really written.
fn every_member_is_documented(report: &Value) {
    let (_, behind) = FORMAT.split_once("<!-- fields:begin -->").expect("the mark");
    let (table, _) = behind.split_once("<!-- fields:end -->").expect("the mark");
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned());
    let documented: BTreeSet<String> = table.lines().filter_map(name).collect();
    let mut found = BTreeSet::new();
    members(report, "", &mut found);
    assert!(found.contains("program.instances[].devices[].kinds[].live_bytes"));
    // Those of a device's kinds and of types are documented as an instance's and as those of heaps; of what is null or
    // empty the members are.
    let is_elsewhere = |path: &String| {
        let list = path.rsplit_once('.').map_or("", |(list, _)| list);
        ["program.instances[].devices[].kinds[]", "vulkan_memory[].types[]"].contains(&list)
    };
    let is_empty = |path: &String| {
        let below = |name: &String| name.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']));
        documented.iter().any(below)
    };
    for path in &found {
        let is_known = documented.contains(path) || is_elsewhere(path) || is_empty(path);
        assert!(is_known, "{path} is not documented");
    }
}
