//! Reports compared: with themselves, in both directions, number by number.

mod command;
mod files;
mod noise;

use crate::support::full_report::{empty, full, of_trace};
use serde_json::json;
use vk_accounts::report::Report;
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

#[test]
fn the_way_back_is_the_reverse() {
    let reports = reports();
    for (at, before) in reports.iter().enumerate() {
        for after in reports.get(at + 1..).unwrap_or_default() {
            let (there, back) = (diff(before, after), diff(after, before));
            assert!(!there.is_empty(), "{there}");
            let turn = |change: &Change| Change {
                before: change.after,
                after: change.before,
                ..change.clone()
            };
            assert_eq!(
                there.changes.iter().map(turn).collect::<Vec<_>>(),
                back.changes
            );
            assert_eq!((&there.before, &there.after), (&back.after, &back.before));
        }
    }
}

#[test]
fn each_number_that_changes_is_told() {
    let report = full(&TRACES[0]);
    let value = serde_json::to_value(&report).expect("JSON");
    let context = report
        .contexts
        .iter()
        .position(|row| !row.group && row.live_bytes > 0)
        .expect("one that holds something");
    for (path, part, measure) in [
        ("/peak_bytes".to_owned(), Part::Totals, "peak"),
        (
            format!("/contexts/{context}/live_by_scope/cache"),
            Part::Contexts,
            "live, cache",
        ),
        (
            format!("/contexts/{context}/peak_bytes"),
            Part::Contexts,
            "peak",
        ),
        (
            format!("/contexts/{context}/total_bytes"),
            Part::Contexts,
            "taken",
        ),
        (
            format!("/contexts/{context}/total_blocks"),
            Part::Contexts,
            "blocks",
        ),
        (
            "/phases/1/live_by_scope/device".to_owned(),
            Part::Phases,
            "live, device",
        ),
        ("/phases/2/peak_bytes".to_owned(), Part::Phases, "peak"),
        ("/phases/2/freed".to_owned(), Part::Phases, "freed"),
        ("/findings/0/count".to_owned(), Part::Findings, "times"),
        ("/findings/1/bytes".to_owned(), Part::Findings, "bytes"),
        (
            "/callback_coverage/with_loader/callback_bytes".to_owned(),
            Part::CallbackCoverage,
            "callbacks",
        ),
        (
            "/callback_coverage/without_loader/never_issued_calls".to_owned(),
            Part::CallbackCoverage,
            "own threads",
        ),
        (
            "/leftovers/0/by_scope/object".to_owned(),
            Part::Leftovers,
            "left, object",
        ),
        ("/leftovers/0/blocks".to_owned(), Part::Leftovers, "blocks"),
        (
            "/vulkan_memory/0/heaps/0/live_bytes".to_owned(),
            Part::Memory,
            "live",
        ),
        (
            "/vulkan_memory/0/types/0/refusals".to_owned(),
            Part::Memory,
            "refused",
        ),
        (
            "/leaks/stacks/0/objects/live".to_owned(),
            Part::Alive,
            "objects",
        ),
        (
            "/leaks/stacks/0/blocks/bytes".to_owned(),
            Part::Alive,
            "bytes",
        ),
    ] {
        let mut changed = value.clone();
        let number = changed
            .pointer_mut(&path)
            .unwrap_or_else(|| panic!("{path}"));
        let old = number.as_u64().expect("a number");
        *number = json!(old + 1000);
        let changed: Report = serde_json::from_value(changed).expect("a report");
        let told = diff(&report, &changed);
        let [change] = told.changes.as_slice() else {
            panic!("{path}: {told}")
        };
        assert_eq!(
            (change.part, change.measure.as_str(), change.by()),
            (part, measure, 1000),
            "{path}"
        );
        assert_eq!(
            (change.before, change.after),
            (Some(old), Some(old + 1000)),
            "{path}"
        );
    }
}

#[test]
fn what_is_new_or_gone_is_said_and_the_largest_change_comes_first() {
    let before = full(&TRACES[0]);
    let mut after = before.clone();
    after.findings.remove(1);
    let first = after
        .contexts
        .iter_mut()
        .filter(|row| !row.group)
        .nth(1)
        .expect("a second context");
    first.name = "VkRenamed".into();
    let told = diff(&before, &after);
    let gone = told
        .changes
        .iter()
        .find(|change| change.part == Part::Findings)
        .expect("told");
    assert_eq!(
        (gone.name.as_str(), gone.before, gone.after),
        (
            "violation V22 FreedOnForeignThread, vkQueueSubmit, callbacks of VkFence, scope object",
            Some(1_234_500),
            None
        )
    );
    let text = told.to_string();
    assert!(
        text.contains("gone\n") && text.contains("VkRenamed") && text.contains("new\n"),
        "{text}"
    );
    for part in Part::ALL {
        let of: Vec<_> = told
            .changes
            .iter()
            .filter(|change| change.part == part)
            .map(|change| (change.unit, change.by().unsigned_abs()))
            .collect();
        assert!(
            of.windows(2)
                .all(|pair| pair[0].0 < pair[1].0
                    || pair[0].0 == pair[1].0 && pair[0].1 >= pair[1].1),
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
        let vk_accounts::report::Source::Driver { name: old, .. } = &mut report.source else {
            panic!("a driver")
        };
        *old = name.into();
        ReportOrList::Report(Box::new(report))
    };
    let told = Diff::all(
        &[entry("a"), entry("b")],
        &[entry("b"), entry("c"), entry("b")],
    );
    let sides: Vec<_> = told
        .iter()
        .map(|one| (one.before.is_some(), one.after.is_some(), one.is_empty()))
        .collect();
    assert_eq!(
        sides,
        [
            (true, false, false),
            (true, true, true),
            (false, true, false),
            (false, true, false)
        ]
    );
    assert!(
        told[0].to_string().contains("not in this file"),
        "{}",
        told[0]
    );
}
