//! What was live when, over the fake driver.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;

use serde_json::Value;
use testkit::Child;
use vk_callbacks::raw::RawCallbacks;
use vk_report::report::{Phase, Report, Sampler, Source};

use crate::driver::{Layer, VoidFunction, create_object, destroy_object, seen};
use crate::system::{report_requests, request_report};

const NONE: *const RawCallbacks = ptr::null();

/// 48 bytes each: 32, and 16 in front.
const BLOCK: u64 = 48;

fn live_and_submit() {
    type Submit = unsafe extern "system" fn(*mut c_void, u32, *const c_void, u64) -> i32;
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let function = |name| layer.of_device(device, name).expect("a hook");
    let (create, destroy) = (function(c"vkCreateBuffer"), function(c"vkDestroyBuffer"));
    // SAFETY: the command has this signature.
    let submit = unsafe { transmute::<VoidFunction, Submit>(function(c"vkQueueSubmit")) };
    let buffers = |number: usize| {
        let create = |_| create_object(create, device, NONE).expect("a buffer");
        let buffers: Vec<_> = (0..number).map(create).collect();
        for buffer in buffers {
            destroy_object(destroy, device, buffer, NONE);
        }
        seen();
    };
    buffers(5);
    for _ in 0..2 {
        // SAFETY: the device stands for its queue: both begin with the same word.
        assert_eq!(unsafe { submit(device, 0, ptr::null(), 0) }, 0);
    }
    buffers(3);
    request_report();
    // The next command writes a report.
    buffers(1);
    // More commands than there are samples.
    (0..2000).for_each(|_| buffers(2));
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}

#[test]
fn ly23_phases_begin_at_what_divides_a_run_and_samples_are_thinned() {
    let test = "ly23_phases_begin_at_what_divides_a_run_and_samples_are_thinned";
    if Child::is_child(test) {
        return live_and_submit();
    }
    let run = || {
        let folder = tempfile::tempdir().expect("a folder");
        let (setting, value) = report_requests(folder.path());
        let child =
            Child::this_test(test).env("VK_STEWARD_MEMORY_JSON", folder.path().join("%n.json")).env(setting, value);
        child.run().assert_code(0);
        let read = |number: u32| {
            let file = folder.path().join(format!("{number}.json"));
            std::fs::read_to_string(file).expect("a report")
        };
        [read(1), read(2)]
    };
    let [in_the_middle, at_the_end] = run();
    let report: Report = serde_json::from_str(&at_the_end).expect("a layer's report");
    let shown = |phase: &Phase| (phase.name.clone(), phase.commands, phase.blocks, phase.peak_bytes);
    let phases: Vec<_> = report.phases.iter().map(shown).collect();
    // The instance's block, then the device's and at most 5, 3 and 2 buffers beside both.
    let peaks = [2, 7, 5, 4, 1].map(|blocks| blocks * BLOCK);
    // What the layer allocates for itself meanwhile is in none.
    let expected = [
        ("run", 2, 2, peaks[0]),
        ("device created", 10, 5, peaks[1]),
        ("first submit", 7, 4, peaks[2]),
        ("report", 8002, 4000, peaks[3]),
        ("device destroyed", 1, 0, peaks[4]),
    ];
    let expected: Vec<_> =
        expected.map(|(name, commands, blocks, peak)| (name.to_owned(), commands, blocks, peak)).into();
    assert_eq!(phases, expected);
    assert!(report.phases.iter().all(|phase| phase.peak_slack == 0));
    // What ends a phase begins the next one: nothing is in none or in two.
    let sum = |number: fn(&Phase) -> u64| report.phases.iter().map(number).sum::<u64>();
    let kinds = || report.contexts.iter().filter(|row| !row.group);
    assert_eq!(sum(|phase| phase.blocks), kinds().map(|row| row.total_blocks).sum::<u64>());
    assert_eq!(sum(|phase| phase.bytes), kinds().map(|row| row.total_bytes).sum::<u64>());
    assert_eq!(sum(|phase| phase.freed), sum(|phase| phase.blocks));
    let Source::Program { commands, .. } = report.source else {
        panic!("{:?}", report.source);
    };
    assert_eq!(sum(|phase| phase.commands), commands);

    let samples = &report.timeline;
    let bound = Sampler::MAX_SAMPLES + 2 * phases.len();
    assert!((100..=bound).contains(&samples.len()), "{}", samples.len());
    assert!(samples.is_sorted_by(|a, b| a.at <= b.at && a.phase <= b.phase));
    assert_eq!(samples.last().map(|last| (last.at, last.live_by_scope.sum())), Some((commands, 0)));
    let most = samples.iter().map(|sample| sample.live_by_scope.sum()).max();
    assert_eq!(most, Some(7 * BLOCK));

    // The middle report does not contain what came later.
    let middle: Report = serde_json::from_str(&in_the_middle).expect("a layer's report");
    let names: Vec<_> = middle.phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names, ["run", "device created", "first submit"]);
    // Two runs have the same phases, with the same numbers.
    let [_, again] = run();
    let again: Report = serde_json::from_str(&again).expect("a layer's report");
    assert_eq!(again.phases, report.phases);
    assert_eq!(again.timeline, report.timeline);
}

#[test]
fn ly23_very_many_phases_are_one_from_then_on() {
    let test = "ly23_very_many_phases_are_one_from_then_on";
    if Child::is_child(test) {
        let layer = Layer::new();
        let instance = layer.create_instance(NONE).expect("an instance");
        for _ in 0..40 {
            let device = layer.create_device(instance, NONE).expect("a device");
            layer.destroy_device(device, NONE);
        }
        return layer.destroy_instance(instance, NONE);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let child = Child::this_test(test).env("VK_STEWARD_MEMORY_JSON", &file);
    child.run().assert_code(0);
    let text = std::fs::read_to_string(&file).expect("a report");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["program"]["lost_phases"], 1 + 2 * 40 - 64);
    let report: Report = serde_json::from_str(&text).expect("a layer's report");
    assert_eq!(report.phases.len(), 64);
    let blocks: u64 = report.phases.iter().map(|phase| phase.blocks).sum();
    assert_eq!(blocks, 41);
    assert!(report.limits.iter().any(|limit| limit.starts_with("17 more phases")));
}
