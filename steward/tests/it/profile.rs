//! Profiles, read back by others than the code that writes them: collapsed stacks by inferno, DHAT's by valgrind's own viewer in a browser,
//! the Firefox Profiler's by the rules of its format.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::parts::text_of;
use inferno::flamegraph;
use serde_json::Value;
use testkit::{Child, Finished, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const TRACE: &str = "lavapipe-workload";

/// A run that writes a profile and its report.
struct Profiled {
    text: String,
    report: Value,
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Runs the program with `--profile NAME --json`.
fn profiled(arguments: &[&str], name: &str) -> Result<Profiled, Finished> {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, json) = (folder.path().join(name), folder.path().join("report.json"));
    let done = Child::new(STEWARD)
        .limit(Duration::from_secs(120))
        .args(arguments)
        .args([Path::new("--profile"), &file])
        .args([Path::new("--json"), &json])
        .run();
    if done.code == Some(2) {
        return Err(done);
    }
    done.assert_code(0);
    let read = |file: &Path| fs::read_to_string(file).expect("it was written");
    Ok(Profiled {
        text: read(&file),
        report: serde_json::from_str(&read(&json)).expect("JSON"),
    })
}

fn of_trace(name: &str) -> Profiled {
    profiled(&["replay", TRACE], name).unwrap_or_else(|done| panic!("{}", done.stderr))
}

/// The program's own driver is always there.
fn of_driver(name: &str) -> Profiled {
    let arguments = [
        "drive",
        "--driver",
        "reference",
        "--no-coverage",
        "--seed=7",
    ];
    profiled(&arguments, name).unwrap_or_else(|done| panic!("{}", done.stderr))
}

/// A sum over the report's call sites.
fn sum_of_sites(report: &Value, sum: &str) -> u64 {
    let sites = report["call_sites"]["sites"].as_array().expect("a list");
    assert!(sites.len() > 10, "{} sites", sites.len());
    sites.iter().map(|site| number(&site[sum]["bytes"])).sum()
}

#[test]
fn collapsed_stacks_are_drawn_as_a_flame_graph() {
    for run in [of_trace("a.folded"), of_driver("a.collapsed")] {
        let lines: Vec<_> = run.text.lines().collect();
        let weights = lines.iter().map(|line| {
            let (_, weight) = line.rsplit_once(' ').expect("a weight");
            weight.parse::<u64>().expect("a number")
        });
        assert_eq!(weights.sum::<u64>(), sum_of_sites(&run.report, "at_peak"));
        let mut svg = Vec::new();
        let mut options = flamegraph::Options::default();
        options.count_name = "bytes".to_owned();
        flamegraph::from_lines(&mut options, lines.iter().copied(), &mut svg)
            .expect("inferno reads the lines");
        let svg = String::from_utf8(svg).expect("text");
        assert!(
            svg.contains("<title>VkInstance, instance (") && svg.contains("vkCreateInstance ("),
            "{:?}",
            run.text
        );
    }
    // A trace has no functions; the program's own driver has.
    let run = of_driver("a.folded");
    assert!(run.text.contains(";reference_driver::"), "{}", run.text);
}

/// A table of the Firefox Profiler's format: its length, and that all its columns have it.
fn length(table: &Value) -> usize {
    let length = number(&table["length"]) as usize;
    for (name, column) in table.as_object().expect("a table") {
        if let Some(column) = column.as_array() {
            assert_eq!(column.len(), length, "the column {name}");
        }
    }
    length
}

/// Every index of a column lies within a table. Where there may be none, `null` is one.
fn indexes(column: &Value, table: usize, may_be_null: bool) -> Vec<Option<usize>> {
    let places = column.as_array().expect("a column").iter();
    places
        .map(|place| match place.as_u64() {
            Some(place) => {
                assert!((place as usize) < table, "{place} of {table}");
                Some(place as usize)
            }
            None => {
                assert!(place.is_null() && may_be_null, "{place}");
                None
            }
        })
        .collect()
}

/// What the Firefox Profiler takes for granted of a processed profile.
pub(crate) fn check_format(profile: &Value) {
    let meta = &profile["meta"];
    for field in [
        "interval",
        "startTime",
        "processType",
        "categories",
        "product",
        "version",
        "preprocessedProfileVersion",
        "symbolicated",
        "markerSchema",
    ] {
        assert!(!meta[field].is_null(), "meta lacks {field}");
    }
    let categories = meta["categories"].as_array().expect("a list").len();
    let schemas: Vec<_> = meta["markerSchema"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|schema| schema["name"].as_str().expect("a name"))
        .collect();
    let libs = profile["libs"].as_array().expect("a list").len();
    let threads = profile["threads"].as_array().expect("a list");
    assert!(!threads.is_empty());
    for thread in threads {
        for field in [
            "name",
            "processType",
            "pid",
            "tid",
            "registerTime",
            "processStartupTime",
        ] {
            assert!(!thread[field].is_null(), "a thread lacks {field}");
        }
        let strings = thread["stringArray"].as_array().expect("strings").len();
        let (functions, frames) = (length(&thread["funcTable"]), length(&thread["frameTable"]));
        let (stacks, resources) = (
            length(&thread["stackTable"]),
            length(&thread["resourceTable"]),
        );
        indexes(&thread["funcTable"]["name"], strings, false);
        indexes(&thread["resourceTable"]["name"], strings, false);
        indexes(&thread["resourceTable"]["lib"], libs, true);
        indexes(&thread["frameTable"]["func"], functions, false);
        indexes(&thread["frameTable"]["category"], categories, true);
        indexes(&thread["stackTable"]["frame"], frames, false);
        let prefixes = indexes(&thread["stackTable"]["prefix"], stacks, true);
        for (place, prefix) in prefixes.into_iter().enumerate() {
            assert!(
                prefix.is_none_or(|prefix| prefix < place),
                "a stack is its own caller"
            );
        }
        assert!(resources <= functions);
        let markers = length(&thread["markers"]);
        indexes(&thread["markers"]["name"], strings, false);
        indexes(&thread["markers"]["category"], categories, false);
        for marker in 0..markers {
            let data = &thread["markers"]["data"][marker];
            assert!(
                schemas.contains(&data["type"].as_str().expect("a type")),
                "{data}"
            );
            let [start, end] = ["startTime", "endTime"]
                .map(|time| thread["markers"][time][marker].as_f64().expect("a time"));
            assert!(start <= end, "{data}");
        }
        length(&thread["samples"]);
        if let Some(samples) = thread.get("nativeAllocations") {
            length(samples);
            indexes(&samples["stack"], stacks, true);
            assert_eq!(samples["weightType"], "bytes");
            let times = samples["time"].as_array().expect("a column");
            let times: Vec<_> = times
                .iter()
                .map(|time| time.as_f64().expect("a time"))
                .collect();
            assert!(times.is_sorted(), "time goes on");
        }
    }
}

/// What the view "Retained Memory" shows, computed as the viewer does: an allocation is retained until a sample frees its address.
pub(crate) fn retained(samples: &Value) -> BTreeMap<u64, i64> {
    let columns =
        ["memoryAddress", "weight"].map(|name| samples[name].as_array().expect("a column"));
    let mut live = BTreeMap::new();
    for (address, weight) in columns[0].iter().zip(columns[1]) {
        let (address, weight) = (number(address), weight.as_i64().expect("bytes"));
        if weight > 0 {
            assert_eq!(
                live.insert(address, weight),
                None,
                "{address} is live twice"
            );
        } else {
            assert_eq!(
                live.remove(&address),
                Some(-weight),
                "{address} is freed as it was allocated"
            );
        }
    }
    live
}

/// The names of a stack's frames, innermost first.
fn names(thread: &Value, stack: usize) -> Vec<String> {
    let (stacks, frames) = (&thread["stackTable"], &thread["frameTable"]);
    std::iter::successors(Some(stack), |stack| {
        stacks["prefix"][*stack]
            .as_u64()
            .map(|prefix| prefix as usize)
    })
    .map(|stack| {
        let function = &frames["func"][number(&stacks["frame"][stack]) as usize];
        let name = &thread["funcTable"]["name"][number(function) as usize];
        let name = &thread["stringArray"][number(name) as usize];
        name.as_str().expect("a name").to_owned()
    })
    .collect()
}

/// The markers of one type: their names, by their moments.
fn markers(profile: &Value, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    for thread in profile["threads"].as_array().expect("a list") {
        let markers = &thread["markers"];
        for (place, data) in markers["data"]
            .as_array()
            .expect("a column")
            .iter()
            .enumerate()
        {
            if data["type"] == kind {
                let name = number(&markers["name"][place]) as usize;
                let name = thread["stringArray"][name].as_str().expect("a name");
                found.push((markers["startTime"][place].as_f64(), name.to_owned()));
            }
        }
    }
    found.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    found.into_iter().map(|(_, name)| name).collect()
}

fn check_firefox(run: &Profiled) -> Value {
    let profile: Value = serde_json::from_str(&run.text).expect("JSON");
    check_format(&profile);
    let report = &run.report;
    let main = &profile["threads"][0];
    let samples = &main["nativeAllocations"];
    let taken: i64 = samples["weight"]
        .as_array()
        .expect("a column")
        .iter()
        .filter_map(Value::as_i64)
        .filter(|weight| *weight > 0)
        .sum();
    assert!(
        taken as u64 >= sum_of_sites(report, "total"),
        "a block that is resized is two samples"
    );
    let left: i64 = retained(samples).values().sum();
    assert_eq!(
        left as u64,
        sum_of_sites(report, "left"),
        "what is never freed is retained"
    );
    let phases: Vec<_> = report["phases"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    let names: Vec<_> = phases
        .iter()
        .filter_map(|phase| phase["name"].as_str())
        .collect();
    assert_eq!(markers(&profile, "Phase"), names);
    let commands: u64 = phases.iter().map(|phase| number(&phase["commands"])).sum();
    assert_eq!(markers(&profile, "VulkanCommand").len() as u64, commands);
    // A counter has changes: at the end it has what is left of its scope.
    let counters = profile["counters"].as_array().expect("a list");
    for scope in ["instance", "device", "cache", "object", "command"] {
        let sites = report["call_sites"]["sites"].as_array().expect("a list");
        let of_scope = || sites.iter().filter(|site| site["scope"] == scope);
        let counter = counters
            .iter()
            .find(|counter| counter["name"] == format!("Scope {scope}").as_str());
        assert_eq!(counter.is_some(), of_scope().next().is_some(), "{scope}");
        if let Some(counter) = counter {
            let counts = counter["samples"]["count"].as_array().expect("a column");
            let end: f64 = counts.iter().filter_map(Value::as_f64).sum();
            let left: u64 = of_scope().map(|site| number(&site["left"]["bytes"])).sum();
            assert_eq!(end, left as f64, "{scope}");
        }
    }
    profile
}

#[test]
fn a_replay_in_the_firefox_profilers_format_has_the_bytes_of_the_report_at_the_end_of_each_phase() {
    let run = of_trace("a.json");
    let profile = check_firefox(&run);
    let main = &profile["threads"][0];
    let (samples, markers) = (&main["nativeAllocations"], &main["markers"]);
    let column = |table: &Value, name: &str| -> Vec<f64> {
        let column = table[name].as_array().expect("a column").iter();
        column
            .map(|value| value.as_f64().unwrap_or(f64::NAN))
            .collect()
    };
    let changes: Vec<_> = column(samples, "time")
        .into_iter()
        .zip(column(samples, "weight"))
        .collect();
    let ends = column(markers, "endTime");
    let phases = run.report["phases"].as_array().expect("a list");
    assert!(phases.len() > 5);
    for (phase, end) in phases.iter().zip(ends) {
        let live: f64 = changes
            .iter()
            .filter(|(at, _)| *at <= end)
            .map(|(_, bytes)| bytes)
            .sum();
        assert_eq!(
            live,
            number(&phase["live_bytes"]) as f64,
            "{}",
            phase["name"]
        );
    }
}

#[test]
fn a_run_in_the_firefox_profilers_format_has_stacks_below_owner_and_command() {
    let run = of_driver("a.json");
    let profile = check_firefox(&run);
    let thread = &profile["threads"][0];
    let stacks = thread["nativeAllocations"]["stack"]
        .as_array()
        .expect("a column");
    let stacks: Vec<_> = stacks
        .iter()
        .filter_map(|stack| Some(names(thread, stack.as_u64()? as usize)))
        .collect();
    let of_buffers = stacks
        .iter()
        .find(|stack| stack.contains(&"vkCreateBuffer".to_owned()))
        .expect("a buffer was created");
    let owner = of_buffers.last().expect("a frame");
    assert_eq!(owner, "VkBuffer, object");
    let function = of_buffers.first().expect("a frame");
    assert!(function.contains("::"), "{of_buffers:?}");
}

/// Valgrind's viewer with the profile in it, in a browser; its text.
pub(crate) fn viewed(test: &str, profile: &str) -> Option<String> {
    let files = Path::new("/usr/libexec/valgrind");
    if !files.join("dh_view.html").is_file() {
        skip("dh_view", test, "there is no dh_view.html of valgrind");
        return None;
    }
    let has_browser = Command::new("chromium").arg("--version").output();
    if !has_browser.is_ok_and(|done| done.status.success()) {
        skip("chromium", test, "there is no chromium");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for name in ["dh_view.js", "dh_view.css"] {
        fs::copy(files.join(name), folder.join(name)).expect("a copy");
    }
    // What its button does once the user has chosen a file.
    let load = format!(
        "<script>function show() {{ tryFunc(() => {{ gFilename = 'profile'; gData = {}; buildTree(); displayTree(0, 0, 0); }}) }}</script></head>",
        profile.replace("</", "<\\/")
    );
    let page = fs::read_to_string(files.join("dh_view.html")).expect("the viewer");
    let begin = "onload=\"onLoad()\"";
    assert!(page.contains("</head>") && page.contains(begin));
    let page = page.replace(begin, "onload=\"onLoad(); show()\"");
    let file = folder.join("view.html");
    fs::write(&file, page.replace("</head>", &load)).expect("a file");
    let done = Child::new("chromium")
        .limit(Duration::from_secs(120))
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args([
            format!("--user-data-dir={}", folder.join("browser").display()),
            format!("file://{}", file.display()),
        ])
        .run();
    done.assert_code(0);
    // The script above is no text of the page's.
    let (_, body) = done.stdout.split_once("</head>").expect("a body");
    Some(text_of(body))
}

/// As the viewer writes numbers.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    let groups: Vec<_> = groups
        .iter()
        .map(|group| String::from_utf8_lossy(group))
        .collect();
    groups.join(",")
}

#[test]
fn valgrinds_viewer_shows_the_sums_of_the_report() {
    for (name, run) in [
        ("replay", of_trace("a.dhat")),
        ("drive", of_driver("a.dhat.json")),
    ] {
        let file: Value = serde_json::from_str(&run.text).expect("JSON");
        assert_eq!(file["mode"], "steward");
        let Some(shown) = viewed("valgrinds_viewer_shows_the_sums_of_the_report", &run.text) else {
            return;
        };
        for (of, sum) in [
            ("Total", "total"),
            ("At t-gmax", "at_peak"),
            ("At t-end", "left"),
        ] {
            let bytes = with_commas(sum_of_sites(&run.report, sum));
            assert!(
                shown.contains(&format!("{of}: {bytes} bytes")),
                "{name}: {of} {bytes}: {shown}"
            );
        }
        // The viewer unfolds what is most of it, by blocks.
        let mut blocks: BTreeMap<[String; 2], u64> = BTreeMap::new();
        for site in run.report["call_sites"]["sites"]
            .as_array()
            .expect("a list")
        {
            let [context, scope, command] =
                ["context", "scope", "command"].map(|name| site[name].as_str().expect("text"));
            let labels = [format!("{context}, {scope}"), command.to_owned()];
            *blocks.entry(labels).or_default() += number(&site["total"]["blocks"]);
        }
        let (most, _) = blocks
            .iter()
            .max_by_key(|(_, blocks)| **blocks)
            .expect("a site");
        for said in [&most[0], &most[1], "Allocated at {"] {
            assert!(shown.contains(said), "{name}: {said}: {shown}");
        }
        assert!(
            !shown.contains("Error:") && !shown.contains("missing a field"),
            "{shown}"
        );
    }
    // The viewer would have said that.
    let broken = of_trace("a.dhat").text.replace("\"bklt\"", "\"other\"");
    if let Some(shown) = viewed("valgrinds_viewer_shows_the_sums_of_the_report", &broken) {
        assert!(
            shown.contains("data file is missing a field: bklt"),
            "{shown}"
        );
    }
}

#[test]
fn a_profile_goes_to_the_standard_output_alone() {
    let done = Child::new(STEWARD)
        .args(["replay", TRACE, "--profile", "-"])
        .run();
    done.assert_code(0);
    let profile: Value = serde_json::from_str(&done.stdout).expect("JSON alone");
    check_format(&profile);
}

#[test]
fn a_check_writes_a_profile_too() {
    let arguments = ["check", "--trace", TRACE];
    let run = profiled(&arguments, "a.folded").unwrap_or_else(|done| panic!("{}", done.stderr));
    assert!(
        run.text.contains("VkInstance, instance;vkCreateInstance;"),
        "{}",
        run.text
    );
}

#[test]
fn what_has_no_call_stacks_refuses_a_profile_and_says_what_to_do() {
    for arguments in [
        &["drivers"][..],
        &["diff", "a", "b"],
        &["rules"],
        &["drive", "--driver", "all"],
        &["drive", "--driver", "reference", "--layer"],
        &["drive", "--driver", "reference", "--fail=each"],
        &["check", "--write-expect", "x.toml"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.json");
        let done = Child::new(STEWARD)
            .args(arguments)
            .args([Path::new("--profile"), &file])
            .run();
        done.assert_code(2);
        assert!(
            done.stderr
                .contains("--profile needs one run whose call stacks are kept"),
            "{arguments:?}: {}",
            done.stderr
        );
        assert!(!file.exists());
    }
}
