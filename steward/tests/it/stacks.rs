//! `steward run --stacks` of a program in C: which command and stack created what, at the peak, of unloaded libraries, and after a crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{Child, Finished, skip};

use crate::run::steward;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vk-layer/tests/stacks.c");

/// Compiles the program, or with a name of its function a plugin of it, with tables of lines. `None` where there is no compiler.
fn compile(folder: &Path, file: &str, plugin: Option<&str>) -> Option<PathBuf> {
    let path = folder.join(file);
    let mut cc = Command::new("cc");
    cc.args([
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        "-g",
        "-o",
    ])
    .args([path.as_path(), Path::new(SOURCE)]);
    if let Some(function) = plugin {
        cc.args(["-shared", "-fPIC", &format!("-DPLUGIN={function}")]);
    }
    let compiled = cc.arg("-ldl").output().ok()?;
    assert!(compiled.status.success(), "{compiled:?}");
    Some(path)
}

/// The program, where lavapipe runs it, and a folder.
struct Stage {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Stage {
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

    /// Runs the program with stacks, and returns what it wrote and its report.
    fn run(&self, arguments: &[&Path]) -> (Finished, Value) {
        let json = self.json();
        let done = steward(&["run", "--stacks", "--json"])
            .args([&json])
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
    let mut found = stacks
        .iter()
        .filter(|stack| stack["command"] == command && stack["kind"] == kind);
    let one = found.next();
    let one = one.unwrap_or_else(|| panic!("{command}, {kind}: {stacks:?}"));
    assert!(found.next().is_none(), "{command}, {kind}: {stacks:?}");
    one
}

/// The names of a stack's functions, without files.
fn functions(stack: &Value) -> Vec<&str> {
    let frames = stack["frames"].as_array().expect("frames");
    let functions = frames
        .iter()
        .filter_map(|frame| frame["functions"].as_array());
    let names = functions.flatten().filter_map(Value::as_str);
    names
        .map(|name| name.split(',').next().unwrap_or(name))
        .collect()
}

#[test]
fn ly36_the_command_is_the_one_that_the_program_called_and_blocks_are_of_the_kind_whose_callbacks_were_asked()
 {
    let test = "ly36_the_command_is_the_one_that_the_program_called_and_blocks_are_of_the_kind_whose_callbacks_were_asked";
    let Some(stage) = Stage::new(test) else {
        return;
    };
    let (done, report) = stage.run(&[Path::new("freed")]);
    done.assert_code(0);
    // lavapipe enumerates with the instance's callbacks, and the layer itself asks for properties in vkCreateDevice.
    let enumerated = stack(&report, "vkEnumeratePhysicalDevices", "VkInstance");
    assert!(
        enumerated["blocks"]["live"].as_u64() > Some(0),
        "{enumerated}"
    );
    let device = stack(&report, "vkCreateDevice", "VkDevice");
    assert_eq!(device["objects"]["live"], 1, "{device}");
    assert!(device["blocks"]["live"].as_u64() > Some(0), "{device}");
    assert!(!done.stderr.contains("vkGetPhysicalDevice"), "{done}");
}
