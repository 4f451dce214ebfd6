//! Replays against a parser of a few lines that shares no code with them; and traces that are wrong in every way.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use alloc_core::{Context, ContextHandle, ContextOptions, Scope};
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use testkit::{Child, Finished, RecordingAllocator};
use vk_callbacks::replay::{ReplayTarget, Totals};
use vk_callbacks::{Replay, TraceReader};
use vk_steward::bundled::TRACES;
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

/// Reads a trace of either format that has no faults.
fn parse(text: &str) -> Vec<Plain> {
    let first = text.starts_with("# host-allocation trace");
    let (mut phases, mut live) = (vec![Plain::default()], std::collections::HashMap::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let field: Vec<&str> = line.split(',').collect();
        let number = |at: usize| {
            field[at]
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{line}"))
        };
        let op = field[0];
        let name = if first {
            Some(field[7])
        } else {
            (op == "p").then(|| field[1])
        };
        if let Some(name) = name.filter(|name| *name != phases[phases.len() - 1].name) {
            let Plain {
                live, live_blocks, ..
            } = phases[phases.len() - 1].clone();
            phases.push(Plain {
                name: name.into(),
                live,
                live_blocks,
                peak: live.iter().sum(),
                ..Plain::default()
            });
        }
        let phase = phases.last_mut().expect("there is one");
        phase.commands += u64::from(op == "e");
        let (old, new) = match (op, first) {
            ("a", true) => (None, Some((number(1), number(3), number(5)))),
            ("r", true) => (Some(number(1)), Some((number(2), number(3), number(5)))),
            ("f", true) => (Some(number(1)), None),
            ("a", false) => (None, Some((number(3), number(4), number(6)))),
            ("r", false) => (Some(number(3)), Some((number(4), number(5), number(7)))),
            ("f", false) => (Some(number(3)), None),
            _ => continue,
        };
        let before = old
            .filter(|old| *old != 0)
            .map(|old| live.remove(&old).unwrap_or_else(|| panic!("{line}")));
        if let Some((size, scope)) = before {
            phase.live[scope] -= size;
            phase.live_blocks[scope] -= 1;
            phase.freed[scope] += u64::from(new.is_none());
        }
        if let Some((id, size, scope)) = new {
            let scope = scope as usize;
            phase.taken[scope] += u64::from(before.is_none());
            phase.bytes[scope] +=
                size.saturating_sub(before.map_or(0, |(size, _): (u64, usize)| size));
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
    GzDecoder::new(compressed)
        .read_to_string(&mut text)
        .expect("a bundled trace is gzip-compressed text");
    text
}

fn steward(args: &[&str]) -> Finished {
    Child::new(STEWARD).args(args).run()
}

fn replay_json(file: &str) -> (Finished, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let done = steward(&[
        "replay",
        file,
        "--findings",
        "--json",
        json.to_str().expect("a plain path"),
    ]);
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}\n{done}"));
    (done, serde_json::from_str(&text).expect("JSON"))
}

fn five(value: &Value) -> Five {
    ["command", "object", "cache", "device", "instance"]
        .map(|scope| value[scope].as_u64().expect("a number"))
}

#[test]
fn the_bundled_traces_add_up_as_a_plain_parser_says() {
    for trace in TRACES {
        let expected = parse(&text_of(trace.compressed));
        assert!(
            expected.len() > 3 && expected.iter().any(|phase| phase.peak > 0),
            "{}",
            trace.name
        );
        let (done, report) = replay_json(trace.name);
        done.assert_code(0);
        let phases: Vec<_> = report["phases"]
            .as_array()
            .expect("a list")
            .iter()
            .map(plain)
            .collect();
        assert_eq!(phases, expected, "{}", trace.name);
        for phase in report["phases"].as_array().expect("a list") {
            for (sum, by_scope) in [
                ("blocks", "blocks_by_scope"),
                ("freed", "freed_by_scope"),
                ("bytes", "bytes_by_scope"),
            ] {
                assert_eq!(
                    phase[sum],
                    five(&phase[by_scope]).iter().sum::<u64>(),
                    "{sum} of {phase}"
                );
            }
            assert_eq!(
                phase["live_bytes"],
                five(&phase["live_by_scope"]).iter().sum::<u64>()
            );
        }
        let peak = expected.iter().map(|phase| phase.peak).max();
        assert_eq!(report["peak_bytes"].as_u64(), peak, "{}", trace.name);
        timeline_agrees(&report, &expected);
        // The contexts: what all phases took, and nothing else; live as at the end of the fullest phase.
        let rows = report["contexts"].as_array().expect("a list");
        let sum = |of: &str| {
            rows.iter()
                .filter(|row| row["group"] == false)
                .map(|row| row[of].as_u64().unwrap_or(0))
                .sum::<u64>()
        };
        let all = |of: fn(&Plain) -> Five| expected.iter().flat_map(of).sum::<u64>();
        assert_eq!(
            (sum("total_blocks"), sum("total_bytes")),
            (all(|p| p.taken), all(|p| p.bytes)),
            "{}",
            trace.name
        );
        let fullest = expected
            .iter()
            .max_by_key(|phase| phase.live.iter().sum::<u64>())
            .expect("a phase");
        assert_eq!(
            (sum("live_bytes"), &rows[0]["live_by_scope"]),
            (fullest.live.iter().sum(), &by_name(fullest.live))
        );
        assert_eq!(report["leftovers"].as_array().map(Vec::len), Some(0));
        assert_eq!(
            all(|p| p.taken),
            all(|p| p.freed),
            "the trace gives everything back"
        );
        assert!(
            done.stdout
                .contains(&format!("({} bytes, exact)", peak.unwrap_or(0))),
            "{done}"
        );
    }
}

/// The highest sample is the peak, and each phase's last one is what was live at its end.
fn timeline_agrees(report: &Value, expected: &[Plain]) {
    let samples = report["timeline"].as_array().expect("a list");
    assert!(
        samples.len() <= 400 + 2 * expected.len(),
        "{} samples",
        samples.len()
    );
    let live = |sample: &Value| five(&sample["live_by_scope"]);
    let highest = samples
        .iter()
        .map(|sample| live(sample).iter().sum::<u64>())
        .max();
    assert_eq!(highest, expected.iter().map(|phase| phase.peak).max());
    for (index, phase) in expected.iter().enumerate() {
        let last = samples
            .iter()
            .rfind(|sample| sample["phase"] == index)
            .expect("a sample of each phase");
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

/// One context for the whole trace, over a witness; compared at each phase's end.
struct WatchedHost<'w> {
    context: Context,
    witness: &'w RecordingAllocator,
    expected: Vec<Plain>,
    ended: usize,
}

impl ReplayTarget for WatchedHost<'_> {
    type Sink = ContextHandle;

    fn sink(&mut self, _: u64) -> ContextHandle {
        self.context.handle()
    }

    fn phase_end(&mut self, phase: &str, totals: &Totals) {
        let expected = &self.expected[self.ended];
        assert_eq!(phase, expected.name);
        for scope in Scope::ALL {
            let (own, seen, at) = (
                self.context.usage().scope(scope),
                self.witness.scope(scope),
                scope.index(),
            );
            let live = [
                own.live_bytes,
                own.live_blocks,
                own.total_blocks,
                own.total_bytes,
            ];
            assert_eq!(
                live,
                [
                    seen.live_bytes,
                    seen.live_blocks,
                    seen.allocations,
                    seen.total_bytes
                ],
                "{phase}, {scope}"
            );
            let [bytes, blocks] = [
                totals.scope(scope).live_bytes,
                totals.scope(scope).live_blocks,
            ];
            assert_eq!(
                (bytes, blocks),
                (expected.live[at], expected.live_blocks[at]),
                "{phase}, {scope}"
            );
            // The root's own record lies in the scope that it was made with.
            if scope != Scope::Device {
                assert_eq!(own.live_bytes, expected.live[at], "{phase}, {scope}");
            }
        }
        self.ended += 1;
    }
}

#[test]
fn contexts_agree_with_the_witness_at_every_phase_of_a_replay() {
    for trace in TRACES {
        let (text, witness) = (text_of(trace.compressed), RecordingAllocator::system());
        let options = ContextOptions::new("trace").scope(Scope::Device);
        // SAFETY: the witness outlives the root, which is closed below.
        let context = unsafe { Context::root(&witness, options) }.expect("the system has memory");
        let mut watched = WatchedHost {
            context,
            witness: &witness,
            expected: parse(&text),
            ended: 0,
        };
        let records = RecordingAllocator::system();
        let mut replay = Replay::new(alloc_core::Scoped::new(&records, Scope::Object));
        replay
            .run(TraceReader::new(&text).expect("a trace"), &mut watched)
            .expect("a whole trace");
        drop(replay);
        assert_eq!(watched.ended, watched.expected.len());
        watched
            .context
            .close_root()
            .expect("everything was given back");
        witness.assert_empty(trace.name);
    }
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
fn wrong_frees_and_live_ends_are_findings() {
    let lines = "p,one\no,1,0,VkBuffer\na,1,1,1,100,8,1\na,1,1,2,7,8,3\nf,1,1,2\nf,1,1,2\nf,1,1,99\nf,1,1,?3\nr,1,1,77,78,8,8,1\n";
    let (done, report) = replay_text(trace(lines));
    done.assert_code(0);
    let found = |kind: &str| {
        let rows = report["findings"].as_array().into_iter().flatten();
        let rows: Vec<_> = rows.filter(|row| row["kind"] == kind).collect();
        let [row] = rows[..] else {
            panic!("{kind}: {}", report["findings"])
        };
        let said = row["sentence"].as_str().expect("a sentence").to_owned();
        assert!(flat(&done.stdout).contains(&said), "{said}\n{done}");
        (
            row["count"].as_u64().expect("a number"),
            row["first_serial"].as_u64().expect("a line"),
            said,
        )
    };
    assert_eq!(found("FreedTwice").1, 8);
    let (count, line, said) = found("FreedUnknown");
    assert_eq!((count, line), (2, 9), "{said}");
    assert!(said.ends_with("; 2 times; first in line 9"), "{said}");
    assert_eq!(found("ReallocatedUnknown").1, 11);
    assert_eq!(found("LiveAtEnd").0, 2);
    assert!(
        done.stdout.contains("\nleftovers, never freed:\n  VkBuffer: 2 blocks, 108 requested bytes (108 of scope object)\n"),
        "{done}"
    );
    let left = &report["leftovers"][0];
    assert_eq!(
        (&left["context"], &left["blocks"], &left["bytes"]),
        (&"VkBuffer".into(), &2.into(), &108.into())
    );
    assert_eq!(five(&left["by_scope"]), [0, 108, 0, 0, 0]);
    assert_eq!(report["phases"][0]["live_bytes"], 108);
}

#[test]
fn huge_numbers_are_findings_and_no_overflow() {
    let huge = u64::MAX;
    let lines = format!(
        "p,one\na,1,0,1,{huge},8,1\na,1,0,2,{huge},8,1\na,1,0,3,{},8,1\na,1,0,4,8,{huge},1\na,1,0,5,8,8,{}\na,1,0,{huge},0,8,4\nx,{huge}\nx,{huge}\n",
        1u64 << 46,
        i32::MAX
    );
    let (done, report) = replay_text(trace(&lines));
    done.assert_code(0);
    for what in [
        "line 4: block 1 has 18446744073709551615 bytes, more than can be had",
        "with an alignment that is no power of two; line 7",
        "with a scope that does not exist; line 8",
    ] {
        assert!(flat(&done.stdout).contains(what), "{what}\n{done}");
    }
    assert_eq!(report["leftovers"][0]["bytes"], huge);
}

#[test]
fn many_findings_are_cut_and_counted() {
    // What cannot be replayed is told one by one; what was left adds up.
    let lines: String = (1..=250)
        .map(|n| format!("a,1,0,{n},{},8,1\n", u64::MAX))
        .collect();
    let (done, report) = replay_text(trace(&lines));
    done.assert_code(0);
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(102));
    assert!(done.stdout.contains(" and 150 findings more\n"), "{done}");
}

#[test]
fn what_comes_before_the_first_phase_and_empty_blocks_are_counted() {
    let (done, report) = replay_text(trace(
        "a,1,0,1,64,8,1\na,1,0,2,0,8,1\nr,1,0,2,3,16,8,1\np,late\nf,1,0,1\nf,1,0,3\n",
    ));
    done.assert_code(0);
    let early = plain(&report["phases"][0]);
    assert_eq!(
        (
            early.name.as_str(),
            early.taken[1],
            early.bytes[1],
            early.live_blocks[1]
        ),
        ("(no phase)", 2, 80, 2)
    );
    let late = plain(&report["phases"][1]);
    assert_eq!(
        (late.name.as_str(), late.freed[1], late.live_blocks[1]),
        ("late", 2, 0)
    );
    let (done, report) = replay_text(trace(""));
    done.assert_code(0);
    assert!(
        done.stdout.contains("\nno requests at all\n")
            && report["phases"].as_array().is_some_and(Vec::is_empty),
        "{done}"
    );
}

#[test]
fn names_from_a_trace_steer_no_terminal() {
    let (done, _) = replay_text(trace(
        "p,a\u{1b}[31mb\u{7}\no,1,0,Vk\u{9b}2J\na,1,1,1,8,8,1\nf,1,1,1\n",
    ));
    done.assert_code(0);
    assert!(
        done.stdout.contains("a [31mb")
            && !done.stdout.chars().any(|c| c.is_control() && c != '\n'),
        "{done}"
    );
}

/// One sentence on the error output, nothing on the other, and no JSON.
#[track_caller]
fn refused(bytes: &[u8], line: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, json) = (
        folder.path().join("bad.trace"),
        folder.path().join("report.json"),
    );
    fs::write(&file, bytes).expect("a file");
    let done = Child::new(STEWARD)
        .args([Path::new("replay"), &file, Path::new("--json"), &json])
        .run();
    done.assert_code(2);
    let expected = format!("steward: {}, line {line}: ", file.display());
    assert!(
        done.stderr.starts_with(&expected) && done.stderr.lines().count() == 1,
        "{expected}\n{done}"
    );
    assert_eq!(done.stdout, "", "{done}");
    assert!(!json.exists(), "{done}");
}

#[test]
fn truncated_traces_name_the_line() {
    let text = text_of(TRACES[0].compressed);
    let starts: Vec<usize> = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    for lines in [1usize, 2, 3, 26, 27, 28, 1000, starts.len() - 2] {
        // At a line's end the end marker is missing; within a line its own end is.
        refused(&text.as_bytes()[..starts[lines]], lines as u64 + 1);
        refused(&text.as_bytes()[..starts[lines] + 1], lines as u64 + 1);
    }
    // Format 1 has no end marker.
    let text = text_of(TRACES[2].compressed);
    refused(
        &text.as_bytes()[..text.len() - 1],
        text.lines().count() as u64,
    );
    refused(&text.as_bytes()[..40], 1);
}

#[test]
fn malformed_lines_are_named() {
    let good = "p,one\na,1,0,1,100,8,1\nf,1,0,1\n";
    let (done, _) = replay_text(trace(good));
    done.assert_code(0);
    for bad in [
        "q,1",
        "a,1,0,2,100,8",
        "a,1,0,2,-1,8,1",
        "a,1,0,2,100,8,1,9",
        "f,1,0,99999999999999999999",
        "a",
        "",
        " f,1,0,1",
    ] {
        refused(trace(&format!("{good}{bad}\np,two\n")).as_bytes(), 6);
    }
    refused(b"", 1);
    refused(b"\n", 1);
    refused(b"# steward host trace 3\nz,1\n", 1);
    refused(b"something else\n", 1);
    refused(trace(good).replace("z,5", "z,4").as_bytes(), 6);
    refused(format!("{}p,behind\n", trace(good)).as_bytes(), 7);
    let mut not_text = trace(good).into_bytes();
    let at = HEAD.len() + 3;
    not_text[at] = 0xff;
    refused(&not_text, 3);
}

/// `replay` only borrows the backing: nothing of the tree may be left in it, with blocks live and a line refused in their midst.
#[test]
fn a_refused_trace_leaves_nothing_in_the_backing() {
    let live = "o,1,0,VkDevice\np,one\na,1,1,1,100,8,1\na,1,0,2,5000,64,2\na,1,0,3,0,8,1\np,two\na,1,0,4,8,8,1\n";
    for (lines, good) in [(live.to_owned(), true), (format!("{live}q,1\n"), false)] {
        let backing = RecordingAllocator::system();
        let file = TraceFile {
            name: "made up".into(),
            bytes: trace(&lines).into_bytes(),
        };
        match replay::replay(&backing, &file) {
            Ok(report) => assert_eq!((good, report.leftovers.len()), (true, 2), "{report}"),
            Err(error) => assert!(!good, "{error}"),
        }
        assert!(backing.total().allocations > 4, "the blocks came from it");
        backing.assert_empty("after a replay");
    }
}

#[test]
fn compressed_traces_are_read_and_a_cut_one_names_the_line() {
    let text = trace(&"p,one\na,1,0,1,100,8,1\nf,1,0,1\n".repeat(400));
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(text.as_bytes()).expect("a Vec takes all");
    let packed = packed.finish().expect("a Vec takes all");
    let (done, _) = replay_text(&packed);
    done.assert_code(0);
    // Two parts, one behind the other, are one text.
    let pack = |part: &str| {
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed
            .write_all(part.as_bytes())
            .and_then(|()| packed.finish())
            .expect("a Vec takes all")
    };
    let parts = [pack(&text[..50]), pack(&text[50..])].concat();
    replay_text(&parts).0.assert_code(0);

    // How far a half can be read depends on the decompressor: the line is somewhere within.
    for bytes in [
        &packed[..packed.len() / 2],
        &TRACES[1].compressed[..TRACES[1].compressed.len() / 2],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("half.gz");
        fs::write(&file, bytes).expect("a file");
        let done = steward(&["replay", file.to_str().expect("a plain path")]);
        done.assert_code(2);
        assert!(
            done.stderr.contains(", line ")
                && done.stderr.contains("cut off or damaged")
                && done.stdout.is_empty(),
            "{done}"
        );
        assert_eq!(done.stderr.lines().count(), 1, "{done}");
    }
    let mut damaged = packed;
    let middle = damaged.len() - 6;
    damaged[middle] ^= 0xff;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("damaged.gz");
    fs::write(&file, damaged).expect("a file");
    steward(&["replay", file.to_str().expect("a plain path")]).assert_code(2);
}

#[test]
fn a_missing_file_names_the_bundled_ones() {
    for name in ["no-such-trace", "."] {
        let done = steward(&["replay", name]);
        done.assert_code(2);
        assert!(
            done.stderr
                .starts_with(&format!("steward: {name} cannot be read (")),
            "{done}"
        );
        for trace in TRACES {
            assert!(done.stderr.contains(trace.name), "{done}");
        }
    }
}

#[test]
fn a_replay_gives_everything_back_also_where_it_stops() {
    let lines = "p,one\na,1,0,1,100,8,1\na,1,0,2,100,64,3\n";
    for (bytes, good) in [
        (trace(lines), true),
        (trace(lines).replace("z,5", "z,9"), false),
    ] {
        let witness = RecordingAllocator::system();
        let file = TraceFile {
            name: "a trace".into(),
            bytes: bytes.into_bytes(),
        };
        assert_eq!(replay::replay(&witness, &file).is_ok(), good);
        assert!(witness.total().allocations > 2);
        witness.assert_empty("after the replay");
    }
}

#[test]
fn output_into_a_closed_pipe_is_no_error() {
    let script = "\"$0\" replay lavapipe-workload | head -1; exit ${PIPESTATUS[0]}";
    let done = Command::new("bash").args(["-c", script, STEWARD]).output();
    let Ok(done) = done else {
        return testkit::skip("bash", "output_into_a_closed_pipe_is_no_error", "no bash");
    };
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        "trace: lavapipe-workload (bundled)\n"
    );
    assert_eq!(
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stderr).as_ref()
        ),
        (Some(0), "")
    );
}
