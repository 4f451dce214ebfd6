//! Replays against a parser of a few lines that shares no code with them; and traces that are wrong in every way.

mod findings;
mod refused;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use testkit::{Child, Finished, Rng, host_trace};
use vk_steward::replay::bundled::TRACES;
use vk_steward::replay::{self, TraceFile};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

/// Numbers by scope.
type Five = [u64; 5];

/// One phase, by the parser below.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plain {
    name: String,
    commands: u64,
    taken: Five,
    freed: Five,
    bytes: Five,
    live: Five,
    live_blocks: Five,
    peak: u64,
}

/// Reads a trace that has no faults.
fn parse(text: &str) -> Vec<Plain> {
    let (mut phases, mut live) = (vec![Plain::default()], std::collections::HashMap::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let field: Vec<&str> = line.split(',').collect();
        let number = |at: usize| field[at].parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
        let op = field[0];
        let name = (op == "p").then(|| field[1]);
        if let Some(name) = name.filter(|name| *name != phases[phases.len() - 1].name) {
            let Plain { live, live_blocks, .. } = phases[phases.len() - 1].clone();
            phases.push(Plain { name: name.into(), live, live_blocks, peak: live.iter().sum(), ..Plain::default() });
        }
        let phase = phases.last_mut().expect("there is one");
        phase.commands += u64::from(op == "e");
        let (old, new) = match op {
            "a" => (None, Some((number(3), number(4), number(6)))),
            "r" => (Some(number(3)), Some((number(4), number(5), number(7)))),
            "f" => (Some(number(3)), None),
            _ => continue,
        };
        let before = old.filter(|old| *old != 0).map(|old| live.remove(&old).unwrap_or_else(|| panic!("{line}")));
        if let Some((size, scope)) = before {
            phase.live[scope] -= size;
            phase.live_blocks[scope] -= 1;
            phase.freed[scope] += u64::from(new.is_none());
        }
        if let Some((id, size, scope)) = new {
            let scope = scope as usize;
            phase.taken[scope] += u64::from(before.is_none());
            phase.bytes[scope] += size.saturating_sub(before.map_or(0, |(size, _): (u64, usize)| size));
            phase.live[scope] += size;
            phase.live_blocks[scope] += 1;
            live.insert(id, (size, scope));
        }
        phase.peak = phase.peak.max(phase.live.iter().sum());
    }
    phases.split_off(1)
}

fn text_of(compressed: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(compressed).read_to_string(&mut text).expect("a bundled trace is gzip-compressed text");
    text
}

fn steward(args: &[&str]) -> Finished {
    Child::new(STEWARD).args(args).run()
}

fn replay_json(file: &str) -> (Finished, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let done = steward(&["replay", file, "--findings", "--json", json.to_str().expect("a plain path")]);
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}\n{done}"));
    (done, serde_json::from_str(&text).expect("JSON"))
}

fn five(value: &Value) -> Five {
    ["command", "object", "cache", "device", "instance"].map(|scope| value[scope].as_u64().expect("a number"))
}

#[test]
fn the_bundled_traces_add_up_as_a_plain_parser_says() {
    for trace in TRACES {
        let expected = parse(&text_of(trace.compressed));
        assert!(expected.len() > 3 && expected.iter().any(|phase| phase.peak > 0), "{}", trace.name);
        let (done, report) = replay_json(trace.name);
        done.assert_code(0);
        let phases: Vec<_> = report["phases"].as_array().expect("a list").iter().map(plain).collect();
        assert_eq!(phases, expected, "{}", trace.name);
        for phase in report["phases"].as_array().expect("a list") {
            for (sum, by_scope) in
                [("blocks", "blocks_by_scope"), ("freed", "freed_by_scope"), ("bytes", "bytes_by_scope")]
            {
                assert_eq!(phase[sum], five(&phase[by_scope]).iter().sum::<u64>(), "{sum} of {phase}");
            }
            assert_eq!(phase["live_bytes"], five(&phase["live_by_scope"]).iter().sum::<u64>());
        }
        let peak = expected.iter().map(|phase| phase.peak).max();
        assert_eq!(report["peak_bytes"].as_u64(), peak, "{}", trace.name);
        timeline_agrees(&report, &expected);
        // The contexts: what all phases took, and nothing else; live as at the end of the fullest phase.
        let rows = report["contexts"].as_array().expect("a list");
        let sum = |of: &str| {
            rows.iter().filter(|row| row["group"] == false).map(|row| row[of].as_u64().unwrap_or(0)).sum::<u64>()
        };
        let all = |of: fn(&Plain) -> Five| expected.iter().flat_map(of).sum::<u64>();
        assert_eq!((sum("total_blocks"), sum("total_bytes")), (all(|p| p.taken), all(|p| p.bytes)), "{}", trace.name);
        let fullest = expected.iter().max_by_key(|phase| phase.live.iter().sum::<u64>()).expect("a phase");
        assert_eq!((sum("live_bytes"), &rows[0]["live_by_scope"]), (fullest.live.iter().sum(), &by_name(fullest.live)));
        assert_eq!(report["leftovers"].as_array().map(Vec::len), Some(0));
        assert_eq!(all(|p| p.taken), all(|p| p.freed), "the trace gives everything back");
        assert!(done.stdout.contains(&format!("({} bytes, exact)", peak.unwrap_or(0))), "{done}");
    }
}

/// The highest sample is the peak, and each phase's last one is what was live at its end.
fn timeline_agrees(report: &Value, expected: &[Plain]) {
    let samples = report["timeline"].as_array().expect("a list");
    assert!(samples.len() <= 400 + 2 * expected.len(), "{} samples", samples.len());
    let live = |sample: &Value| five(&sample["live_by_scope"]);
    let highest = samples.iter().map(|sample| live(sample).iter().sum::<u64>()).max();
    assert_eq!(highest, expected.iter().map(|phase| phase.peak).max());
    for (index, phase) in expected.iter().enumerate() {
        let last = samples.iter().rfind(|sample| sample["phase"] == index).expect("a sample of each phase");
        assert_eq!(live(last), phase.live, "{}", phase.name);
    }
}

fn plain(phase: &Value) -> Plain {
    Plain {
        name: phase["name"].as_str().expect("a name").into(),
        commands: phase["commands"].as_u64().expect("a number"),
        taken: five(&phase["blocks_by_scope"]),
        freed: five(&phase["freed_by_scope"]),
        bytes: five(&phase["bytes_by_scope"]),
        live: five(&phase["live_by_scope"]),
        live_blocks: five(&phase["live_blocks_by_scope"]),
        peak: phase["peak_bytes"].as_u64().expect("a number"),
    }
}

fn by_name(five: Five) -> Value {
    let [command, object, cache, device, instance] = five;
    serde_json::json!({ "command": command, "object": object, "cache": cache, "device": device, "instance": instance })
}

const HEAD: &str = "# steward host trace 2\n# driver: made up\n";

/// A trace of format 2 with these lines, and its end marker.
fn trace(lines: &str) -> String {
    format!("{HEAD}{lines}z,{}\n", 2 + lines.lines().count())
}

fn replay_text(text: impl AsRef<[u8]>) -> (Finished, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.trace");
    fs::write(&file, text).expect("a file");
    replay_json(file.to_str().expect("a plain path"))
}

/// In one line: sentences break at the terminal's width.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn made_up_traces_replay_to_the_truth_about_them() {
    let (mut not_live, mut blocks) = (0, 0);
    for seed in 0..1000 {
        let mut rng = Rng::new(seed);
        let len = 16 + rng.below(497) as usize;
        let (text, truth) = host_trace(&rng.bytes(len));
        let file = TraceFile { name: "made up".into(), bytes: text.into_bytes() };
        let report = replay::replay(&file).expect("a whole trace");
        let left = report.leftovers.iter();
        let left = left.fold((0, 0), |sum, left| (sum.0 + left.blocks, sum.1 + left.bytes));
        assert_eq!(report.peak_bytes, truth.peak_bytes, "seed {seed}");
        assert_eq!(left, (truth.live_blocks, truth.live_bytes), "seed {seed}");
        (not_live, blocks) = (not_live + truth.not_live, blocks + truth.blocks);
    }
    assert!(not_live > 0 && blocks > 2 * not_live);
}

#[test]
fn output_into_a_closed_pipe_is_no_error() {
    let script = "\"$0\" replay lavapipe-workload | head -1; exit ${PIPESTATUS[0]}";
    let done = Command::new("bash").args(["-c", script, STEWARD]).output();
    let Ok(done) = done else {
        return testkit::skip("bash", "output_into_a_closed_pipe_is_no_error", "no bash");
    };
    assert_eq!(String::from_utf8_lossy(&done.stdout), "trace: lavapipe-workload (bundled)\n");
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
}
