//! `steward drive --device-memory`: what must agree, whatever the times are.

use serde_json::Value;
use testkit::{Child, Finished};
use vk_steward::device_memory::{
    DeviceMemoryReport, MemoryTrace, SizeEnding, TraceScale, all_traces,
};

use crate::drive_layer::is_lavapipe_there;
use crate::run::{STEWARD, json, steward};

fn drive(args: &[&str]) -> Finished {
    Child::new(STEWARD)
        .args([
            "drive",
            "--device-memory",
            "--quick",
            "--driver",
            "reference",
        ])
        .args(args)
        .run()
}

fn report(args: &[&str]) -> DeviceMemoryReport {
    let done = drive(&[args, &["--json", "-"]].concat());
    done.assert_code(0);
    serde_json::from_str(&done.stdout).expect("a report")
}

fn tiny() -> [MemoryTrace; 4] {
    all_traces(SizeEnding::Rounded, TraceScale::TINY, |rounds| rounds / 20)
}

/// What holds on every device.
fn agrees(report: &DeviceMemoryReport, traces: &[MemoryTrace; 4]) {
    assert_eq!(report.format, DeviceMemoryReport::FORMAT);
    assert!(report.budget_bytes <= report.heap_bytes / 2);
    for (row, trace) in report.traces.iter().zip(traces) {
        assert_eq!(row.name, trace.name);
        let (name, requests) = (&row.name, trace.allocations as u64);
        assert_eq!(row.regions + row.refused, requests, "{name}");
        assert!(row.regions > 0, "{name}");
        assert!(row.peak_live_bytes <= row.peak_reserved_bytes, "{name}");
        assert!(row.peak_reserved_bytes <= report.budget_bytes, "{name}");
        assert!(
            row.driver_frees < row.driver_allocations,
            "{name}: what is empty is kept"
        );
        assert!(row.driver_allocations < requests / 20, "{name}");
        assert!(row.operation_ns > 0.0 && row.driver_ns > 0, "{name}");
        for times in [row.allocate, row.free] {
            assert!(times.median_ns <= times.p99_ns && times.p99_ns <= times.longest_ns);
        }
    }
    assert_eq!(report.traces.len(), 4);
    let names: Vec<_> = report.pairs.iter().map(|row| row.what.as_str()).collect();
    let of_traces =
        ["churn", "frames", "streaming", "adversarial"].map(|of| format!("sizes of {of}"));
    assert_eq!(names[..3], ["64 KiB", "1 MiB", "16 MiB"]);
    assert_eq!(names[3..], of_traces);
    for row in &report.pairs {
        let asked = row.operations / 2;
        assert!((1..=1000).contains(&asked), "{}", row.what);
        assert_eq!(
            row.raw.driver_allocations,
            asked - row.raw.refused,
            "{}",
            row.what
        );
        assert_eq!(
            row.raw.driver_frees, row.raw.driver_allocations,
            "{}",
            row.what
        );
        assert!(row.ours.driver_allocations < asked / 2, "{}", row.what);
    }
}

#[test]
fn the_traces_are_played_as_they_are() {
    let (report, traces) = (report(&[]), tiny());
    assert_eq!(report.scale, "tiny", "a heap of 1 GiB");
    agrees(&report, &traces);
    for (row, trace) in report.traces.iter().zip(&traces) {
        assert_eq!((row.refused, row.driver_refusals), (0, 0), "{}", row.name);
        assert_eq!(row.peak_live_bytes, trace.peak, "{}", row.name);
    }
    let refused = |row: &vk_steward::device_memory::PairRow| row.ours.refused + row.raw.refused;
    assert_eq!(report.pairs.iter().map(refused).sum::<u64>(), 0);
}

#[test]
fn what_does_not_fit_the_budget_is_refused_and_counted() {
    let report = report(&["--at-most", "8"]);
    assert_eq!(report.budget_bytes, 8 << 20);
    agrees(&report, &tiny());
    for row in &report.traces {
        assert!(row.refused > 0, "{}", row.name);
        assert_eq!(
            row.driver_refusals, 0,
            "the driver has room, and is not asked"
        );
    }
    let of = |what: &str| report.pairs.iter().find(|row| row.what == what);
    let large = of("16 MiB").expect("a row");
    assert_eq!((large.ours.refused, large.raw.refused), (1000, 1000));
    assert_eq!(
        (large.ours.driver_allocations, large.raw.driver_allocations),
        (0, 0)
    );
    let small = of("64 KiB").expect("a row");
    assert_eq!((small.ours.refused, small.raw.refused), (0, 0));
}

/// The layer counts each `vkAllocateMemory` below the program, and knows nothing of the sub-allocator.
#[test]
fn the_layer_counts_what_the_report_says_on_lavapipe() {
    let test = "the_layer_counts_what_the_report_says_on_lavapipe";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    steward(&["run", "--no-check", "--json"])
        .args([path("layer.json")])
        .args([
            "--",
            STEWARD,
            "drive",
            "--device-memory",
            "--quick",
            "--driver",
            "lavapipe",
        ])
        .args(["--at-most", "600", "--json"])
        .args([path("own.json")])
        .run()
        .assert_code(0);
    let own: DeviceMemoryReport =
        serde_json::from_value(json(&path("own.json"))).expect("a report");
    agrees(&own, &tiny());
    // Each trace is played twice.
    let of_traces = own.traces.iter().map(|row| 2 * row.driver_allocations);
    let of_pairs = own
        .pairs
        .iter()
        .map(|row| row.ours.driver_allocations + row.raw.driver_allocations);
    let allocations: u64 = of_traces.chain(of_pairs).sum();
    let peak = own.traces.iter().map(|row| row.peak_reserved_bytes).max();
    let layer = json(&path("layer.json"));
    let heap = &layer["vulkan_memory"]
        .as_array()
        .and_then(|devices| {
            devices
                .iter()
                .find(|device| device["heaps"][0]["total_blocks"] != 0)
        })
        .expect("a device with memory")["heaps"][0];
    let number = |name: &str| heap[name].as_u64().expect("a number");
    assert_eq!(number("total_blocks"), allocations, "{heap}");
    assert_eq!(Some(number("peak_bytes")), peak, "{heap}");
    assert_eq!(
        (number("live_blocks"), number("refusals")),
        (0, 0),
        "{heap}"
    );
}

#[test]
fn the_text_has_the_rows_of_the_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let done = drive(&["--at-most", "64", "--json", file.to_str().expect("UTF-8")]);
    done.assert_code(0);
    let data: Value = json(&file);
    assert!(
        done.stdout
            .contains("at most 64.0 MiB are used; tiny traces"),
        "{}",
        done.stdout
    );
    for row in data["traces"].as_array().expect("rows") {
        let name = row["name"].as_str().expect("a name");
        let line = done.stdout.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {}", done.stdout));
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(cells[1], row["regions"].to_string(), "{line}");
        assert_eq!(cells[2], row["refused"].to_string(), "{line}");
    }
    let of = |by: &str| {
        let lines = done.stdout.lines();
        lines
            .filter(|line| line.split_whitespace().any(|word| word == by))
            .count()
    };
    assert_eq!((of("ours"), of("raw")), (7, 7));
}

#[test]
fn what_makes_no_sense_is_refused_with_the_remedy() {
    let refused = |args: &[&str], says: &str| {
        let done = drive(args);
        done.assert_code(2);
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
    };
    refused(
        &["--html", "x.html"],
        "--html draws a report, and this makes none",
    );
    refused(&["--findings"], "--findings lists what a run shows");
    refused(&["--guard=strict"], "--guard and --fail are for runs");
    refused(&["--layer"], "cannot be used with");
    refused(&["--record", "x"], "cannot be used with");
    let all = Child::new(STEWARD)
        .args(["drive", "--device-memory", "--driver", "all"])
        .run();
    all.assert_code(2);
    assert!(
        all.stderr.contains("name it with --driver"),
        "{}",
        all.stderr
    );
    let alone = Child::new(STEWARD).args(["drive", "--at-most", "3"]).run();
    alone.assert_code(2);
    assert!(alone.stderr.contains("--device-memory"), "{}", alone.stderr);
}
