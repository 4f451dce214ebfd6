//! `--fail`: a driver that crashes when it is refused memory, and plans that nothing meets, are told in a sentence and
//! by the exit code.

#![cfg(target_os = "linux")]

use std::path::Path;

use crate::support::parts::text_of;
use serde_json::Value;
use testkit::{Child, Finished, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

/// Runs the program with `--json`; what it said, and the report.
fn steward(args: &[&str]) -> (Finished, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let done = Child::new(STEWARD).args(args).args([Path::new("--json"), &json]).run();
    let report = std::fs::read(&json).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    (done, report)
}

/// One round on lavapipe with a known seed.
fn lavapipe(command: &str, plan: &str) -> (Finished, Value) {
    steward(&[command, "--driver", "lavapipe", "--rounds", "1", "--seed", "7", plan])
}

fn lavapipe_is_there(test: &str) -> bool {
    let (listed, drivers) = steward(&["drivers"]);
    let there = drivers.as_array().is_some_and(|all| all.iter().any(|one| one["id"] == "MESA_LLVMPIPE"));
    if !there {
        skip("lavapipe", test, &format!("`steward drivers` lists no lavapipe: {}", listed.stderr.trim()));
    }
    there
}

#[test]
fn a_sweep_of_a_driver_without_the_loader_is_refused() {
    let test = "a_sweep_of_a_driver_without_the_loader_is_refused";
    let refused = |options: &[&str]| {
        let (done, _) = steward(&[&["drive", "--fail=each"], options].concat());
        assert_eq!(done.code, Some(2), "{options:?}: {}", done.stderr);
        let said = "opened without the loader: leave --direct out";
        assert!(done.stderr.contains(said), "{options:?}: {}", done.stderr);
    };
    refused(&["--driver=reference"]);
    if lavapipe_is_there(test) {
        refused(&["--driver=lavapipe", "--direct"]);
    }
}

/// lavapipe reads a null pointer where a command cannot be recorded. Which request that is depends on its version.
#[test]
fn a_driver_that_crashes_is_told_with_signal_and_last_refusal() {
    if !lavapipe_is_there("a_driver_that_crashes_is_told_with_signal_and_last_refusal") {
        return;
    }
    let (unmet, report) = lavapipe("drive", "--fail=nth=99999999");
    unmet.assert_code(1);
    let requests = report["fail"]["requests"].as_u64().expect("a number");
    let crash = |n: u64| {
        let (done, report) = lavapipe("drive", &format!("--fail=nth={n}"));
        done.stdout.contains("crashed (SIGSEGV)").then_some((n, done, report))
    };
    let (n, done, report) =
        (requests.saturating_sub(60)..requests).find_map(crash).expect("a refusal that lavapipe does not bear");
    done.assert_code(1);
    let error = report["error"].as_str().expect("a sentence");
    let said = format!("crashed (SIGSEGV) after 1 request had been refused on purpose (nth={n}), the last in vk");
    assert!(error.contains(&said) && done.stdout.contains(error), "{done}");
    assert!(error.contains("bytes of scope") && error.contains("of the callbacks of Vk"), "{error}");
    assert!(report["driver"].as_str().is_some_and(|driver| driver.contains("llvmpipe")), "{report}");
    // A check, and each of all drivers, say the same; on the error output, where the other is for a program.
    let (checked, report) = lavapipe("check", &format!("--fail=nth={n}"));
    checked.assert_code(1);
    assert_eq!((&report["error"], &report["format"]), (&error.into(), &"steward check 1".into()));
    let plan = format!("--fail=nth={n}");
    let (all, list) = steward(&["drive", "--driver", "all", "--rounds", "1", "--seed", "7", "--no-coverage", &plan]);
    all.assert_code(1);
    assert!(list.as_array().is_some_and(|all| all.iter().any(|one| one["error"] == error)), "{all}");
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let done = Child::new(STEWARD)
        .args(["check", "--driver", "all", "--rounds", "1", "--seed", "7", &plan, "--html"])
        .args([&page])
        .run();
    done.assert_code(1);
    let page = text_of(&std::fs::read_to_string(&page).expect("a page"));
    assert!(page.contains("There is no report: the driver's process crashed (SIGSEGV)"), "{page}");
    let args = ["drive", "--driver", "lavapipe", "--rounds", "1", "--seed", "7", &plan, "--json", "-"];
    let done = Child::new(STEWARD).args(args).run();
    done.assert_code(1);
    assert!(done.stderr.contains(&said) && serde_json::from_str::<Value>(&done.stdout).is_ok(), "{done}");
}

#[test]
fn the_result_of_a_check_and_its_exit_code_say_the_same() {
    if !lavapipe_is_there("the_result_of_a_check_and_its_exit_code_say_the_same") {
        return;
    }
    for (plan, code, fault) in [
        ("--fail=context=VkBuffer", 0, None),
        ("--fail=never", 0, None),
        ("--fail=context=vkbuffer", 1, Some("nothing that was asked for met the plan context=vkbuffer")),
    ] {
        let (done, report) = lavapipe("check", plan);
        done.assert_code(code);
        assert_eq!(report["as_expected"], code == 0, "{done}");
        assert_eq!(done.stdout.contains("\nresult: as expected: "), code == 0, "{done}");
        assert_eq!(report["faults"].as_array().map(Vec::len), Some(fault.iter().len()), "{report}");
        assert!(fault.is_none_or(|fault| done.stdout.contains(&format!("\nnot as expected:\n  {fault}\n"))), "{done}");
    }
}

#[test]
fn a_plan_that_nothing_meets_names_those_that_asked() {
    if !lavapipe_is_there("a_plan_that_nothing_meets_names_those_that_asked") {
        return;
    }
    for plan in ["--fail=context=VkNope", "--fail=context=vulkan", "--fail=nth=99999999"] {
        let (done, report) = lavapipe("drive", plan);
        done.assert_code(1);
        let fail = &report["fail"];
        let last = fail["requests"].as_u64().expect("a number") - 1;
        assert!(done.stdout.contains(&format!("met the plan: requests have the numbers 0 to {last}\n")), "{done}");
        assert!(
            done.stdout.contains("\n  those that asked: Vk") && done.stdout.contains("\nnot as expected: nothing"),
            "{done}"
        );
        let asked = fail["asked"].as_array().expect("those that asked");
        assert!(
            asked.iter().any(|one| one.as_str().is_some_and(|one| one.starts_with("VkBuffer (object"))),
            "{asked:?}"
        );
    }
}

#[test]
fn what_the_child_cannot_do_it_says_once() {
    let (done, report) = steward(&["drive", "--driver", "no such driver", "--fail=nth=1"]);
    done.assert_code(2);
    assert_eq!((done.stderr.matches("steward: ").count(), report), (1, Value::Null), "{done}");
}

#[test]
fn a_refusal_before_there_is_an_instance_is_reported() {
    for plan in ["--fail=nth=0", "--fail=nth=1"] {
        let options = ["drive", "--driver", "reference", "--no-coverage", plan];
        let (done, report) = steward(&options);
        done.assert_code(0);
        assert_eq!(report["fail"]["refused"], 1, "{done}");
    }
}

/// The driver's library may still run code after the answer: what crashes then is no success.
#[test]
fn a_crash_after_the_last_command_is_a_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("ends.c");
    let code = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        __attribute__((destructor)) static void end(void) {\n\
        char text[4096] = \"\"; FILE *file = fopen(\"/proc/self/cmdline\", \"r\");\n\
        size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0; if (file) fclose(file);\n\
        size_t first = strlen(text) + 1;\n\
        if (first < size && !strcmp(text + first, \"workload-child\")) abort();\n}\n";
    std::fs::write(&source, code).expect("a file");
    let Some(library) = testkit::compile_c_library(&source, folder.path()) else {
        return skip("cc", "a_crash_after_the_last_command_is_a_crash", "no cc");
    };
    for command in ["drive", "check"] {
        let mut child = Child::new(STEWARD).args([command, "--driver", "reference"]);
        if command == "drive" {
            child = child.args(["--no-coverage"]);
        }
        let done = child.env("LD_PRELOAD", &library).run();
        done.assert_code(1);
        assert!(done.stdout.contains("SIGABRT") || done.stderr.contains("SIGABRT"), "{done}");
    }
}

#[test]
fn a_folder_whose_name_is_no_setting_is_not_used() {
    use std::os::unix::ffi::OsStrExt as _;

    let folder = tempfile::tempdir().expect("a folder");
    for name in [&b"50%x"[..], b"a%%b", b"no\xfftext"] {
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir(&odd).expect("a folder");
        let done =
            Child::new(STEWARD).args(["drive", "--driver", "reference", "--no-coverage"]).env("TMPDIR", &odd).run();
        done.assert_code(0);
        assert!(done.stdout.contains("leftovers: none"), "{done}");
    }
}

/// Files that the child cannot write are not the driver's fault, whichever of them does not fit.
#[test]
fn a_limit_of_file_sizes_is_not_the_drivers_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    let mut unwritten = Vec::new();
    // Eight rounds have a larger answer than report, so that there is a limit for each of the two.
    for blocks in [0, 1, 4, 16, 64, 256, 512, 640, 4096] {
        let script = format!("ulimit -f {blocks}; exec \"$@\"");
        let done = Child::new("sh")
            .args(["-c", &script, "sh", STEWARD])
            .args(["drive", "--driver", "reference", "--no-coverage", "--rounds", "8", "--profile"])
            .args([&profile])
            .run();
        if done.code == Some(0) {
            continue;
        }
        done.assert_code(2);
        assert!(done.stderr.contains("ulimit -f"), "{blocks}: {done}");
        assert!(!done.stderr.contains("maintainers"), "{blocks}: {done}");
        let files = ["layer.json could", "answer.json could"];
        unwritten.extend(files.into_iter().filter(|file| done.stderr.contains(file)));
    }
    unwritten.dedup();
    assert_eq!(unwritten, ["layer.json could", "answer.json could"]);
}

/// Whatever part of the layer panics, the driver is not to blame, and what was recorded until then is there.
#[test]
fn a_panic_of_the_layer_is_no_finding() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.txt");
    for planted in ["vkCreateBuffer Before", "vkCreateBuffer After", "vkQueueSubmit Returned"] {
        for command in ["check", "drive"] {
            let mut child = Child::new(STEWARD).args([command, "--driver", "reference"]);
            if command == "drive" {
                child = child.args(["--record".as_ref(), trace.as_os_str()]);
            }
            let done = child.env("STEWARD_PLANTED_PANIC", planted).run();
            done.assert_code(2);
            let said = "steward: the layer panicked, as the lines above say";
            assert!(done.stderr.contains(said), "{planted}: {done}");
        }
        let recorded = std::fs::read_to_string(&trace).expect("a trace");
        assert!(recorded.contains("vkQueueSubmit"), "{recorded}");
        std::fs::remove_file(&trace).expect("there");
    }
}
