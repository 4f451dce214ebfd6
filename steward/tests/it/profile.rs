//! Profiles, read back by others than the code that writes them: collapsed stacks by inferno, the Firefox Profiler's by
//! the rules of its format.

pub(crate) mod firefox;

use std::fs;
use std::path::Path;
use std::time::Duration;

use inferno::flamegraph;
use serde_json::Value;
use testkit::{Child, Finished};

use firefox::check_format;

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const TRACE: &str = "lavapipe-workload";

/// A run that writes a profile and its report.
struct Profiled {
    text: String,
    report: Value,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
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
    Ok(Profiled { text: read(&file), report: serde_json::from_str(&read(&json)).expect("JSON") })
}

fn of_trace(name: &str) -> Profiled {
    profiled(&["replay", TRACE], name).unwrap_or_else(|done| panic!("{}", done.stderr))
}

/// The program's own driver is always there.
fn of_driver(name: &str) -> Profiled {
    let arguments = ["drive", "--driver", "reference", "--no-coverage", "--seed=7"];
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
        flamegraph::from_lines(&mut options, lines.iter().copied(), &mut svg).expect("inferno reads the lines");
        let svg = String::from_utf8(svg).expect("text");
        assert!(svg.contains("<title>VkInstance, instance (") && svg.contains("vkCreateInstance ("), "{:?}", run.text);
    }
    // A trace has no functions; the program's own driver has.
    let run = of_driver("a.folded");
    assert!(run.text.contains(";reference_driver::"), "{}", run.text);
}

#[test]
fn a_profile_goes_to_the_standard_output_alone() {
    let done = Child::new(STEWARD).args(["replay", TRACE, "--profile", "-"]).run();
    done.assert_code(0);
    let profile: Value = serde_json::from_str(&done.stdout).expect("JSON alone");
    check_format(&profile);
}

#[test]
fn a_check_writes_a_profile_too() {
    let arguments = ["check", "--trace", TRACE];
    let run = profiled(&arguments, "a.folded").unwrap_or_else(|done| panic!("{}", done.stderr));
    assert!(run.text.contains("VkInstance, instance;vkCreateInstance;"), "{}", run.text);
}

#[test]
fn what_has_no_call_stacks_refuses_a_profile_and_says_what_to_do() {
    for (arguments, said) in [
        (&["drivers"][..], "unexpected argument '--profile' found"),
        (&["diff", "a", "b"], "unexpected argument '--profile' found"),
        (&["rules"], "unexpected argument '--profile' found"),
        (&["drive", "--driver", "all"], "name it with --driver"),
        (&["drive", "--driver", "reference", "--fail=each"], "leave --profile out"),
        (&["check", "--write-expect", "x.toml"], "'--write-expect <FILE>' cannot be used with '--profile"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.json");
        let done = Child::new(STEWARD).args(arguments).args([Path::new("--profile"), &file]).run();
        done.assert_code(2);
        assert!(done.stderr.contains(said), "{arguments:?}: {}", done.stderr);
        assert!(!file.exists());
    }
}
