//! Reports compared: with themselves, in both directions, number by number; and files that are no reports.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::full_report::{empty, full, of_trace};
use serde_json::{Value, json};
use testkit::{Child, Finished, skip};
use vk_accounts::report::Report;
use vk_steward::bundled::TRACES;
use vk_steward::diff::{Change, Diff, DiffFilter, Part};
use vk_steward::report::{ReadError, ReportOrList};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

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
            Part::Honour,
            "callbacks",
        ),
        (
            "/callback_coverage/without_loader/never_issued_calls".to_owned(),
            Part::Honour,
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

/// What the layer writes at a request, with so many buffers alive of one call of the program.
fn of_layer(buffers: u64, heap: u64) -> String {
    let kind = json!({
        "kind": "VkBuffer", "live_bytes": 48 * buffers, "live_blocks": buffers, "peak_bytes": 480, "total_bytes": 480,
        "total_blocks": 10, "objects_created": 10, "objects_alive": buffers, "foreign_commands": 0,
        "live_by_scope": { "command": 0, "object": 48 * buffers, "cache": 0, "device": 0, "instance": 0 },
    });
    let growth = json!({ "count": 0, "bytes": 0, "grew": 0, "shrank": 0 });
    let count = json!({ "live": buffers, "bytes": 256 * buffers, "total": 10, "growth": growth });
    let none = json!({ "live": 0, "bytes": 0, "total": 0, "growth": growth });
    let oldest = json!({ "handle": "0x10", "bytes": 256, "name": "staging" });
    let stack = json!({
        "command": "vkCreateBuffer", "kind": "VkBuffer", "objects": count, "blocks": none,
        "oldest": if buffers > 2 { vec![oldest] } else { vec![] },
        "frames": [{ "address": "0x1010", "module": "/opt/game", "offset": "0x10" }],
    });
    let leaks = json!({
        "mark": "request", "frames_a_mark": 1, "intervals": 1, "warm_up": 0, "lost": 0, "stacks": [stack],
    });
    let heap = json!({
        "index": 1, "live_bytes": heap, "live_blocks": 1, "peak_bytes": 9000, "total_bytes": 9000, "total_blocks": 3,
        "refusals": 0,
    });
    let device =
        json!({ "in_use": true, "kinds": [kind], "heaps": [heap], "types": [], "lost_blocks": 0 });
    json!({
        "layer_format": 1, "process": 7, "commands": 9, "executable": "game", "passed_through": [], "check": null,
        "instances": [{ "in_use": true, "kinds": [], "devices": [device] }], "settings": [], "guard": null,
        "fail": null, "callback_coverage": null, "leaks": leaks,
    })
    .to_string()
}

#[test]
fn ly54_two_reports_of_one_run_say_what_lives_in_the_second_and_not_in_the_first() {
    let [before, after] = [of_layer(2, 4096), of_layer(5, 8192)]
        .map(|text| ReportOrList::parse("report", text.as_bytes()).expect("what the layer writes"));
    let [told] = Diff::all(&before, &after).try_into().expect("one program");
    let changes: Vec<_> = told
        .changes
        .iter()
        .filter(|change| matches!(change.part, Part::Memory | Part::Alive))
        .map(|change| (&*change.name, &*change.measure, change.before, change.after))
        .collect();
    let place = "vkCreateBuffer < game+0x10";
    let named = format!("VkBuffer \"staging\", {place}");
    let expected = [
        (
            "instance 1, device 1, heap 1",
            "live",
            Some(4096),
            Some(8192),
        ),
        (place, "bytes", Some(512), Some(1280)),
        (place, "objects", Some(2), Some(5)),
        (&*named, "objects", None, Some(1)),
    ];
    assert_eq!(changes, expected, "{told}");
    assert!(told.to_string().contains("\ndevice memory"), "{told}");
    let same = of_layer(2, 4096).replace("\"lost_blocks\"", "\"lost\"");
    let refused = ReportOrList::parse("report", same.as_bytes());
    assert!(
        matches!(refused, Err(ReadError::Malformed { .. })),
        "{refused:?}"
    );
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

fn malformed(text: &[u8]) -> (usize, usize, String, String) {
    match ReportOrList::parse("a file", text) {
        Err(ReadError::Malformed {
            line,
            column,
            path,
            reason,
            ..
        }) => (line, column, path, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cut_files_name_the_place_where_they_end() {
    let text = serde_json::to_string_pretty(&full(&TRACES[0])).expect("JSON");
    assert!(ReportOrList::parse("whole", text.as_bytes()).is_ok());
    for end in (0..text.len()).step_by(997).chain([1, text.len() - 1]) {
        let cut = &text[..end];
        let (line, column, _, reason) = malformed(cut.as_bytes());
        let last = (
            cut.lines().count().max(1),
            cut.rsplit('\n').next().map_or(0, str::len),
        );
        // Where the text ends with a line feed the place is behind it or before it.
        let fits = (line, column) == last || cut.ends_with('\n') || cut.is_empty();
        assert!(
            fits && line.abs_diff(last.0) <= 1 && reason.starts_with("EOF"),
            "{line}:{column} {reason}, cut at {last:?}"
        );
    }
}

#[test]
fn wrong_fields_are_named_with_line_and_path() {
    let report = full(&TRACES[0]);
    let value = serde_json::to_value(&report).expect("JSON");
    for (path, wrong, named) in [
        (
            "/phases/3/live_by_scope/cache",
            json!(-4),
            "phases[3].live_by_scope.cache",
        ),
        ("/contexts/0/name", json!(7), "contexts[0].name"),
        ("/findings/2/count", json!("many"), "findings[2].count"),
        ("/findings/0", json!(9), "findings[0]"),
        (
            "/callback_coverage/with_loader/mapped_bytes",
            json!(0.5),
            "callback_coverage.with_loader.mapped_bytes",
        ),
        ("/timeline/1/at", Value::Null, "timeline[1].at"),
        ("/source/seed", json!(1_u64 << 40), "source.seed"),
        ("/source/kind", json!("cloud"), "source"),
        ("/leftovers", json!({}), "leftovers"),
    ] {
        for list in [false, true] {
            let mut bad = value.clone();
            *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = wrong.clone();
            let bad = if list { json!([value, bad]) } else { bad };
            let text = serde_json::to_string_pretty(&bad).expect("JSON");
            let (line, column, found, reason) = malformed(text.as_bytes());
            let expected = if list {
                format!("[1].{named}")
            } else {
                named.to_owned()
            };
            assert_eq!(found, expected, "{reason}");
            // The place is that of the value, or for a kind that is not known the end of what it is the kind of.
            let there = text
                .lines()
                .nth(line - 1)
                .unwrap_or_else(|| panic!("line {line}"));
            assert!(
                column >= 1 && column <= there.len() + 1,
                "{line}:{column} {there}"
            );
            let field = named
                .rsplit('.')
                .next()
                .expect("a name")
                .trim_end_matches(|c: char| c == ']' || c == '[' || c.is_numeric());
            assert!(
                named == "source" || there.contains(field) || matches!(named, "findings[0]"),
                "{line}:{column} {there:?}, not {field}"
            );
            assert!(
                !list || line > text.lines().count() / 2,
                "line {line}: the second of two is below the first"
            );
        }
    }
    let mut missing = value;
    missing["phases"][0]
        .as_object_mut()
        .expect("an object")
        .remove("bytes");
    let (_, _, path, reason) = malformed(missing.to_string().as_bytes());
    assert_eq!(
        (path.as_str(), reason.as_str()),
        ("phases[0]", "missing field `bytes`")
    );
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    for (text, said) in [
        ("{}", "without a `format`"),
        ("7", "no object"),
        ("[1]", "[0] is no object"),
        (r#"{"format":"steward check 1"}"#, r#""steward check 1""#),
        (
            r#"[{"format":"steward report 5"}]"#,
            r#"[0] is "steward report 5""#,
        ),
    ] {
        let error = ReportOrList::parse("a file", text.as_bytes())
            .expect_err(text)
            .to_string();
        assert!(
            error.starts_with("a file")
                && error.contains(said)
                && error.contains("steward report 4"),
            "{error}"
        );
    }
    assert_eq!(malformed(b"{\n \"format\": \xff}").0, 2);
    assert_eq!(
        malformed(b"{\"format\": \"steward report 2\"} trailing").0,
        1
    );
    assert_eq!(malformed(r#"{"format": 2}"#.as_bytes()).2, "format");
}

#[test]
fn a_report_of_the_first_form_is_read_and_says_what_it_lacks() {
    let mut old = serde_json::to_value(of_trace(&TRACES[0])).expect("JSON");
    old["format"] = json!("steward report 1");
    old["findings"] = json!(["line 8: block 2 was freed a second time"]);
    for field in ["callback_coverage", "timeline"] {
        old.as_object_mut().expect("an object").remove(field);
    }
    let entries = ReportOrList::parse("old", old.to_string().as_bytes()).expect("it is read");
    let [ReportOrList::Report(report)] = entries.as_slice() else {
        panic!("{entries:?}")
    };
    assert_eq!(
        (report.findings[0].level.as_str(), report.findings[0].count),
        ("note", 1)
    );
    assert!(
        report
            .limits
            .iter()
            .any(|limit| limit.starts_with("steward report 1: ")),
        "{:?}",
        report.limits
    );
}

fn steward(args: &[&str]) -> Finished {
    Child::new(STEWARD).args(args).run()
}

#[test]
fn the_command_says_what_differs_and_names_bad_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| {
        folder
            .path()
            .join(name)
            .to_str()
            .expect("a plain path")
            .to_owned()
    };
    let (one, two, cut, out) = (
        path("one.json"),
        path("two.json"),
        path("cut.json"),
        path("out"),
    );
    steward(&["replay", TRACES[0].name, "--json", &one]).assert_code(0);
    steward(&["replay", TRACES[1].name, "--json", &two]).assert_code(0);
    fs::write(&cut, &fs::read(&one).expect("a report")[..5000]).expect("a file");

    let done = steward(&["diff", &one, &one, "--exit-code"]);
    done.assert_code(0);
    assert!(done.stdout.ends_with("\nno difference\n"), "{done}");
    steward(&["diff", &one, &two]).assert_code(0);
    let done = steward(&["diff", &one, &two, "--exit-code", "--json", &out]);
    done.assert_code(1);
    assert!(
        done.stdout.contains("\ncontexts ") && done.stdout.contains("VkInstance"),
        "{done}"
    );
    let told: Value = serde_json::from_slice(&fs::read(&out).expect("a file")).expect("JSON");
    assert_eq!(told["format"], Diff::FORMAT);
    assert!(
        told["changes"]
            .as_array()
            .is_some_and(|changes| changes.len() > 10),
        "{told}"
    );
    let page = steward(&["diff", &one, &two, "--html", "-"]);
    page.assert_code(0);
    assert!(
        page.stdout.contains("<h2 class=\"part\">contexts</h2>")
            && page.stdout.contains("VkInstance"),
        "{page}"
    );

    // As behind `steward --json - |`.
    let piped = |input: &str| {
        let input = fs::File::open(input).expect("a file");
        let done = Command::new(STEWARD)
            .args(["diff", &one, "-", "--exit-code"])
            .stdin(input)
            .output()
            .expect("the program starts");
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    assert_eq!(
        (piped(&one), piped(&two).0),
        ((Some(0), String::new()), Some(1))
    );
    assert!(
        piped(&cut)
            .1
            .starts_with("steward: the standard input, line "),
        "{:?}",
        piped(&cut)
    );

    for (args, said) in [
        (["diff", &one, &cut], "cut.json, line "),
        (["diff", &cut, &one], "cut.json, line "),
        (
            ["diff", &one, "no such file"],
            "no such file cannot be read (",
        ),
        (["diff", "/dev/null", &one], "/dev/null, line 1, column "),
    ] {
        let done = steward(&args);
        done.assert_code(2);
        assert!(
            done.stderr.starts_with("steward: ")
                && done.stderr.contains(said)
                && done.stderr.contains("--json"),
            "{done}"
        );
        assert_eq!(
            (done.stdout.as_str(), done.stderr.lines().count()),
            ("", 1),
            "{done}"
        );
    }
}

/// What a driver's own threads free sooner or later is no difference; 1 % more is one, and so is what is left.
#[test]
fn two_runs_of_one_seed_are_equal_and_one_percent_more_is_not() {
    const TEST: &str = "two_runs_of_one_seed_are_equal_and_one_percent_more_is_not";
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second, planted] =
        ["first.json", "second.json", "planted.json"].map(|name| folder.path().join(name));
    let run = |json: &Path| {
        Child::new(env!("CARGO_BIN_EXE_steward"))
            .args(["drive", "--driver", "lavapipe", "--seed", "7", "--json"])
            .args([json])
            .run()
    };
    let done = run(&first);
    if done.code == Some(2) {
        skip(
            "lavapipe",
            TEST,
            done.stderr.lines().next().unwrap_or_default(),
        );
        return;
    }
    let compare = |other: &Path, more: &[&str]| {
        Child::new(env!("CARGO_BIN_EXE_steward"))
            .args(["diff", "--exit-code"])
            .args([first.as_path(), other])
            .args(more)
            .run()
    };
    for _ in 0..3 {
        run(&second).assert_code(0);
        compare(&second, &[]).assert_code(0);
    }
    let text = fs::read_to_string(&first).expect("a report");
    let mut report: Value = serde_json::from_str(&text).expect("JSON");
    let rows = report["contexts"].as_array_mut().expect("contexts");
    let device = rows
        .iter_mut()
        .find(|row| row["name"] == "VkDevice")
        .expect("a device");
    let bytes = device["total_bytes"].as_u64().expect("bytes");
    device["total_bytes"] = (bytes + bytes / 100).into();
    fs::write(&planted, report.to_string()).expect("a file");
    let shown = compare(&planted, &[]);
    shown.assert_code(1);
    assert!(
        shown
            .stdout
            .contains("\n1 difference; the largest of contexts: VkDevice, taken +8."),
        "{shown}"
    );
    compare(&planted, &["--threshold", "2"]).assert_code(0);
    compare(&planted, &["--ignore", "VkDevice"]).assert_code(0);
    compare(&planted, &["--top", "0"]).assert_code(0);
}

/// As lavapipe, whose own threads free blocks of one owner.
fn with_foreign_frees() -> Report {
    let mut report = full(&TRACES[0]);
    let finding = report.findings.first().cloned().expect("a finding");
    report.findings = vec![vk_accounts::report::FindingRow {
        kind: "FreedOnForeignThread".into(),
        count: 2,
        bytes: 3000,
        ..finding
    }];
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
    assert_eq!(
        (shown.by_time, &shown.changes),
        (0, &all.changes),
        "{shown}"
    );
    assert!(!shown.is_empty());
}

#[test]
fn a_new_finding_about_foreign_threads_and_one_of_a_higher_level_are_no_noise() {
    let before = with_foreign_frees();
    let old = before.findings.first().expect("a finding");
    let new = |level: &str, owner: &str, count: u64, command: &str| {
        let mut after = before.clone();
        after.findings.push(vk_accounts::report::FindingRow {
            level: level.into(),
            owner: owner.into(),
            command: command.into(),
            count,
            ..old.clone()
        });
        diff(&before, &after).filtered(&DiffFilter::default())
    };
    for (level, owner, count) in [
        (old.level.as_str(), "VkPipeline", 1),
        ("violation", &old.owner, 1),
        (&old.level, &old.owner, 1_000_000),
    ] {
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
    let page = vk_steward::diff::html(std::slice::from_ref(&shown)).expect("a page");
    assert!(
        shown.summary() == "no other difference; 1 not shown"
            && page.contains("no other difference; 1 not shown")
            && page.contains("threads run: 1 "),
        "{page}"
    );
}

#[test]
fn a_threshold_that_is_no_share_and_an_empty_text_to_ignore_are_refused() {
    for (option, said) in [
        ("--threshold=nan", "0 or more"),
        ("--threshold=inf", "0 or more"),
        ("--threshold=-5", "0 or more"),
        ("--ignore=", "not empty"),
    ] {
        let done = steward(&["diff", option, "a.json", "b.json"]);
        done.assert_code(2);
        assert!(done.stderr.contains(said), "{option}: {done}");
    }
}
