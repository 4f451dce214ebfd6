//! `steward run --stacks` of a program in C: which command and stack created what, at the peak, of unloaded libraries,
//! and after a crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{Child, Finished, skip};

use crate::run::steward;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vk-layer/tests/stacks.c");

/// Compiles the program, or with a name of its function a plugin of it, with tables of lines. `None` where there is no
/// compiler.
fn compile(folder: &Path, file: &str, plugin: Option<&str>) -> Option<PathBuf> {
    let path = folder.join(file);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-o"]).args([path.as_path(), Path::new(SOURCE)]);
    if let Some(function) = plugin {
        cc.args(["-shared", "-fPIC", &format!("-DPLUGIN={function}")]);
    }
    let compiled = cc.arg("-ldl").output().ok()?;
    assert!(compiled.status.success(), "{compiled:?}");
    Some(path)
}

/// The program, where lavapipe runs it, and a folder.
struct StacksProgram {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl StacksProgram {
    fn new(test: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(program) = compile(folder.path(), "stacks", None) else {
            skip("cc", test, "there is no compiler for C");
            return None;
        };
        let plain = Child::new(&program).args(["freed"]);
        if plain.env("VK_LOADER_DRIVERS_SELECT", "lvp*").run().code != Some(0) {
            skip("lavapipe", test, "the program finds no lavapipe");
            return None;
        }
        Some(Self { folder, program })
    }

    fn plugin(&self, file: &str, function: &str) -> PathBuf {
        compile(self.folder.path(), file, Some(function)).expect("a compiler")
    }

    fn json(&self) -> PathBuf {
        self.folder.path().join("report.json")
    }

    fn page(&self) -> PathBuf {
        self.folder.path().join("report.html")
    }

    /// Runs the program with stacks, and returns what it wrote and its report.
    fn run(&self, arguments: &[&Path]) -> (Finished, Value) {
        let json = self.json();
        let done = steward(&["run", "--stacks", "--json"])
            .args([&json])
            .args([Path::new("--html"), &self.page()])
            .args([Path::new("--"), &self.program])
            .args(arguments)
            .run();
        let report = fs::read(json).expect("a report");
        (done, serde_json::from_slice(&report).expect("JSON"))
    }
}

/// What is alive of the command and the kind.
fn stack<'r>(report: &'r Value, command: &str, kind: &str) -> &'r Value {
    let stacks = report["leaks"]["stacks"].as_array().expect("stacks");
    let mut found = stacks.iter().filter(|stack| stack["command"] == command && stack["kind"] == kind);
    let one = found.next();
    let one = one.unwrap_or_else(|| panic!("{command}, {kind}: {stacks:?}"));
    assert!(found.next().is_none(), "{command}, {kind}: {stacks:?}");
    one
}

/// The names of a stack's functions, without files.
fn functions(stack: &Value) -> Vec<&str> {
    let frames = stack["frames"].as_array().expect("frames");
    let functions = frames.iter().filter_map(|frame| frame["functions"].as_array());
    let names = functions.flatten().filter_map(Value::as_str);
    names.map(|name| name.split(',').next().unwrap_or(name)).collect()
}

#[test]
fn ly36_the_command_is_the_one_that_the_program_called_and_blocks_are_of_the_kind_whose_callbacks_were_asked() {
    let test =
        "ly36_the_command_is_the_one_that_the_program_called_and_blocks_are_of_the_kind_whose_callbacks_were_asked";
    let Some(stage) = StacksProgram::new(test) else {
        return;
    };
    let (done, report) = stage.run(&[Path::new("freed")]);
    done.assert_code(0);
    // lavapipe enumerates with the instance's callbacks, and the layer itself asks for properties in vkCreateDevice.
    let enumerated = stack(&report, "vkEnumeratePhysicalDevices", "VkInstance");
    assert!(enumerated["blocks"]["live"].as_u64() > Some(0), "{enumerated}");
    let device = stack(&report, "vkCreateDevice", "VkDevice");
    assert_eq!(device["objects"]["live"], 1, "{device}");
    assert!(device["blocks"]["live"].as_u64() > Some(0), "{device}");
    assert!(!done.stderr.contains("vkGetPhysicalDevice"), "{done}");
}

/// The report's highest moment of this kind.
fn peak<'r>(report: &'r Value, of: &str) -> &'r Value {
    let peaks = report["leaks"]["peaks"].as_array().expect("peaks");
    let peak = peaks.iter().find(|peak| peak["of"] == of);
    peak.unwrap_or_else(|| panic!("{of}: {peaks:?}"))
}

#[test]
fn ly36_what_was_freed_before_the_end_has_its_stacks_at_the_peak() {
    let test = "ly36_what_was_freed_before_the_end_has_its_stacks_at_the_peak";
    let Some(stage) = StacksProgram::new(test) else {
        return;
    };
    let (done, report) = stage.run(&[Path::new("freed")]);
    done.assert_code(0);
    let memory = peak(&report, "device memory");
    // 40 of 1 MiB in frames of their own; the menu before and after it is gone, and what stays came later.
    assert_eq!(memory["bytes"], 40 << 20, "{memory}");
    assert_eq!((&memory["frame"], &memory["mark"]), (&39.into(), &"vkQueueSubmit".into()));
    let [level] = memory["stacks"].as_array().expect("stacks").as_slice() else {
        panic!("{memory}");
    };
    assert_eq!((&level["live"], &level["bytes"]), (&40.into(), &(40 << 20).into()));
    assert!(functions(level).contains(&"load_level"), "{level}");
    // When the driver had most, the scene's 400 buffers were there.
    let blocks = peak(&report, "host memory of the driver");
    let stacks = blocks["stacks"].as_array().expect("stacks");
    let scene =
        stacks.iter().find(|stack| functions(stack).contains(&"fill_scene")).unwrap_or_else(|| panic!("{blocks}"));
    assert_eq!((&scene["kind"], &scene["live"]), (&"VkBuffer".into(), &400.into()));
    let sum: u64 = stacks.iter().filter_map(|stack| stack["bytes"].as_u64()).sum();
    assert_eq!(blocks["bytes"], sum, "one thread allocates: exact");
    for line in [
        "at the peak of device memory (40.0 MiB, after ",
        " s, frame 39 (vkQueueSubmit)): 1 call stack held it",
        "  1. vkAllocateMemory: 40 VkDeviceMemory (40.0 MiB)",
        "load_level, ",
        "fill_scene, ",
    ] {
        assert!(done.stderr.contains(line), "{line} in {done}");
    }
    assert!(!done.stderr.contains("load_menu"), "{done}");
    let alive = stack(&report, "vkAllocateMemory", "VkDeviceMemory");
    assert_eq!(alive["objects"]["live"], 1, "{alive}");
}

#[test]
fn ly36_frames_of_unloaded_libraries_keep_their_names_and_another_library_there_has_its_own() {
    let test = "ly36_frames_of_unloaded_libraries_keep_their_names_and_another_library_there_has_its_own";
    let Some(stage) = StacksProgram::new(test) else {
        return;
    };
    let first = stage.plugin("first.so", "first_plugin");
    let other = stage.plugin("other.so", "other_plugin");
    let [first_name, other_name] = ["first_plugin", "other_plugin"].map(Path::new);
    // The first one comes twice.
    let (done, report) = stage.run(&[Path::new("plugins"), &first, first_name, &other, other_name, &first, first_name]);
    done.assert_code(0);
    let stacks = report["leaks"]["stacks"].as_array().expect("stacks");
    let of = |name: &str| {
        let mut found = stacks.iter().filter(|stack| functions(stack).contains(&name));
        let one = found.next().unwrap_or_else(|| panic!("{name}: {stacks:#?}"));
        assert!(found.next().is_none(), "{name}: {stacks:#?}");
        one
    };
    for (name, file, live) in [("first_plugin", &first, 100), ("other_plugin", &other, 50)] {
        let stack = of(name);
        assert_eq!(stack["objects"]["live"], live, "{stack}");
        let frame = &stack["frames"][0];
        assert_eq!(frame["module"], file.to_str().expect("a name"), "{stack}");
        assert!(frame["build_id"].as_str().is_some_and(|id| id.len() >= 16), "{stack}");
    }
    // At the same address: if not, the test shows less than it means to.
    let addresses: Vec<_> = done.stdout.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(addresses[0], addresses[1], "{done}");
}

#[test]
fn ly36_a_library_that_was_replaced_on_disk_names_no_function() {
    let test = "ly36_a_library_that_was_replaced_on_disk_names_no_function";
    let Some(stage) = StacksProgram::new(test) else {
        return;
    };
    let plugin = stage.plugin("plugin.so", "first_plugin");
    let other = stage.plugin("other.so", "other_plugin");
    // The program is followed by what replaces its plugin: the shell that is run.
    let script = format!(
        "{} plugins {} first_plugin && mv {} {}",
        stage.program.display(),
        plugin.display(),
        other.display(),
        plugin.display()
    );
    let done = steward(&["run", "--stacks", "--", "sh", "-c", &script]).run();
    done.assert_code(0);
    let line = format!("{}+0x", plugin.display());
    let said = done.stderr.lines().find(|said| said.contains(&line));
    let said = said.unwrap_or_else(|| panic!("{done}"));
    assert!(said.ends_with(" (another file has this name now)"), "{done}");
    assert!(!done.stderr.contains("other_plugin"), "{done}");
}

#[test]
fn ly44_a_program_that_died_has_its_stacks_with_names() {
    let test = "ly44_a_program_that_died_has_its_stacks_with_names";
    let Some(stage) = StacksProgram::new(test) else {
        return;
    };
    let plugin = stage.plugin("plugin.so", "first_plugin");
    for (mode, code) in
        [("segv", 139), ("abort", 134), ("_exit", 3), ("kill", 137), ("die-of-plugin", 137), ("fork", 137)]
    {
        let (done, report) = stage.run(&[Path::new(mode), &plugin, Path::new("first_plugin")]);
        done.assert_code(code);
        assert_eq!(report["source"], "state file", "{mode}: {report}");
        let stacks = report["leaks"]["stacks"].as_array().expect("stacks");
        let of = |name: &str| {
            let found = stacks.iter().find(|stack| functions(stack).contains(&name));
            found.unwrap_or_else(|| panic!("{mode}, {name}: {stacks:#?}"))
        };
        assert_eq!(of("load_level")["objects"]["live"], 40, "{mode}");
        assert_eq!(of("load_level")["objects"]["bytes"], 40 << 20, "{mode}");
        assert_eq!(of("keep_one")["objects"]["live"], 1, "{mode}");
        let scene = stacks.iter().find(|stack| functions(stack).contains(&"fill_scene"));
        let alive = scene.map(|stack| &stack["objects"]["live"]);
        let expected = Value::from(400);
        assert_eq!(alive, (mode == "fork").then_some(&expected), "{mode}");
        assert_eq!(peak(&report, "device memory")["bytes"], (40 << 20) + (1 << 18));
        for line in ["alive at the end: ", "load_level, ", "debug names ended with the process"] {
            assert!(done.stderr.contains(line), "{mode}: {line} in {done}");
        }
        let page = fs::read_to_string(stage.page()).expect("a page");
        for part in ["There is no report: it ended ", "<li>load_level, ", "<h3>At the peak of device memory"] {
            assert!(page.contains(part), "{mode}: {part} in {page}");
        }
        if mode == "die-of-plugin" {
            assert_eq!(of("first_plugin")["objects"]["live"], 50);
        }
    }
}
