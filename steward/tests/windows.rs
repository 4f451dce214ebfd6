//! The program as one of Windows: `.ci/run windows` runs this under Wine. Tests that need Vulkan's loader are skipped
//! where the step could not build it.
//!
//! The other tests of the program are for Linux: they send signals, read `/proc`, preload libraries or need its drivers
//! and tools.

#![cfg(windows)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::windows::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Child, Finished, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
/// The loader that `.ci/run windows` has built, and a program for it.
const LOADER: &str = "STEWARD_WINDOWS_LOADER";
const CLIENT: &str = "STEWARD_WINDOWS_CLIENT";

/// The registry and the folder for temporary files are one each for all.
static ALONE: Mutex<()> = Mutex::new(());

fn steward<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Child {
    Child::new(STEWARD).args(arguments)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn library(name: &str) -> PathBuf {
    let file = std::env::current_exe().expect("a path").with_file_name(name);
    assert!(file.is_file(), "{} is not built", file.display());
    file
}

/// What `.ci/run windows` has built, or a skip.
fn built(variable: &str, test: &str) -> Option<PathBuf> {
    let file = std::env::var_os(variable).map(PathBuf::from);
    if file.is_none() {
        skip("windows-loader", test, &format!("{variable} names no file"));
    }
    file
}

/// A copy of the client with the loader beside it, and the manifest of the reference driver.
struct BuiltClient {
    folder: TempDir,
    client: PathBuf,
    manifest: PathBuf,
}

impl BuiltClient {
    fn new(test: &str) -> Option<Self> {
        let (loader, client) = (built(LOADER, test)?, built(CLIENT, test)?);
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        fs::copy(loader, at("vulkan-1.dll")).expect("the loader");
        fs::copy(client, at("client.exe")).expect("the client");
        let driver = library("reference_driver.dll");
        let manifest = serde_json::json!({
            "file_format_version": "1.0.0",
            "ICD": { "library_path": driver, "api_version": "1.1.0" },
        });
        fs::write(at("own_icd.json"), manifest.to_string()).expect("a manifest");
        Some(Self { client: at("client.exe"), manifest: at("own_icd.json"), folder })
    }

    fn with_driver(&self, child: Child) -> Child {
        child.env("VK_DRIVER_FILES", &self.manifest).env("STEWARD_LOADER", self.folder.path().join("vulkan-1.dll"))
    }

    fn run(&self, options: &[&str], mode: &str) -> Finished {
        let mut words: Vec<OsString> = vec!["run".into()];
        words.extend(options.iter().map(OsString::from));
        words.extend(["--".into(), self.client.clone().into(), mode.into()]);
        self.with_driver(steward(words)).run()
    }
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("a report")).expect("JSON")
}

#[test]
fn wn9_the_workload_is_run_guarded_judged_and_replayed() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (trace, one, other) = (at("a.trace"), at("one.json"), at("other.json"));
    let version = steward(["--version"]).run();
    assert!(version.stdout.starts_with("steward ") && version.code == Some(0), "{version}");
    let words = ["drive", "--driver", "reference", "--seed", "7", "--record", &trace, "--json", &one];
    let drive = steward(words).run();
    assert_eq!(drive.code, Some(0), "{drive}");
    let report = json(Path::new(&one));
    let absent = report["callback_coverage"]["absent"].as_str();
    assert!(absent.is_some_and(|why| why.contains("not on Windows")), "{report}");
    let strict = steward(["drive", "--driver", "reference", "--seed", "7", "--guard=strict"]).run();
    assert_eq!(strict.code, Some(0), "{strict}");
    assert!(strict.stdout.contains("strict, with virtual-alloc"), "{strict}");
    let refused = steward(["drive", "--driver", "reference", "--fail=nth=40"]).run();
    assert!(refused.stdout.contains("as it must"), "{refused}");
    let check = steward(["check", "--driver", "reference"]).run();
    assert_eq!(check.code, Some(0), "{check}");
    let replay = steward(["replay", &trace, "--json", &other]).run();
    assert_eq!(replay.code, Some(0), "{replay}");
    let same = steward(["diff", &one, &one, "--exit-code"]).run();
    assert_eq!(same.code, Some(0), "{same}");
    let blocks = |report: &Value| {
        let phases = report["phases"].as_array().expect("phases");
        let blocks: Vec<_> = phases.iter().map(|phase| phase["blocks"].as_u64()).collect();
        blocks
    };
    assert_eq!(blocks(&json(Path::new(&other))), blocks(&report));
    assert!(blocks(&report).iter().flatten().sum::<u64>() > 100);
}

#[test]
fn wn9_an_exit_code_is_passed_on_and_an_exception_is_named() {
    const TEST: &str = "wn9_an_exit_code_is_passed_on_and_an_exception_is_named";
    let Some(client) = built(CLIENT, TEST) else {
        return;
    };
    let run = |mode: &[&str]| {
        let words = ["run", "--"].map(OsStr::new).into_iter();
        let words = words.chain([client.as_os_str()]);
        steward(words.chain(mode.iter().map(OsStr::new))).run()
    };
    for (code, name) in [
        (70_000, None),
        (u32::MAX, None),
        (0xE000_0001, None),
        (0xC000_0005, Some("access violation, 0xC0000005")),
        (0xC000_0409, Some("fail fast, 0xC0000409")),
        (0xC000_1234, Some("exception, 0xC0001234")),
    ] {
        let ended = run(&["exit", &code.to_string()]);
        assert_eq!(ended.code, Some(code.cast_signed()), "{ended}");
        let said = ended.stderr.split_once("was ended by ");
        let said = said.and_then(|(_, said)| Some(said.split_once(", and")?.0));
        assert_eq!(said, name, "{ended}");
    }
    let crashed = run(&["crash"]);
    assert_eq!(crashed.code, Some(0xC000_0005_u32.cast_signed()), "{crashed}");
    let absent = steward(["run", "--", "no-such-program.exe"]).run();
    assert_eq!(absent.code, Some(127), "{absent}");
}

/// Under Wine each process is elevated.
#[test]
fn wn11_wn14_an_elevated_process_is_told_why_no_report_came_and_nothing_is_metered() {
    const TEST: &str = "wn11_wn14_an_elevated_process_is_told_why_no_report_came_and_nothing_is_metered";
    let Some(client) = built(CLIENT, TEST) else {
        return;
    };
    let words = [OsStr::new("run"), "--meter".as_ref(), "--".as_ref(), client.as_ref(), "exit".as_ref(), "0".as_ref()];
    let run = steward(words).run();
    assert!(run.stderr.contains("this process is elevated"), "{run}");
    // WN14.
    let said = "callback coverage is not measured: the heap cannot be metered here: not on Windows";
    assert!(run.stderr.contains(said), "{run}");
}

fn explicit_layers() -> String {
    let key = r"HKCU\SOFTWARE\Khronos\Vulkan\ExplicitLayers";
    Child::new("reg").args(["query", key]).run().stdout
}

#[test]
fn wn10_the_layer_is_installed_and_removed_by_the_registry() {
    let _alone = ALONE.lock();
    let folder = folder();
    let layer = |what: &str| {
        let child = steward(["layer", what, "--user"]).env("LOCALAPPDATA", folder.path());
        let done = child.run();
        assert_eq!(done.code, Some(0), "{done}");
        done.stdout
    };
    let manifest = folder.path().join("steward").join("VkLayer_steward_memory.json");
    let installed = layer("install");
    assert!(installed.contains("HKEY_CURRENT_USER"), "{installed}");
    let text = json(&manifest);
    let library = text["layer"]["library_path"].as_str().expect("a path");
    assert!(Path::new(library).is_file(), "{text}");
    let listed = manifest.display().to_string();
    assert!(explicit_layers().contains(&listed), "{}", explicit_layers());
    let removed = layer("uninstall");
    assert!(removed.contains("HKEY_CURRENT_USER"), "{removed}");
    assert!(!manifest.exists() && !explicit_layers().contains(&listed));
    assert!(layer("uninstall").contains("nothing was removed"));
}

#[test]
fn wn10_drivers_are_those_of_the_variable_and_of_the_registry() {
    const TEST: &str = "wn10_drivers_are_those_of_the_variable_and_of_the_registry";
    let _alone = ALONE.lock();
    let Some(program) = BuiltClient::new(TEST) else {
        return;
    };
    let other = program.folder.path().join("other_icd.json");
    fs::copy(&program.manifest, &other).expect("a manifest");
    let both = std::env::join_paths([&program.manifest, &other]).expect("paths");
    let listed = program.with_driver(steward(["drivers"])).env("VK_DRIVER_FILES", both).run();
    assert!(listed.stdout.contains("own_icd") && listed.stdout.contains("other_icd"), "{listed}");
    // The drivers that are listed while the registry has the value.
    let listed_with = |key: &str, value: &[&str]| {
        let reg = |words: &[&[&str]]| {
            let done = Child::new("reg").args(words.concat()).run();
            assert_eq!(done.code, Some(0), "{done}");
        };
        reg(&[&["add", key, "/v"], value, &["/f"]]);
        let listed = program.with_driver(steward(["drivers"])).env_remove("VK_DRIVER_FILES").run();
        reg(&[&["delete", key, "/v", value[0], "/f"]]);
        listed
    };
    let other = other.display().to_string();
    let key = r"HKLM\SOFTWARE\Khronos\Vulkan\Drivers";
    let listed = listed_with(key, &[&other, "/t", "REG_DWORD", "/d", "0"]);
    assert!(listed.stdout.contains("other_icd") && !listed.stdout.contains("own_icd"), "{listed}");
    // As an installer notes the manifest with the adapter, or with a component of it.
    for class in ["4d36e968-e325-11ce-bfc1-08002be10318", "5c4c3332-344d-483c-8739-259e934c9cc8"] {
        let key = format!(r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{{{class}}}\0099");
        let listed = listed_with(&key, &["VulkanDriverName", "/d", &other]);
        assert!(listed.stdout.contains("other_icd"), "{class}: {listed}");
    }
    let manifest = program.manifest.display().to_string();
    let words = ["drive", "--driver", &manifest, "--direct", "--seed", "7", "--guard=strict"];
    let direct = program.with_driver(steward(words)).run();
    assert_eq!(direct.code, Some(0), "{direct}");
}

/// The line of the client's source that has this comment.
fn line_of(comment: &str) -> String {
    let source = include_str!("../../testkit/windows/client.c");
    let line = source.lines().position(|line| line.contains(&format!("/* {comment} */")));
    format!("client.c:{}", line.expect("the comment") + 1)
}

#[test]
fn wn9_the_leak_and_the_overflow_of_a_program_are_named_by_file_and_line() {
    const TEST: &str = "wn9_the_leak_and_the_overflow_of_a_program_are_named_by_file_and_line";
    let Some(program) = BuiltClient::new(TEST) else {
        return;
    };
    let leak = program.run(&["--stacks", "--guard=strict"], "leak");
    let left = line_of("left");
    assert!(leak.stderr.contains("leave_a_buffer") && leak.stderr.contains(&left), "{leak}");
    let overflow = program.run(&["--stacks", "--guard=strict"], "overflow");
    let far = line_of("too far");
    assert!(overflow.stderr.contains("overflow"), "{overflow}");
    assert!(overflow.stderr.contains("write_too_far") && overflow.stderr.contains(&far), "{overflow}");
    assert_eq!(overflow.code, Some(1), "{overflow}");
}

#[test]
fn wn9_a_running_program_is_asked_and_a_break_leaves_the_report() {
    const TEST: &str = "wn9_a_running_program_is_asked_and_a_break_leaves_the_report";
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    let _alone = ALONE.lock();
    let Some(program) = BuiltClient::new(TEST) else {
        return;
    };
    let mut run = Command::new(STEWARD)
        .args([OsStr::new("run"), "--stacks".as_ref(), "--".as_ref()])
        .args([program.client.as_os_str(), "wait".as_ref()])
        .env("VK_DRIVER_FILES", &program.manifest)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .creation_flags(CREATE_NEW_PROCESS_GROUP)
        .spawn()
        .expect("the program");
    let mut number = String::new();
    let output = run.stdout.as_mut().expect("a pipe");
    BufReader::new(output).read_line(&mut number).expect("a number");
    let number = number.trim();
    for words in [
        &["top", "--once"][..],
        &["top", "--once", number],
        &["mark", number, "--color=never"],
        &["report", number, "--color=never"],
    ] {
        let asked = steward(words).run();
        assert_eq!(asked.code, Some(0), "{words:?}: {asked}");
    }
    let named = steward(["report", "client"]).run();
    assert!(named.stdout.contains("VkBuffer"), "{named}");
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GenerateConsoleCtrlEvent(event: u32, group: u32) -> i32;
    }
    // SAFETY: numbers alone: CTRL_BREAK_EVENT, and the group of the program that this test has started.
    let sent = unsafe { GenerateConsoleCtrlEvent(1, run.id()) };
    if sent == 0 {
        skip("console", TEST, "there is no console whose Ctrl-Break could be sent");
        drop(run.stdin.take());
    }
    let done = run.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("VkBuffer"), "{said}");
    if sent != 0 {
        // The program had no handler.
        assert_eq!(done.status.code(), Some(0xC000_013A_u32.cast_signed()), "{said}");
        assert!(said.contains("ended by Ctrl-C, 0xC000013A"), "{said}");
    }
}

#[test]
fn wn9_functions_of_a_report_get_names() {
    unsafe extern "system" {
        fn GetModuleHandleW(name: *const u16) -> usize;
    }
    // SAFETY: NULL stands for the executable.
    let base = unsafe { GetModuleHandleW(std::ptr::null()) };
    let offset = folder as fn() -> TempDir as usize - base + 1;
    let file = std::env::current_exe().expect("a path");
    let report = folder();
    let report = report.path().join("report.txt");
    let text = format!("  stack of the free:\n    #0  0x1 {}+{offset:#x}\n", file.display());
    fs::write(&report, text).expect("a file");
    let named = steward([OsStr::new("symbols"), report.as_ref()]).run();
    assert!(named.stdout.contains("windows::folder") && named.stdout.contains("windows.rs:"), "{named}");
}
