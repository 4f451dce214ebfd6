//! `steward run` of programs that end without a report, and `steward top`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::Value;
use testkit::{Child, compile_c, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

/// `steward` with the layer that cargo has put beside the tests.
fn steward() -> Child {
    let test = env::current_exe().expect("a path");
    let library = test.with_file_name("libVkLayer_steward_memory.so");
    Child::new(STEWARD).env("STEWARD_LAYER", library)
}

/// The layer's own client in C, if lavapipe runs it.
pub(crate) fn client(test: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vk-layer/tests/client.c");
    let Some(client) = compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))) else {
        skip("cc", test, "there is no compiler for C");
        return None;
    };
    let plain = Child::new(&client).args(["plain"]);
    if plain.env("VK_LOADER_DRIVERS_SELECT", "lvp*").run().code != Some(0) {
        skip("lavapipe", test, "the client finds no lavapipe");
        return None;
    }
    Some(client)
}

/// A shell, which does what `make` says with the folder of its report, and runs `program` in its place.
fn unwritten(options: &[&str], make: &str, program: &[&str]) -> Child {
    let script = format!("reports=${{VK_STEWARD_MEMORY_JSON%/*}}; {make}; exec \"$@\"");
    let options = [&["run", "--driver", "lvp*"], options, &["--", "sh", "-c"]].concat();
    steward().args([&options[..], &[&script, "sh"], program].concat())
}

#[test]
fn ly44_a_report_that_cannot_be_written_leaves_the_state() {
    let test = "ly44_a_report_that_cannot_be_written_leaves_the_state";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    let ran = unwritten(&["--exit-code"], "export VK_STEWARD_MEMORY_JSON=$reports", &[client, "plain"]).run();
    ran.assert_code(1);
    for said in [
        "cannot be written (",
        "ended with status 0 without a report (it ran no exit handlers, or could not write it); its state after command ",
        "  VkBuffer ",
        "steward: --exit-code: process ",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {ran}");
    }
    assert!(!ran.stderr.contains("created no instance"), "{ran}");
}

#[test]
fn ly37_what_a_program_left_is_told_although_it_executes_another_one_that_reports() {
    let test = "ly37_what_a_program_left_is_told_although_it_executes_another_one_that_reports";
    let Some(client) = client(test) else { return };
    let options = ["run", "--driver", "lvp*", "--exit-code", "--"];
    let ran = |program: &[&str]| steward().args([&options[..], program].concat()).run();
    let client = client.to_str().expect("a name");
    let done = ran(&[client, "exec", "plain"]);
    done.assert_code(1);
    for said in [
        "executed another program without a report; its state after command 7",
        "commands\n(with the 16 bytes in front of each block)\n",
    ] {
        assert!(done.stderr.contains(said), "{said}: {done}");
    }
    // Two of one number, each the first in its container.
    let script = "for life in leave plain; do unshare -rpf \"$0\" $life || exit 77; done";
    let done = ran(&["sh", "-c", script, client]);
    if done.code == Some(77) {
        return skip("unshare", test, "there are no containers here");
    }
    let reports = done.stderr.matches("callbacks: process 1, ").count();
    assert!(done.code == Some(1) && reports == 2, "{done}");
}

#[test]
fn ly43_a_report_of_another_version_is_no_sign_of_no_instance() {
    let test = "ly43_a_report_of_another_version_is_no_sign_of_no_instance";
    let ran = unwritten(&[], "echo {} >\"$reports/1.json\"", &["true"]).run();
    ran.assert_code(0);
    assert!(ran.stderr.contains("a report cannot be read ("), "{test}: {ran}");
    assert!(!ran.stderr.contains("no report"), "{test}: {ran}");
}

#[test]
fn ly50_a_run_has_its_text_whatever_the_settings_say() {
    let test = "ly50_a_run_has_its_text_whatever_the_settings_say";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    let folder = tempfile::tempdir().expect("a folder");
    let [text, settings] = ["text", "settings.txt"].map(|name| folder.path().join(name));
    let run = || steward().args(["run", "--driver", "lvp*", "--", client, "plain"]);
    fs::write(&settings, format!("steward_memory.text = {}\n", text.display())).expect("a file");
    for (variable, value) in [
        ("VK_STEWARD_MEMORY_TEXT", Path::new("-")),
        ("VK_STEWARD_MEMORY_TEXT", &text),
        ("VK_LAYER_SETTINGS_PATH", &settings),
    ] {
        let ran = run().env(variable, value).run();
        ran.assert_code(0);
        let texts = ran.stderr.matches("Host memory that Vulkan allocated").count();
        assert!(texts == 1 && !text.exists(), "{variable}: {ran}");
    }
}

#[test]
fn ly44_a_program_without_a_report_has_its_state_or_a_reason() {
    let test = "ly44_a_program_without_a_report_has_its_state_or_a_reason";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let json = json.to_str().expect("a name");
    let run = |program: &[&str]| {
        let options = ["run", "--driver", "lvp*", "--json", json, "--"];
        steward().args([&options[..], program].concat()).run()
    };
    for (mode, code, ended) in [
        ("kill", 137, "ended by SIGKILL"),
        ("_exit", 3, "ended with status 3 without a report (it ran no exit handlers, or could not write it)"),
    ] {
        let ran = run(&[client, mode]);
        ran.assert_code(code);
        let sentence = format!("{ended}; its state after command 7");
        assert!(ran.stderr.contains(&sentence), "{ran}");
        assert!(ran.stderr.contains("  VkBuffer "), "{ran}");
        let report = fs::read(json).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        assert_eq!((&report["source"], &report["ended"]), (&"state file".into(), &ended.into()));
        let kinds = report["kinds"].as_array().expect("rows");
        let buffers = kinds.iter().find(|row| row["kind"] == "VkBuffer").expect("buffers");
        assert_eq!((&buffers["objects_created"], &buffers["objects_alive"]), (&4.into(), &3.into()));
    }
    // A report that was written needs no state beside it.
    let ran = run(&[client, "leave"]);
    ran.assert_code(0);
    assert!(ran.stderr.contains("The program never destroyed 1 instance"), "{ran}");
    assert!(!ran.stderr.contains("its state after"), "{ran}");
    // Who creates no instance has neither.
    let ran = run(&["sh", "-c", "kill -9 $$"]);
    ran.assert_code(137);
    assert!(ran.stderr.contains("no report: sh was ended by SIGKILL"), "{ran}");
}

#[test]
fn top_shows_the_state_of_a_running_program() {
    let test = "top_shows_the_state_of_a_running_program";
    let Some(client) = client(test) else { return };
    let mut running = Command::new(STEWARD)
        .args(["run", "--driver", "lvp*", "--"])
        .arg(&client)
        .arg("wait")
        .env("STEWARD_LAYER", env::current_exe().expect("a path").with_file_name("libVkLayer_steward_memory.so"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program is there");
    let mut process = String::new();
    let output = running.stdout.as_mut().expect("a pipe");
    BufReader::new(output).read_line(&mut process).expect("its number");
    let top = steward().args(["top", "--once", process.trim()]).run();
    top.assert_code(0);
    assert!(top.stdout.starts_with(&format!("process {}, 7 commands", process.trim())), "{top}");
    assert!(top.stdout.contains("  VkBuffer ") && !top.stdout.contains('\x1b'), "{top}");
    let file = format!("/proc/{}/environ", process.trim());
    assert!(fs::exists(file).expect("an answer"), "it is still running");
    // It ends with its input.
    drop(running.stdin.take());
    assert!(running.wait().expect("its end").success());

    let gone = steward().args(["top", "--once", process.trim()]).run();
    gone.assert_code(2);
    assert!(gone.stderr.contains("has no state file"), "{gone}");
    let bad = steward().args(["top", "--once", "--state", STEWARD]).run();
    bad.assert_code(2);
    assert!(bad.stderr.contains("it is no state file"), "{bad}");
}
