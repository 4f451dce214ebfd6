//! `--meter`: callback coverage of any program, on lavapipe.

use std::path::Path;

use serde_json::Value;
use testkit::{compile_c, skip};

use crate::ended::client;
use crate::observers_agree::{DRIVE, is_lavapipe_there, plain_workload};
use crate::run::{STEWARD, json, steward};

#[test]
fn callback_coverage_of_any_program_is_measured_or_it_is_said_why_not() {
    let test = "callback_coverage_of_any_program_is_measured_or_it_is_said_why_not";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let metered = |set: &[(&str, &str)]| {
        let child = steward(&["run", "--meter", "--json"]).args([&file]);
        let child = set.iter().fold(child.args(plain_workload()), |child, (name, value)| child.env(name, value));
        let done = child.run();
        done.assert_code(0);
        (json(&file), done.stderr)
    };
    let (report, text) = metered(&[]);
    let number = |report: &Value, name: &str| report["callback_coverage"]["with_loader"][name].as_u64().expect(name);
    let rows = |report: &Value, name: &str| -> u64 {
        let instance = &report["program"]["instances"][0];
        let kinds = [&instance["kinds"], &instance["devices"][0]["kinds"]];
        let kinds = kinds.into_iter().flat_map(|kinds| kinds.as_array().expect("rows"));
        kinds.map(|row| row[name].as_u64().expect(name)).sum()
    };
    // Both count what came through callbacks, in two ways: rows have 16 bytes more a block, and of a reallocation the
    // difference.
    let bytes = rows(&report, "total_bytes") - 16 * rows(&report, "total_blocks");
    assert!(number(&report, "callback_bytes") >= bytes && bytes > 0, "{report}");
    assert!(number(&report, "callback_calls") >= rows(&report, "total_blocks"));
    // lavapipe allocates most past the callbacks: in commands, and in its own threads.
    assert!(number(&report, "in_command_bytes") > number(&report, "callback_bytes"));
    assert!(number(&report, "never_issued_bytes") > 0, "{report}");
    assert!(text.contains("callback coverage, requested bytes through callbacks of all"), "{text}");
    // What a reader must know of it.
    assert!(
        text.contains(
            "\n(bypassing: malloc in Vulkan calls, and on threads that never call Vulkan, even the program's)\n"
        ),
        "{text}"
    );

    let (report, text) = metered(&[("TMPDIR", folder.path().to_str().expect("a name")), ("LD_PRELOAD", "libm.so.6")]);
    assert!(report["callback_coverage"].is_null() && text.contains("LD_PRELOAD is set"), "{text}");
}

#[test]
fn callbacks_of_the_program_leave_coverage_unknown() {
    let test = "callbacks_of_the_program_leave_coverage_unknown";
    if !is_lavapipe_there(test) {
        return;
    }
    let run = |meter: &[&str]| {
        let done = steward(&["run"]).args(meter).args(["--", STEWARD]).args(DRIVE);
        let done = done.args(["--no-coverage"]).env("VK_STEWARD_MEMORY_METER", "true").run();
        done.assert_code(0);
        done.stderr
    };
    let own = run(&["--meter"]);
    assert!(own.contains("callback coverage: not measured: the program passed callbacks of its own"), "{own}");
    let unloaded = run(&[]);
    assert!(unloaded.contains("not measured: the meter was not loaded into this process"), "{unloaded}");
}

/// Parent and child create one instance each.
#[test]
fn lc9_the_coverage_of_a_forked_child_is_of_its_own_callbacks() {
    let test = "lc9_the_coverage_of_a_forked_child_is_of_its_own_callbacks";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let done = steward(&["run", "--meter", "--json"])
        .args([&file])
        .args(["--".as_ref(), client.as_os_str(), "fork".as_ref()])
        .run();
    done.assert_code(0);
    let reports = json(&file);
    let calls = |process: usize| {
        let run = &reports[process]["callback_coverage"]["with_loader"];
        run["callback_calls"].as_u64().expect("a number")
    };
    let (one, other) = (calls(0).min(calls(1)), calls(0).max(calls(1)));
    assert!(one > 0 && other * 2 < one * 3, "{one}, {other}: {reports}");
}

/// One block of the C library's does not mean that the meter sees the others.
#[test]
fn a_program_with_an_allocator_of_its_own_has_no_coverage() {
    let test = "a_program_with_an_allocator_of_its_own_has_no_coverage";
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/own_malloc.c");
    let Some(program) = compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))) else {
        return skip("cc", test, "there is no compiler for C");
    };
    if !is_lavapipe_there(test) {
        return;
    }
    let done = steward(&["run", "--meter", "--"]).args([&program]).run();
    done.assert_code(0);
    let said = "callback coverage: not measured: the program brings an allocator of its own";
    assert!(done.stderr.contains(said), "{done}");
}
