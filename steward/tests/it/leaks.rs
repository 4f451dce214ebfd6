//! `steward run --stacks` names what a program leaks: the example of the README, as a child of a child.

use crate::profile::firefox::{check_format, retained};
use serde_json::Value;
use testkit::{Child, Finished, skip};

#[expect(dead_code, reason = "its main is the example's alone")]
#[path = "../../examples/leaky-frames/main.rs"]
mod leaky_frames;

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const README: &str = include_str!("../../../README.md");
const PROGRAM: &str = "leaks::the_leaky_program";
const MARKED: &str = "leaks::the_marked_program";

/// The program that is run, when this is its process.
#[test]
fn the_leaky_program() {
    if Child::is_child(PROGRAM) {
        leaky_frames::run(1000, |_| ()).expect("a driver");
    }
}

/// The same with few frames, after each of which it is marked.
#[test]
fn the_marked_program() {
    if Child::is_child(MARKED) {
        let own = std::process::id().to_string();
        let mark = |_| {
            let marked = Child::new(STEWARD).args(["mark", &own]).run();
            marked.assert_code(0);
            // The signal is another thread's of this process to take: two that come together are one mark.
            while has_pending_signal() {
                std::thread::yield_now();
            }
        };
        leaky_frames::run(5, mark).expect("a driver");
    }
}

/// A signal to this process was taken by none of its threads yet.
fn has_pending_signal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    pending.is_some_and(|mask| mask.trim().bytes().any(|digit| digit != b'0'))
}

/// Runs one of the programs above with these options of `steward run`. `None`, with a reason printed, where that is not
/// possible here.
fn run(test: &str, program: &str, options: &[&str]) -> Option<Finished> {
    let executable = std::env::current_exe().expect("a path");
    let library = executable.with_file_name("libVkLayer_steward_memory.so");
    if !library.is_file() {
        skip("layer", test, "vk-layer is not built: cargo test --workspace builds it");
        return None;
    }
    let done = Child::new(STEWARD)
        .args(["run", "--driver", "lvp*"])
        .args(options)
        .args(["--", executable.to_str().expect("a name")])
        .args([program, "--exact", "--nocapture"])
        .env("STEWARD_LAYER", &library)
        .env("STEWARD_TEST_CHILD", program)
        .run();
    if done.stdout.contains("a driver: ") || done.stderr.contains("a driver: ") {
        skip("lavapipe", test, "the program found no driver");
        return None;
    }
    done.assert_code(0);
    Some(done)
}

#[test]
fn ly36_a_leak_of_one_buffer_a_frame_is_named_with_its_stack_and_growth() {
    let test = "ly36_a_leak_of_one_buffer_a_frame_is_named_with_its_stack_and_growth";
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let json = json.to_str().expect("a name");
    let page = folder.path().join("report.html");
    let html = page.to_str().expect("a name");
    let options = ["--stacks", "--json", json, "--html", html];
    let Some(done) = run(test, PROGRAM, &options) else {
        return;
    };
    // As the text, the page shows no frames of the runtime. It names each rule once, and says that bytes are charged
    // ones.
    let page = std::fs::read_to_string(page).expect("a page");
    for absent in ["std::sys::backtrace::__rust_begin_short_backtrace", "</strong> V40", ">requested bytes"] {
        assert!(!page.contains(absent), "{absent}");
    }
    for there in ["leaky_frames::Renderer::draw", "V40</strong> the", "charged bytes, also in leftovers"] {
        assert!(page.contains(there), "{there}");
    }
    let text = &done.stderr;
    for line in [
        "  1. vkCreateBuffer: 1000 of 1000 VkBuffer alive (3.90 MiB), 1000 blocks of VkBuffer",
        "     grows: +1 VkBuffer (4.00 KiB) a frame, in 989 of 989; +1 block",
        "\"vertices of frame 0\"",
        "leaky_frames::Renderer::upload_vertices",
        "leaky_frames::Renderer::draw",
    ] {
        assert!(text.contains(line), "{line} in {done}");
    }
    // The README's first screen shows this: its functions and lines are the example's. Folders differ.
    let shown = README.split_once("```text\n  1. vkCreateBuffer");
    let (shown, _) = shown.and_then(|(_, rest)| rest.split_once("```")).expect("the answer");
    let frames: Vec<_> = shown.lines().filter_map(|line| line.split_once(", ../")).collect();
    assert_eq!(frames.len(), 4, "{shown}");
    for (function, place) in frames {
        let line = text.lines().find(|line| line.contains(function.trim()));
        assert!(line.is_some_and(|line| line.ends_with(place)), "{function}, {place} in {done}");
    }
    for absent in ["libvulkan", "VkLayer_steward"] {
        assert!(!text.contains(absent), "{absent} in {done}");
    }
    let report = std::fs::read(json).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let leaks = &report["leaks"];
    assert_eq!((&leaks["mark"], &leaks["lost"]), (&"vkQueueSubmit".into(), &0.into()));
    let stacks = leaks["stacks"].as_array().expect("stacks");
    let of_buffers = |stack: &&Value| stack["objects"]["live"] != 0;
    let buffers: Vec<_> = stacks.iter().filter(of_buffers).collect();
    let [buffers] = buffers.as_slice() else {
        panic!("the 1000 buffers that are destroyed are no leak: {stacks:?}");
    };
    let growth = &buffers["objects"]["growth"];
    assert_eq!((&growth["count"], &growth["grew"]), (&989.into(), &989.into()));
    assert_eq!((&growth["bytes"], &growth["shrank"]), (&(989 * 4096).into(), &0.into()));
    assert_eq!(buffers["oldest"].as_array().map(Vec::len), Some(4));
}

#[test]
fn ly50_a_report_holds_no_environment_no_arguments_and_no_stacks_unless_asked() {
    let test = "ly50_a_report_holds_no_environment_no_arguments_and_no_stacks_unless_asked";
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let json = json.to_str().expect("a name");
    let Some(done) = run(test, PROGRAM, &["--json", json]) else {
        return;
    };
    let report = std::fs::read_to_string(json).expect("a report");
    for text in [&done.stderr, &report] {
        assert!(text.contains("VkBuffer"), "{text}");
        for absent in [PROGRAM, "--exact", "STEWARD_TEST_CHILD", "alive at the end", "frames"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
    }
}

#[test]
fn ly54_growth_is_counted_between_marks_that_are_requested() {
    let test = "ly54_growth_is_counted_between_marks_that_are_requested";
    let Some(done) = run(test, MARKED, &["--stacks", "--frame", "submit"]) else {
        return;
    };
    // Of five marks; a thread that is slow to run the handler of its signal makes two of them one.
    let is_growth = |times: u32| {
        let s = if times == 1 { "" } else { "s" };
        let counted = format!("  growth is counted over {times} interval{s} between marks\n");
        let grows = format!(" a mark, in {times} of {times}");
        done.stderr.contains(&counted) && done.stderr.contains(&grows)
    };
    assert!((1..=4).any(is_growth), "{done}");
}

/// Of a program there is what is alive at the end, in each format.
#[test]
fn a_programs_profile_has_what_is_alive_with_its_stack() {
    let test = "a_programs_profile_has_what_is_alive_with_its_stack";
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str| {
        let file = folder.path().join(name);
        let file = file.to_str().expect("a name");
        // The profile is made of stacks: it switches them on.
        run(test, PROGRAM, &["--profile", file])?;
        Some(std::fs::read_to_string(file).expect("a profile"))
    };
    let (Some(collapsed), Some(firefox)) = (written("a.folded"), written("a.json")) else {
        return;
    };
    let of_buffers = "objects, as created: VkBuffer;vkCreateBuffer;";
    let line = collapsed.lines().find(|line| line.starts_with(of_buffers)).unwrap_or_else(|| panic!("{collapsed}"));
    assert!(line.ends_with(" 4096000") && line.contains("leaky_frames::Renderer::upload_vertices"), "{line}");
    let profile: Value = serde_json::from_str(&firefox).expect("JSON");
    check_format(&profile);
    let alive = retained(&profile["threads"][0]["nativeAllocations"]);
    assert!(alive.values().any(|bytes| *bytes == 4_096_000), "{alive:?}");
}
