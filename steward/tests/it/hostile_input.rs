//! Input that was made to do harm: sizes, depths and repetitions that no report, trace or profile of ours has.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::process::Command;

use crate::support::full_report::full;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use testkit::{Child, assert_linear};
use vk_report::report::{ByScope, ContextRow, FindingRow, Leftover, Report};
use vk_steward::diff::{Diff, DiffFilter};
use vk_steward::expectations::{Expectations, compare};
use vk_steward::replay::bundled::TRACES;
use vk_steward::replay::{self, ReplayError, TraceFile};
use vk_steward::report::{ReportOrList, html};
use vk_steward::symbols::Symbols;

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const MIB: usize = 1 << 20;

fn replay(lines: &str) -> Report {
    let count = lines.lines().count() + 2;
    let bytes = format!("# steward host trace 2\n# driver: d\n{lines}z,{count}\n").into_bytes();
    let name = "hostile".into();
    replay::replay(&TraceFile { name, bytes }).expect("a whole trace")
}

fn parse(text: &str) -> Vec<ReportOrList> {
    ReportOrList::parse("hostile", text.as_bytes()).expect("reports")
}

/// A list of drivers that could not be run.
fn failed(count: usize) -> String {
    let entry = |nth: usize| json!({ "format": Report::FORMAT, "driver": format!("driver {}", nth / 2), "error": "e" });
    serde_json::to_string(&(0..count).map(entry).collect::<Vec<_>>()).expect("JSON")
}

/// The report of a run with so many contexts and leftovers, each with bytes of its own.
fn with_contexts(count: usize, bytes: u64) -> Report {
    let mut report = full(&TRACES[0]);
    let by_scope = |nth: usize| ByScope { object: bytes + nth as u64, ..ByScope::default() };
    let context = |nth: usize| {
        let (live_by_scope, live_bytes) = (by_scope(nth), bytes + nth as u64);
        ContextRow { name: format!("c{nth}"), total_blocks: 1, live_by_scope, live_bytes, ..ContextRow::default() }
    };
    report.contexts = (0..count).map(context).collect();
    let left = |nth: usize| Leftover { context: format!("c{nth}"), blocks: 1, bytes, by_scope: by_scope(nth) };
    report.leftovers = (0..count).map(left).collect();
    report
}

#[test]
fn a_report_of_any_depth_and_any_rule_is_shown() {
    let mut report = full(&TRACES[0]);
    for depth in [9, 70_000, 4_294_967_295, usize::MAX] {
        report.contexts[1].depth = depth;
        let read = serde_json::to_string(&report).expect("JSON");
        let [ReportOrList::Report(read)] = &parse(&read)[..] else { panic!("one report") };
        let text = read.to_string();
        assert!(text.lines().all(|line| line.chars().count() < 200), "{depth}");
        html(&[ReportOrList::Report(read.clone())]).expect("a page");
    }
    report.findings[0].rule = "V".repeat(70_000);
    assert!(report.text(true).to_string().contains("what V22 is about"));
}

/// Every number of `json` as large as its type has it.
fn with_largest_numbers(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Number(number) if number.is_u64() => *json = u64::MAX.into(),
        serde_json::Value::Array(all) => all.iter_mut().for_each(with_largest_numbers),
        serde_json::Value::Object(all) => all.values_mut().for_each(with_largest_numbers),
        _ => {}
    }
}

/// Sums of such numbers stay at the largest: they neither begin anew nor end the program.
#[test]
fn a_report_with_numbers_near_two_to_the_64_is_shown_and_compared() {
    let whole = serde_json::to_value(full(&TRACES[0])).expect("JSON");
    let before = parse(&whole.to_string());
    for part in whole.as_object().expect("an object").keys() {
        let mut large = whole.clone();
        with_largest_numbers(&mut large[part]);
        // Some numbers are smaller than 64 bits: a report whose numbers do not fit is none.
        let Ok(after) = ReportOrList::parse("hostile", large.to_string().as_bytes()) else {
            continue;
        };
        let [ReportOrList::Report(report)] = &after[..] else { panic!("one report") };
        assert!(!report.text(true).to_string().is_empty(), "{part}");
        html(&after).unwrap_or_else(|error| panic!("{part}: {error:?}"));
        for diff in Diff::all(&before, &after) {
            assert!(!diff.filtered(&DiffFilter::default()).summary().is_empty());
        }
    }
    let stack = |bytes| vk_report::report::LeakStack {
        objects: vk_report::report::LeakCount { live: bytes, bytes, total: bytes, ..Default::default() },
        ..Default::default()
    };
    let leaks = vk_report::report::Leaks { stacks: vec![stack(u64::MAX), stack(2)], ..Default::default() };
    let text = leaks.to_string();
    assert!(text.contains(&u64::MAX.to_string()), "{text}");
}

#[test]
fn many_owners_are_replayed_in_linear_time() {
    assert_linear("owners", 1000, |count| {
        let mut lines = String::new();
        (1..=count).for_each(|owner| writeln!(lines, "o,{owner},0,VkBuffer").expect("a String takes all"));
        assert_eq!(replay(&lines).contexts.len(), count + 2);
    });
}

#[test]
fn many_phases_of_many_owners_are_replayed_in_linear_time() {
    assert_linear("owners with a phase each", 500, |count| {
        let mut lines = String::new();
        for nth in 1..=count {
            writeln!(lines, "o,{nth},0,VkBuffer\np,phase {nth}\na,1,{nth},{nth},64,8,1").expect("a String takes all");
        }
        let report = replay(&lines);
        assert_eq!((report.phases.len(), report.leftovers.len()), (count, count));
        assert_eq!(report.peak_bytes, 64 * count as u64);
    });
}

#[test]
fn a_long_list_of_reports_is_compared_in_linear_time() {
    let after = failed(9);
    assert_linear("entries", 500, |count| {
        let text = failed(count);
        let all = Diff::all(&parse(&text), &parse(&after));
        assert_eq!(all.len(), count);
        assert_eq!(Diff::all(&parse(&text), &parse(&text)).len(), count);
    });
    // Of several with one name the first is compared with the first.
    let named = |names: &[&str]| {
        let entries = names.iter().map(|name| json!({ "format": Report::FORMAT, "driver": name, "error": "e" }));
        parse(&serde_json::to_string(&entries.collect::<Vec<_>>()).expect("JSON"))
    };
    let all = Diff::all(&named(&["a", "b", "a", "a"]), &named(&["a", "c", "a"]));
    let sides: Vec<_> = all.iter().map(|diff| (diff.before.is_some(), diff.after.is_some())).collect();
    assert_eq!(sides, [(true, true), (true, false), (true, true), (true, false), (false, true)]);
}

#[test]
fn many_changes_are_shown_in_linear_time() {
    assert_linear("changes", 2000, |count| {
        let [before, after] = [1, 2].map(|bytes| ReportOrList::Report(Box::new(with_contexts(count, bytes))));
        let diff = Diff::of(Some(&before), Some(&after));
        assert!(diff.changes.len() > count && diff.to_string().lines().count() > count);
    });
}

#[test]
fn many_contexts_are_drawn_in_linear_time() {
    assert_linear("contexts", 1000, |count| {
        let report = with_contexts(count, 1 << 20);
        assert!(report.to_string().lines().count() > count);
        html(&[ReportOrList::Report(Box::new(report))]).expect("a page");
    });
}

#[test]
fn many_expectations_are_compared_in_linear_time() {
    assert_linear("expectations", 300, |count| {
        let entry =
            |nth: usize| format!("[[finding]]\nrule = \"V22\"\nkind = \"K\"\ncommand = \"vk{nth}\"\ncause = \"c\"\n");
        let known = Expectations::parse(&format!("driver = \"d\"\n{}", (0..count).map(entry).collect::<String>()))
            .expect("right");
        let row = |nth: usize| FindingRow {
            rule: "V22/V23".into(),
            kind: "K".into(),
            command: format!("vk{nth}"),
            level: FindingRow::VIOLATION.into(),
            count: 1,
            ..FindingRow::default()
        };
        let rows: Vec<_> = (0..count).map(row).collect();
        let verdict = compare(&known, (&rows, None), Some(1));
        assert_eq!((verdict.expected.len(), verdict.differences.len()), (count, 0));
    });
}

#[test]
fn stacks_within_stacks_are_passed_on_in_linear_time() {
    assert_linear("stacks", 500, |count| {
        let line = format!(
            "{{\"debug_guard\":1,{}{}}}\n",
            "\"frames\":[{\"address\":\"0x1\",\"z\":{".repeat(count),
            "}},5]".repeat(count)
        );
        assert_eq!(Symbols::default().annotate(&line), line);
        let cut = &line[..line.len() / 2];
        assert_eq!(Symbols::default().annotate(cut), cut);
    });
}

/// Compressed text of so many MiB.
fn packed(mib: usize, file: &std::path::Path) {
    let mut member = GzEncoder::new(Vec::new(), Compression::best());
    member.write_all(&vec![b'#'; MIB]).expect("memory");
    let member = member.finish().expect("memory");
    let mut file = File::create(file).expect("a file");
    (0..mib).for_each(|_| file.write_all(&member).expect("a file"));
}

#[test]
fn compressed_data_that_grows_without_bounds_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bomb.trace.gz");
    packed(TraceFile::MAX_UNPACKED_BYTES / MIB + 1, &file);
    assert!(std::fs::metadata(&file).expect("written").len() < 600_000, "a bomb is small");
    let name = file.to_str().expect("text");
    let refused = TraceFile::open(name);
    assert!(
        matches!(&refused, Err(ReplayError::UnpacksTooLarge { .. })),
        "{:?}",
        refused.map(|trace| trace.bytes.len())
    );
    let said = Child::new(STEWARD).args(["replay", name]).run();
    said.assert_code(2);
    assert!(said.stderr.contains("256 MiB") && said.stderr.contains("gzip -d"), "{}", said.stderr);
}

/// Each takes a thousand times the memory of its line.
#[test]
fn owners_phases_and_threads_are_bounded() {
    let trace = |lines: Vec<String>| {
        let count = lines.len() + 2;
        let lines = lines.join("\n");
        let text = format!("# steward host trace 2\n# driver: d\n{lines}\nz,{count}\n");
        let trace = TraceFile { name: "hostile".into(), bytes: text.into_bytes() };
        replay::replay(&trace)
    };
    for (what, most, line) in [
        ("owners", 1 << 14, &(|n| format!("o,{n},0,VkBuffer")) as &dyn Fn(usize) -> String),
        ("phases", 1 << 16, &|_| "p,x".into()),
        ("threads", 1 << 14, &|n| format!("e,{n},0,vkQueueSubmit")),
    ] {
        let refused = trace((1..=4 * most).map(line).collect());
        let error = refused.expect_err("too many").to_string();
        let expected = format!("hostile, line {}: it has more than {most} {what}", most + 3);
        assert!(error.contains(&expected), "{error}");
    }
    assert!(trace((1..=100).map(|n| format!("o,{n},0,VkBuffer")).collect()).is_ok());
}

#[test]
#[cfg(unix)]
fn a_stack_that_names_a_pipe_does_not_wait_for_a_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let reports = folder.path().join("reports");
    let stack = format!("overflow\n    #0  0x10 {}+0x10\n", pipe.display());
    std::fs::write(&reports, &stack).expect("a file");
    let done = Child::new(STEWARD).args(["symbols".as_ref(), reports.as_os_str()]).run();
    done.assert_code(0);
    assert_eq!(done.stdout, stack);
}

#[test]
fn a_file_that_is_larger_than_any_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large");
    // It has no blocks: nothing but its length is there.
    File::create(&file).and_then(|file| file.set_len((1 << 30) + 1)).expect("a sparse file");
    let file = file.to_str().expect("text");
    for arguments in [
        &["replay", file][..],
        &["diff", file, file],
        &["symbols", file],
        &["check", "--trace", file],
        &["check", "--trace", "lavapipe-workload", "--expect", file],
    ] {
        let done = Child::new(STEWARD).args(arguments).run();
        done.assert_code(2);
        assert!(
            done.stderr.contains("more than 1.00 GiB, the most that is read: give a part of it"),
            "{}",
            done.stderr
        );
    }
}
