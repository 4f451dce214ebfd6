//! `steward report` and `steward mark`: what a running program is asked, however it runs.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::Finished;
use vk_report::state_file;

use crate::ended::client;
use crate::run::{STEWARD, steward};

/// A program that runs until this is dropped.
pub(crate) struct Program {
    pub(crate) started: std::process::Child,
    pub(crate) number: i32,
}

impl Program {
    /// `arguments` start it; it prints its number when it works.
    fn start(command: &mut Command) -> Self {
        let test = std::env::current_exe().expect("a path");
        let mut started = command
            .env("STEWARD_LAYER", test.with_file_name("libVkLayer_steward_memory.so"))
            .env("VK_LOADER_DRIVERS_SELECT", "lvp*")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is there");
        let mut line = String::new();
        let output = started.stdout.as_mut().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let number = line.trim().parse().expect("a number");
        Self { started, number }
    }

    pub(crate) fn name(&self) -> String {
        self.number.to_string()
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a program of this test.
        unsafe { libc::kill(self.number, signal) };
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.started.wait();
    }
}

pub(crate) fn run(options: &[&str], client: &Path, mode: &[&str]) -> Program {
    let mut command = Command::new(STEWARD);
    Program::start(command.arg("run").args(options).arg("--").arg(client).args(mode))
}

/// With the layer by hand; `settings` of it, whose values are files in the folder.
fn by_hand(client: &Path, folder: &TempDir, settings: &[(&str, &str)]) -> Program {
    let manifest = steward(&["layer", "--print-manifest"]).run();
    fs::write(folder.path().join("layer.json"), manifest.stdout).expect("a file");
    let mut command = Command::new(client);
    command
        .args(["serve", "default"])
        .env("VK_ADD_LAYER_PATH", folder.path())
        .env("VK_INSTANCE_LAYERS", "VK_LAYER_STEWARD_memory")
        .current_dir(folder.path());
    for (name, value) in settings {
        command.env(format!("VK_STEWARD_MEMORY_{name}"), value);
    }
    Program::start(&mut command)
}

fn asked(process: &str) -> (Finished, Value) {
    let done = steward(&["report", process, "--json", "-"]).run();
    let report = serde_json::from_str(&done.stdout).unwrap_or_default();
    (done, report)
}

/// Live buffers by the report's table.
fn live_buffers(report: &Value) -> Option<u64> {
    let kinds = report["program"]["instances"][0]["devices"][0]["kinds"].as_array()?;
    let buffers = kinds.iter().find(|row| row["kind"] == "VkBuffer")?;
    buffers["objects_alive"].as_u64()
}

#[test]
fn ly73_a_running_program_is_asked_for_its_report() {
    let test = "ly73_a_running_program_is_asked_for_its_report";
    let Some(client) = client(test) else { return };
    let program = run(&["--stacks"], &client, &["serve", "default"]);
    for _ in 0..2 {
        let (done, report) = asked(&program.name());
        done.assert_code(0);
        assert!(live_buffers(&report) >= Some(3), "{report}");
        assert_eq!(report["format"], vk_report::report::Report::FORMAT);
        let stacks = report["leaks"]["stacks"].as_array().expect("stacks");
        let frames = |stack: &Value| stack["frames"].to_string();
        assert!(stacks.iter().any(|stack| frames(stack).contains("use_buffers")), "{report}");
    }
    let retitled = run(&[], &client, &["serve", "retitle"]);
    let (done, report) = asked(&retitled.name());
    done.assert_code(0);
    assert!(live_buffers(&report) >= Some(3), "{report}");
    let text = steward(&["report", &program.name()]).run();
    text.assert_code(0);
    assert!(text.stdout.contains("\nfindings: ") && text.stdout.contains("use_buffers"), "{text}");
    let marked = steward(&["mark", &program.name()]).run();
    marked.assert_code(0);
    assert_eq!(marked.stdout, format!("mark requested of process {} (client)\n", program.number));
    // Its next command takes the mark.
    let began = Instant::now();
    while asked(&program.name()).1["leaks"]["mark"] != "request" {
        assert!(began.elapsed() < Duration::from_secs(30), "no mark");
    }
}

/// A report from before would be taken for the requested one.
#[test]
fn ly73_a_report_that_cannot_be_written_is_not_the_one_before() {
    let test = "ly73_a_report_that_cannot_be_written_is_not_the_one_before";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let numbered = [("JSON", "r%n.json"), ("STATE", "r.state")];
    for program in [run(&[], &client, &["serve", "default"]), by_hand(&client, &folder, &numbered)] {
        for _ in 0..2 {
            asked(&program.number.to_string()).0.assert_code(0);
        }
        let none = libc::rlimit { rlim_cur: 64, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: sets a limit of another process; nothing is returned.
        let set = unsafe {
            libc::prlimit(
                libc::pid_t::try_from(program.number).expect("a number"),
                libc::RLIMIT_FSIZE,
                &raw const none,
                std::ptr::null_mut(),
            )
        };
        assert_eq!(set, 0);
        let (done, report) = asked(&program.number.to_string());
        done.assert_code(2);
        assert!(done.stderr.contains("why it wrote no report") && report.is_null(), "{done}");
    }
}

#[test]
fn ly73_programs_are_named_and_those_that_do_not_answer_too() {
    let test = "ly73_programs_are_named_and_those_that_do_not_answer_too";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let named = folder.path().join("asked-twice");
    fs::copy(&client, &named).expect("a copy");
    let name = "asked-twice";
    let first = run(&[], &named, &["serve", "default"]);
    let second = run(&[], &named, &["serve", "default"]);
    let (both, reports) = asked(name);
    both.assert_code(0);
    assert_eq!(reports.as_array().map(Vec::len), Some(2), "{both}");
    let no_stacks = steward(&["mark", name]).run();
    no_stacks.assert_code(2);
    assert!(no_stacks.stderr.contains("`steward run --stacks`"), "{no_stacks}");
    let top = |of: &str| steward(&["top", "--once", of]).run();
    let several = top(name);
    several.assert_code(2);
    let listed = format!("{} (asked-twice)", first.number);
    assert!(several.stderr.contains(&listed), "{several}");
    second.signal(libc::SIGSTOP);
    let (one, report) = asked(name);
    one.assert_code(2);
    assert_eq!(report["source"]["process"], first.number, "{one}");
    let reason = format!("process {} (asked-twice) did not answer within 5 s: it is stopped", second.number);
    assert!(one.stderr.contains(&reason), "{one}");
    drop((first, second));
    let (none, _) = asked(name);
    none.assert_code(2);
    assert!(none.stderr.contains("no process asked-twice runs with the layer"), "{none}");
    // As the interpreter of a virtual environment: a link, whose name is longer than that of a thread may be.
    let by_link = "asked-by-a-longer-link";
    let link = folder.path().join(by_link);
    std::os::unix::fs::symlink(&named, &link).expect("a link");
    let linked = run(&[], &link, &["serve", "default"]);
    asked(by_link).0.assert_code(0);
    top(by_link).assert_code(0);
    top("asked-nobody").assert_code(2);
    let (nobody, _) = asked("asked-nobody");
    nobody.assert_code(2);
    let running = format!("{} (asked-twice)", linked.number);
    assert!(nobody.stderr.contains("; these do: ") && nobody.stderr.contains(&running), "{nobody}");
    drop(linked);

    let idle = run(&[], &client, &["idle"]);
    let (none, _) = asked(&idle.name());
    none.assert_code(2);
    let remedy = format!("`steward top {}` shows its numbers", idle.number);
    assert!(none.stderr.contains("did not answer within 5 s") && none.stderr.contains(&remedy), "{none}");
}

#[test]
fn ly73_a_program_with_the_layer_by_hand_is_asked_by_what_it_has() {
    let test = "ly73_a_program_with_the_layer_by_hand_is_asked_by_what_it_has";
    let Some(client) = client(test) else { return };
    for settings in [&[("JSON", "r.%p.json"), ("STATE", "%e.%p")][..], &[("JSON", "%n.json"), ("STATE", "state")]] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = by_hand(&client, &folder, settings);
        for _ in 0..2 {
            let (done, report) = asked(&program.name());
            done.assert_code(0);
            assert!(live_buffers(&report) >= Some(3), "{settings:?}: {report}");
        }
        let text = steward(&["report", &program.name()]).run();
        assert!(text.stdout.contains("VkBuffer"), "{settings:?}: {text}");
    }
    for (settings, remedy) in [
        (&[][..], "takes no requests: start it with `steward run`"),
        (&[("JSON", "r.json"), ("SIGNAL", "USR2")], "takes no requests"),
        (&[("STATE", "state")], "writes no report as JSON"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = by_hand(&client, &folder, settings);
        let (done, _) = asked(&program.name());
        done.assert_code(2);
        assert!(done.stderr.contains(remedy), "{settings:?}: {done}");
    }
    // An executable whose name is no text has files of its own, which are found.
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let odd = |byte: u8| {
        let name = [b'o', byte];
        let odd: PathBuf = folder.path().join(std::ffi::OsStr::from_bytes(&name));
        fs::copy(&client, &odd).expect("a copy");
        by_hand(&odd, &folder, &[("JSON", "%e.json"), ("STATE", "%e.state")])
    };
    let programs = [odd(0xfe), odd(0xff)];
    for (program, file) in programs.iter().zip(["o%FE.json", "o%FF.json"]) {
        let (done, report) = asked(&program.name());
        done.assert_code(0);
        assert_eq!(report["source"]["process"], program.number);
        assert_eq!(report["source"]["executable"], file.trim_end_matches(".json"));
        assert!(folder.path().join(file).is_file());
    }
}

/// As after a reboot, when the number of a process that was killed is another's.
#[test]
fn ly73_a_state_file_that_an_earlier_process_has_left_is_not_asked() {
    let test = "ly73_a_state_file_that_an_earlier_process_has_left_is_not_asked";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    drop(by_hand(&client, &folder, &[("STATE", "left")]));
    let program = by_hand(&client, &folder, &[("JSON", "%n.json")]);
    let mut left = fs::read(folder.path().join("left")).expect("a killed program leaves it");
    let number = u64::from(program.number.cast_unsigned()).to_ne_bytes();
    left[state_file::PROCESS * 8..][..8].copy_from_slice(&number);
    fs::create_dir(folder.path().join("steward")).expect("a folder");
    let stale = folder.path().join("steward").join(program.name());
    fs::write(&stale, left).expect("a file");
    assert!(state_file::read(&stale).is_ok());
    let report = steward(&["report", &program.name(), "--json", "-"]);
    let done = report.env("XDG_RUNTIME_DIR", folder.path()).run();
    done.assert_code(2);
    assert!(done.stderr.contains("takes no requests"), "{done}");
}

#[test]
fn top_ends_well_when_its_program_does() {
    let test = "top_ends_well_when_its_program_does";
    let Some(client) = client(test) else { return };
    let mut program = run(&[], &client, &["serve", "handle"]);
    let top = Command::new(STEWARD)
        .args(["top", &program.name()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is there");
    std::thread::sleep(Duration::from_millis(300));
    program.signal(libc::SIGTERM);
    assert!(program.started.wait().expect("its end").success());
    let shown = top.wait_with_output().expect("its end");
    assert_eq!(shown.status.code(), Some(0), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("VkBuffer"));
}
