//! What depends on when a driver's own threads run, and what only looks like it.

use vk_report::report::Report;
use vk_steward::diff::DiffFilter;
use vk_steward::replay::bundled::TRACES;

use super::diff;
use crate::support::full_report::full;

/// As lavapipe, whose own threads free blocks of one owner.
fn with_foreign_frees() -> Report {
    let mut report = full(&TRACES[0]);
    let finding = report.findings.first().cloned().expect("a finding");
    report.findings =
        vec![vk_report::report::FindingRow { kind: "FreedOnForeignThread".into(), count: 2, bytes: 3000, ..finding }];
    report
}

#[test]
fn what_is_no_longer_freed_within_the_run_is_no_noise_of_threads() {
    let before = with_foreign_frees();
    let mut after = before.clone();
    // The same blocks are taken, and none is freed until the device goes.
    let more = 1_u64 << 30;
    after.peak_bytes += more;
    for row in after.contexts.iter_mut().filter(|row| !row.group) {
        row.live_by_scope.object += more;
        row.live_bytes += more;
        row.peak_bytes += more;
    }
    for phase in &mut after.phases {
        phase.live_by_scope.object += more;
        phase.live_bytes += more;
        phase.peak_bytes += more;
    }
    let all = diff(&before, &after);
    let shown = all.clone().filtered(&DiffFilter::default());
    assert_eq!((shown.by_time, &shown.changes), (0, &all.changes), "{shown}");
    assert!(!shown.is_empty());
}

#[test]
fn a_new_finding_about_foreign_threads_and_one_of_a_higher_level_are_no_noise() {
    let before = with_foreign_frees();
    let old = before.findings.first().expect("a finding");
    let new = |level: &str, owner: &str, count: u64, command: &str| {
        let mut after = before.clone();
        after.findings.push(vk_report::report::FindingRow {
            level: level.into(),
            owner: owner.into(),
            command: command.into(),
            count,
            ..old.clone()
        });
        diff(&before, &after).filtered(&DiffFilter::default())
    };
    for (level, owner, count) in
        [(old.level.as_str(), "VkPipeline", 1), ("violation", &old.owner, 1), (&old.level, &old.owner, 1_000_000)]
    {
        let shown = new(level, owner, count, "vkQueueWaitIdle");
        assert_eq!((shown.by_time, shown.changes.len()), (0, 2), "{shown}");
    }
    // The same in another command.
    let shown = new(&old.level, &old.owner, 3, "vkQueueWaitIdle");
    assert_eq!((shown.by_time, shown.changes.len()), (2, 0), "{shown}");
}

#[test]
fn only_small_changes_of_the_owner_whose_blocks_threads_free_are_noise() {
    let before = with_foreign_frees();
    let owner = &before.findings.first().expect("a finding").owner;
    let other = before
        .contexts
        .iter()
        .find(|row| !row.group && row.name != *owner && row.peak_bytes > 100)
        .expect("another context");
    let changed = |name: &str, size: u64, by: u64| {
        let (mut before, mut after) = (before.clone(), before.clone());
        for (report, bytes) in [(&mut before, size), (&mut after, size + by)] {
            for row in report.contexts.iter_mut().filter(|row| row.name == name) {
                row.peak_bytes = bytes;
            }
        }
        diff(&before, &after).filtered(&DiffFilter::default())
    };
    for (name, size, by, is_noise) in [
        (owner.as_str(), 100_000, 3000, true),
        (owner, 100_000, 3001, false),
        (owner, 10_000, 1000, false),
        (owner, 0, 1, false),
        (&other.name, 100_000, 3000, false),
    ] {
        let shown = changed(name, size, by);
        assert_eq!(shown.by_time > 0, is_noise, "{name} {size} {by}: {shown}");
        assert_eq!(shown.changes.is_empty(), is_noise, "{shown}");
    }
    // What is not shown is counted.
    let shown = changed(owner, 100_000, 3000);
    let text = shown.to_string();
    assert!(
        shown.summary() == "no other difference; 1 not shown"
            && text.contains("no other difference; 1 not shown")
            && text.contains("threads run: 1 "),
        "{text}"
    );
}

/// Of one scope nothing may be live at a phase's end but what a thread had no time to free, and then it falls by all of
/// it.
#[test]
fn what_a_phase_has_of_one_scope_is_a_share_of_the_run() {
    let before = with_foreign_frees();
    let changed = |by: u64, peak: u64| {
        let (mut before, mut after) = (before.clone(), before.clone());
        for (report, object) in [(&mut before, 0), (&mut after, by)] {
            report.peak_bytes = peak;
            let phase = report.phases.first_mut().expect("a phase");
            phase.live_by_scope.object = object;
        }
        let both_ways = [diff(&before, &after), diff(&after, &before)];
        both_ways.map(|diff| diff.filtered(&DiffFilter::default()).is_empty())
    };
    // Threads freed 3000 bytes.
    assert_eq!(changed(3000, 100_000), [true; 2]);
    assert_eq!(changed(3001, 100_000), [false; 2]);
    assert_eq!(changed(3000, 30_000), [false; 2]);
}
