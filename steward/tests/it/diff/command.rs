//! `steward diff` as people and scripts call it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Child, Finished, skip};
use vk_report::report::{
    self, DeviceAccounts, InstanceAccounts, PhaseStarts, ProgramAccounts, Report, VulkanMemory, VulkanMemoryRow,
};
use vk_steward::diff::{Change, Diff, Part};
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{ReadError, ReportOrList};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

fn steward(args: &[&str]) -> Finished {
    Child::new(STEWARD).args(args).run()
}

#[test]
fn the_command_says_what_differs_and_names_bad_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (one, two, cut, out) = (path("one.json"), path("two.json"), path("cut.json"), path("out"));
    steward(&["replay", TRACES[0].name, "--json", &one]).assert_code(0);
    steward(&["replay", TRACES[1].name, "--json", &two]).assert_code(0);
    fs::write(&cut, &fs::read(&one).expect("a report")[..5000]).expect("a file");

    let done = steward(&["diff", &one, &one, "--exit-code"]);
    done.assert_code(0);
    assert!(done.stdout.ends_with("\nno difference\n"), "{done}");
    steward(&["diff", &one, &two]).assert_code(0);
    let done = steward(&["diff", &one, &two, "--exit-code", "--json", &out]);
    done.assert_code(1);
    assert!(done.stdout.contains("\ncontexts ") && done.stdout.contains("VkInstance"), "{done}");
    let told: Value = serde_json::from_slice(&fs::read(&out).expect("a file")).expect("JSON");
    assert_eq!(told["format"], Diff::FORMAT);
    assert!(told["changes"].as_array().is_some_and(|changes| changes.len() > 10), "{told}");

    // As behind `steward --json - |`.
    let piped = |input: &str| {
        let input = fs::File::open(input).expect("a file");
        let done = Command::new(STEWARD)
            .args(["diff", &one, "-", "--exit-code"])
            .stdin(input)
            .output()
            .expect("the program starts");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert_eq!((piped(&one), piped(&two).0), ((Some(0), String::new()), Some(1)));
    assert!(piped(&cut).1.starts_with("steward: the standard input, line "), "{:?}", piped(&cut));

    for (args, said) in [
        (["diff", &one, &cut], "cut.json, line "),
        (["diff", &cut, &one], "cut.json, line "),
        (["diff", &one, "no such file"], "no such file cannot be read ("),
        (["diff", "/dev/null", &one], "/dev/null, line 1, column "),
    ] {
        let done = steward(&args);
        done.assert_code(2);
        assert!(
            done.stderr.starts_with("steward: ") && done.stderr.contains(said) && done.stderr.contains("--json"),
            "{done}"
        );
        assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("", 1), "{done}");
    }
}

/// What a driver's own threads free sooner or later is no difference; 1 % more is one, and so is what is left.
#[test]
fn two_runs_of_one_seed_are_equal_and_one_percent_more_is_not() {
    const TEST: &str = "two_runs_of_one_seed_are_equal_and_one_percent_more_is_not";
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second, planted] = ["first.json", "second.json", "planted.json"].map(|name| folder.path().join(name));
    let run = |json: &Path| {
        Child::new(env!("CARGO_BIN_EXE_steward"))
            .args(["drive", "--driver", "lavapipe", "--seed", "7", "--json"])
            .args([json])
            .run()
    };
    let done = run(&first);
    if done.code == Some(2) {
        skip("lavapipe", TEST, done.stderr.lines().next().unwrap_or_default());
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
    let device = rows.iter_mut().find(|row| row["name"] == "VkDevice").expect("a device");
    let bytes = device["total_bytes"].as_u64().expect("bytes");
    device["total_bytes"] = (bytes + bytes / 100).into();
    fs::write(&planted, report.to_string()).expect("a file");
    let shown = compare(&planted, &[]);
    shown.assert_code(1);
    assert!(shown.stdout.contains("\n1 difference; the largest of contexts: VkDevice, taken +8."), "{shown}");
    compare(&planted, &["--threshold", "2"]).assert_code(0);
    compare(&planted, &["--ignore", "VkDevice"]).assert_code(0);
    // It would show nothing, whatever differs.
    compare(&planted, &["--top", "0"]).assert_code(2);
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

/// Three rounds more of what leaves nothing are hardly a difference; one block more a round is one.
#[test]
fn unlike_many_rounds_are_compared_by_the_round() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = |rounds: &str| {
        let file = folder.path().join(format!("{rounds}.json"));
        let args = ["drive", "--driver", "reference", "--no-coverage", "--seed", "7"];
        let child = Child::new(STEWARD).args(args).args(["--rounds", rounds]);
        child.args([Path::new("--json"), &file]).run().assert_code(0);
        let text = fs::read(&file).expect("a report");
        serde_json::from_slice::<Report>(&text).expect("a report")
    };
    let (one, four) = (report("1"), report("4"));
    let compare = |after: &Report| {
        let [before, after] = [&one, after].map(|report| ReportOrList::Report(Box::new(report.clone())));
        Diff::of(Some(&before), Some(&after))
    };
    let diff = compare(&four);
    assert!(diff.unlike_rounds);
    assert!(diff.to_string().contains("\"a round\" is a mean"), "{diff}");
    // These are created in a phase that comes once, too.
    let also_once = ["VkDevice", "VkDeviceMemory", "VkBuffer", "VkCommandPool", "VkFence"];
    let by_kind = |diff: &Diff| -> Vec<_> {
        let of = |change: &&Change| change.part == Part::Contexts && !also_once.contains(&&*change.name);
        let shown = |change: &Change| (change.name.clone(), change.measure.clone(), change.before, change.after);
        diff.changes.iter().filter(of).map(shown).collect()
    };
    assert_eq!(by_kind(&diff), [], "{diff}");
    let mut more = four.clone();
    let images = more.contexts.iter_mut().find(|row| row.name == "VkImage");
    let images = images.expect("images were created");
    let a_round = images.total_blocks / 4;
    images.total_blocks += 4;
    let wanted = ("VkImage".to_owned(), "blocks a round".to_owned(), Some(a_round), Some(a_round + 1));
    assert_eq!(by_kind(&compare(&more)), [wanted]);
    // What is no whole multiple did not come with each round: nothing of that name is a mean.
    let images = more.contexts.iter_mut().find(|row| row.name == "VkImage");
    images.expect("as before").total_blocks -= 3;
    let shown = by_kind(&compare(&more));
    let wanted = ("VkImage".to_owned(), "blocks".to_owned(), Some(a_round), Some(4 * a_round + 1));
    assert!(shown.contains(&wanted), "{shown:?}");
    assert!(shown.iter().all(|(_, measure, ..)| !measure.ends_with("a round")));
}

/// What the layer writes at a request, with so many buffers alive of one call of the program.
fn of_layer(buffers: u64, heap: u64) -> String {
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
    let heap = VulkanMemoryRow { index: 1, live_bytes: heap, ..VulkanMemoryRow::default() };
    let memory = VulkanMemory { heaps: vec![heap], ..VulkanMemory::default() };
    let instance = InstanceAccounts { devices: vec![DeviceAccounts::default()], ..InstanceAccounts::default() };
    let accounts = ProgramAccounts { instances: vec![instance], ..ProgramAccounts::default() };
    let leaks = serde_json::from_value(leaks).expect("a list");
    let Report { source, .. } = Report::of_stacks(7, 9, &leaks);
    let report =
        Report { leaks: Some(leaks), ..Report::of_program(source, accounts, vec![memory], PhaseStarts::default()) };
    report::json(&report).expect("JSON")
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
        ("instance 1, device 1, heap 1", "live", Some(4096), Some(8192)),
        (place, "bytes", Some(512), Some(1280)),
        (place, "objects", Some(2), Some(5)),
        (&*named, "objects", None, Some(1)),
    ];
    assert_eq!(changes, expected, "{told}");
    assert!(told.to_string().contains("\ndevice memory"), "{told}");
    let same = of_layer(2, 4096).replace("\"lost_blocks\"", "\"lost\"");
    let refused = ReportOrList::parse("report", same.as_bytes());
    assert!(matches!(refused, Err(ReadError::Malformed { .. })), "{refused:?}");
}
