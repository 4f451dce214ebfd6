//! Reports compared: with themselves, in both directions, number by number.

mod command;
mod files;
mod noise;

use crate::support::full_report::{empty, full, of_trace};
use serde_json::json;
use vk_report::report::{
    ByScope, DeviceAccounts, InstanceAccounts, KindAccounts, Leaks, Phase, PhaseStarts, ProgramAccounts, Report,
    VulkanMemory, VulkanMemoryRow,
};
use vk_steward::diff::{Change, Diff, Part};
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::ReportOrList;

fn diff(before: &Report, after: &Report) -> Diff {
    let entry = |report: &Report| ReportOrList::Report(Box::new(report.clone()));
    Diff::of(Some(&entry(before)), Some(&entry(after)))
}

fn reports() -> Vec<Report> {
    let mut reports: Vec<_> = TRACES.iter().map(of_trace).collect();
    reports.extend([full(&TRACES[0]), empty()]);
    reports
}

#[test]
fn a_report_does_not_differ_from_itself() {
    for report in reports() {
        let same = diff(&report, &report);
        assert!(same.is_empty() && same.changes.is_empty(), "{same}");
        assert!(same.to_string().ends_with("\nno difference\n"), "{same}");
    }
}

/// A program's own title may be what a repeated one is numbered to: the figures of both are added.
#[test]
fn no_phase_is_lost_whose_name_is_another_ones_with_its_number() {
    let with = |bytes: u64| {
        let mut report = full(&TRACES[0]);
        let phase = report.phases[0].clone();
        let phases = [("a", 100), ("a", 200), ("a #2", bytes)];
        report.phases = phases.map(|(name, bytes)| Phase { name: name.into(), bytes, ..phase.clone() }).into();
        report
    };
    let changes = diff(&with(300), &with(400)).changes;
    let mut phases = changes.iter().filter(|change| change.part == Part::Phases);
    let change = phases.find(|change| change.measure == "taken").expect("it is another one");
    assert_eq!((&*change.name, change.before, change.after), ("a #2", Some(500), Some(600)));
}

#[test]
fn the_way_back_is_the_reverse() {
    let reports = reports();
    for (at, before) in reports.iter().enumerate() {
        for after in reports.get(at + 1..).unwrap_or_default() {
            let (there, back) = (diff(before, after), diff(after, before));
            assert!(!there.is_empty(), "{there}");
            let turn = |change: &Change| Change { before: change.after, after: change.before, ..change.clone() };
            assert_eq!(there.changes.iter().map(turn).collect::<Vec<_>>(), back.changes);
            assert_eq!((&there.before, &there.after), (&back.after, &back.before));
        }
    }
}

#[test]
fn each_number_that_changes_is_told() {
    let report = full(&TRACES[0]);
    let value = serde_json::to_value(&report).expect("JSON");
    let context =
        report.contexts.iter().position(|row| !row.group && row.live_bytes > 0).expect("one that holds something");
    for (path, part, measure) in [
        ("/peak_bytes".to_owned(), Part::Totals, "peak"),
        (format!("/contexts/{context}/live_by_scope/cache"), Part::Contexts, "live, cache"),
        (format!("/contexts/{context}/peak_bytes"), Part::Contexts, "peak"),
        (format!("/contexts/{context}/total_bytes"), Part::Contexts, "taken"),
        (format!("/contexts/{context}/total_blocks"), Part::Contexts, "blocks"),
        ("/phases/1/live_by_scope/device".to_owned(), Part::Phases, "live, device"),
        ("/phases/2/peak_bytes".to_owned(), Part::Phases, "peak"),
        ("/phases/2/freed".to_owned(), Part::Phases, "freed"),
        ("/findings/0/count".to_owned(), Part::Findings, "times"),
        ("/findings/1/bytes".to_owned(), Part::Findings, "bytes"),
        ("/callback_coverage/with_loader/callback_bytes".to_owned(), Part::CallbackCoverage, "callbacks"),
        ("/callback_coverage/without_loader/never_issued_calls".to_owned(), Part::CallbackCoverage, "own threads"),
        ("/leftovers/0/by_scope/object".to_owned(), Part::Leftovers, "left, object"),
        ("/leftovers/0/blocks".to_owned(), Part::Leftovers, "blocks"),
        ("/vulkan_memory/0/heaps/0/live_bytes".to_owned(), Part::Memory, "live"),
        ("/vulkan_memory/0/types/0/refusals".to_owned(), Part::Memory, "refused"),
        ("/leaks/stacks/0/objects/live".to_owned(), Part::Alive, "objects"),
        ("/leaks/stacks/0/blocks/bytes".to_owned(), Part::Alive, "bytes"),
    ] {
        let mut changed = value.clone();
        let number = changed.pointer_mut(&path).unwrap_or_else(|| panic!("{path}"));
        let old = number.as_u64().expect("a number");
        *number = json!(old + 1000);
        let changed: Report = serde_json::from_value(changed).expect("a report");
        let told = diff(&report, &changed);
        let [change] = told.changes.as_slice() else { panic!("{path}: {told}") };
        assert_eq!((change.part, change.measure.as_str(), change.by()), (part, measure, 1000), "{path}");
        assert_eq!((change.before, change.after), (Some(old), Some(old + 1000)), "{path}");
    }
}

#[test]
fn what_is_new_or_gone_is_said_and_the_largest_change_comes_first() {
    let before = full(&TRACES[0]);
    let mut after = before.clone();
    after.findings.remove(1);
    let first = after.contexts.iter_mut().filter(|row| !row.group).nth(1).expect("a second context");
    first.name = "VkRenamed".into();
    let told = diff(&before, &after);
    let gone = told.changes.iter().find(|change| change.part == Part::Findings).expect("told");
    assert_eq!(
        (gone.name.as_str(), gone.before, gone.after),
        (
            "violation V22 FreedOnForeignThread, vkQueueSubmit, callbacks of VkFence, scope object",
            Some(1_234_500),
            None
        )
    );
    let text = told.to_string();
    assert!(text.contains("gone\n") && text.contains("VkRenamed") && text.contains("new\n"), "{text}");
    for part in Part::ALL {
        let of: Vec<_> = told
            .changes
            .iter()
            .filter(|change| change.part == part)
            .map(|change| (change.unit, change.by().unsigned_abs()))
            .collect();
        assert!(
            of.windows(2).all(|pair| pair[0].0 < pair[1].0 || pair[0].0 == pair[1].0 && pair[0].1 >= pair[1].1),
            "{text}"
        );
    }
    for line in text.lines().skip(2) {
        assert!(line.chars().count() <= 120, "{line}");
    }
}

#[test]
fn several_drivers_are_paired_by_name() {
    let entry = |name: &str| {
        let mut report = full(&TRACES[0]);
        let vk_report::report::Source::Driver { name: old, .. } = &mut report.source else { panic!("a driver") };
        *old = name.into();
        ReportOrList::Report(Box::new(report))
    };
    let told = Diff::all(&[entry("a"), entry("b")], &[entry("b"), entry("c"), entry("b")]);
    let sides: Vec<_> = told.iter().map(|one| (one.before.is_some(), one.after.is_some(), one.is_empty())).collect();
    assert_eq!(sides, [(true, false, false), (true, true, true), (false, true, false), (false, true, false)]);
    assert!(told[0].to_string().contains("not in this file"), "{}", told[0]);
}

/// A device's description, and its kinds with the number of their live objects.
type DescribedDevice<'a> = (&'a str, &'a [(&'a str, u64)]);

/// A program's report: instances, each with devices, each with a description and with kinds of which so many objects
/// live.
fn program(instances: &[&[DescribedDevice<'_>]]) -> Report {
    let kind = |(name, live): &(&str, u64)| {
        let by_scope = ByScope { object: live * 128, ..ByScope::default() };
        KindAccounts {
            kind: (*name).to_owned(),
            live_blocks: *live,
            peak_bytes: live * 128,
            total_bytes: live * 128,
            total_blocks: *live,
            live_by_scope: by_scope,
            requested_by_scope: by_scope,
            fullest_by_scope: by_scope,
            ..KindAccounts::default()
        }
    };
    let device = |(description, kinds): &DescribedDevice<'_>| DeviceAccounts {
        kinds: kinds.iter().map(kind).collect(),
        description: Some((*description).to_owned()),
        ..DeviceAccounts::default()
    };
    let instance = |devices: &&[DescribedDevice<'_>]| InstanceAccounts {
        kinds: vec![kind(&("VkInstance", 3))],
        devices: devices.iter().map(device).collect(),
        ..InstanceAccounts::default()
    };
    let memory = |(_, kinds): &DescribedDevice<'_>| {
        let bytes = kinds.iter().map(|(_, live)| live * 4096).sum::<u64>();
        let heap = VulkanMemoryRow {
            live_bytes: bytes,
            live_blocks: 1,
            peak_bytes: bytes,
            total_bytes: bytes,
            total_blocks: 1,
            ..VulkanMemoryRow::default()
        };
        VulkanMemory { heaps: vec![heap], ..VulkanMemory::default() }
    };
    let accounts =
        ProgramAccounts { instances: instances.iter().map(instance).collect(), ..ProgramAccounts::default() };
    let memory = instances.iter().copied().flatten().map(memory).collect();
    let source = Report::of_stacks(7, 9, &Leaks::default()).source;
    Report::of_program(source, accounts, memory, PhaseStarts::default())
}

#[test]
fn ly60_a_program_is_compared_with_itself_whatever_it_creates_besides() {
    const LAVAPIPE: &str = "llvmpipe (LLVM 15.0.6, 256 bits), driver 0.0.1 of vendor 0x10005, Vulkan 1.3.230";
    const NEWER: &str = "llvmpipe (LLVM 15.0.6, 256 bits), driver 0.0.2 of vendor 0x10005, Vulkan 1.3.280";
    const OTHER: &str = "SwiftShader Device (Subzero), driver 5.0.0 of vendor 0x1ae0, Vulkan 1.3.0";
    const WORK: (&str, &[(&str, u64)]) = (LAVAPIPE, &[("VkDevice", 2), ("VkBuffer", 10), ("VkImage", 1)]);
    const MORE: (&str, &[(&str, u64)]) = (LAVAPIPE, &[("VkDevice", 2), ("VkBuffer", 12), ("VkImage", 1)]);
    const PROBE: (&str, &[(&str, u64)]) = (LAVAPIPE, &[("VkDevice", 1)]);
    const FEW: (&str, &[(&str, u64)]) = (LAVAPIPE, &[("VkDevice", 2), ("VkBuffer", 2), ("VkImage", 1)]);
    let before = program(&[&[WORK]]);
    let changes = |after: &Report| {
        let told = diff(&before, after);
        // The way back says the same.
        assert_eq!(told.changes.len(), diff(after, &before).changes.len());
        let parts = |change: &&Change| matches!(change.part, Part::Contexts | Part::Memory);
        let name = |change: &Change| (change.name.clone(), change.measure.clone(), change.before, change.after);
        told.changes.iter().filter(parts).map(name).collect::<Vec<_>>()
    };
    let only = |after: &Report, names: &[&str]| {
        let told = changes(after);
        let found: std::collections::BTreeSet<_> = told.iter().map(|(name, ..)| name.as_str()).collect();
        assert!(found.iter().eq(names), "{told:#?}");
        assert!(told.iter().all(|(_, _, before, _)| before.is_none()), "all are new: {told:#?}");
    };
    // A second device, and one that does nearly the same.
    only(&program(&[&[WORK, PROBE]]), &["VkDevice #2", "instance 1, device 2, heap 0"]);
    let told = ["VkBuffer #2", "VkDevice #2", "VkImage #2", "instance 1, device 2, heap 0"];
    only(&program(&[&[WORK, FEW]]), &told);
    only(&program(&[&[WORK, WORK]]), &told);
    // An instance that only looks, before and behind; one with a device; and one with another driver's.
    only(&program(&[&[], &[WORK]]), &["VkInstance #2"]);
    only(&program(&[&[WORK], &[]]), &["VkInstance #2"]);
    let probe = ["VkDevice #2", "VkInstance #2", "instance 2, device 1, heap 0"];
    only(&program(&[&[PROBE], &[WORK]]), &probe);
    only(
        &program(&[&[(OTHER, WORK.1)], &[WORK]]),
        &["VkBuffer #2", "VkDevice #2", "VkImage #2", "VkInstance #2", "instance 2, device 1, heap 0"],
    );
    // A device of its own order below the same instance.
    only(&program(&[&[PROBE, WORK]]), &["VkDevice #2", "instance 1, device 2, heap 0"]);
    // What has really changed is shown as such, beside what is new: the number decides between devices that are alike.
    for after in [
        program(&[&[MORE]]),
        program(&[&[], &[MORE]]),
        program(&[&[MORE, WORK]]),
        program(&[&[(NEWER, MORE.1)]]),
        program(&[&[(OTHER, WORK.1), MORE]]),
    ] {
        let told = changes(&after);
        let live = told.iter().find(|(name, measure, ..)| name == "VkBuffer" && measure == "live, object");
        let live = live.map(|(_, _, before, after)| (*before, *after));
        assert_eq!(live, Some((Some(1280), Some(1536))), "{told:#?}");
    }
}
