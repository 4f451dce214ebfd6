//! The layer below, above and between others, on lavapipe: a layer of ours in C that wraps physical devices, and says
//! what is called that should not be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Child, Finished, compile_c_library, layer_order};
use vk_callbacks::CommandRow;

use crate::c_client::{client, program};
use crate::client::{library, with_layer};

const OURS: &str = "VK_LAYER_STEWARD_memory";
const ABOVE: &str = "VK_LAYER_TEST_above";
const BELOW: &str = "VK_LAYER_TEST_below";

/// A new folder in `parent` with the manifest of a layer. Of two in a chain each has a library, and so variables of its
/// own.
fn test_layer(name: &str, parent: &Path) -> PathBuf {
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layer.c"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let library = compile_c_library(source, &folder).expect("the client was compiled");
    let manifest = json!({
        "file_format_version": "1.2.1",
        "layer": {
            "name": name,
            "type": "GLOBAL",
            "library_path": library,
            "api_version": "1.4.0",
            "implementation_version": "1",
            "description": "",
        },
    });
    let folder = parent.join(name);
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("layer.json"), manifest.to_string()).expect("a file");
    folder
}

/// The client below these layers, the first one next to it. Loaders of 2023 take the order in which manifests are
/// found.
fn stacked(program: &Path, mode: &str, layers: &[&str], folder: &TempDir) -> Child {
    let child = with_layer(client(program, mode), folder.path());
    let folders = layers.iter().map(|layer| match *layer {
        OURS => folder.path().to_owned(),
        theirs => test_layer(theirs, folder.path()),
    });
    child
        .env("VK_INSTANCE_LAYERS", layers.join(":"))
        .env("VK_ADD_LAYER_PATH", std::env::join_paths(folders).expect("no colons"))
        .env("VK_LOADER_DEBUG", "layer")
}

fn assert_order(ran: &Finished, layers: &[&str]) {
    let mut order = layer_order(&ran.stderr);
    order.retain(|(name, _)| [OURS, ABOVE, BELOW].contains(&&**name));
    let names: Vec<_> = order.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, layers, "{ran}");
}

fn report(folder: &TempDir) -> Value {
    let report = fs::read(folder.path().join("report.json")).expect("a report");
    serde_json::from_slice(&report).expect("JSON")
}

/// The report names the layers of its chain, where it can, and says that those below count as the driver.
fn assert_neighbours(report: &Value, folder: &TempDir, layers: &[&str]) {
    let others: Vec<_> = layers.iter().filter(|layer| **layer != OURS).collect();
    assert_eq!(report["source"]["layers"], json!(others), "{report}");
    let below = report["source"]["layers_below"].as_array().expect("a list");
    let is_below = layers.contains(&BELOW);
    assert_eq!(below.len(), usize::from(is_below), "{report}");
    assert!(below.iter().all(|file| file.to_string().contains(BELOW)));
    let loader = report["source"]["loader"].as_str().expect("a file");
    assert!(loader.contains("libvulkan.so"), "{loader}");
    let file = report["program"]["library"].as_str().expect("a file");
    let library = library().canonicalize().expect("a file");
    assert!(library.display().to_string().ends_with(file), "{file}");
    let text = fs::read_to_string(folder.path().join("report.txt")).expect("a report");
    let sentence = "layers below, whose own objects count and are judged as the driver's: ";
    assert_eq!(text.contains(sentence), is_below, "{text}");
}

const STACKS: [&[&str]; 3] = [&[ABOVE, OURS], &[OURS, BELOW], &[ABOVE, OURS, BELOW]];

#[test]
fn ly2_ly9_layers_that_wrap_handles_work_above_and_below() {
    let test = "ly2_ly9_layers_that_wrap_handles_work_above_and_below";
    let Some(program) = program(test) else { return };
    for layers in STACKS {
        // With which instance the layer above looks up vkCreateDevice, and what else is set.
        for (mode, variable, value) in [
            ("plain", "LAYER_CREATES_WITH", "null"),
            ("plain", "LAYER_CREATES_WITH", "instance"),
            ("plain", "LAYER_CREATES_WITH", "stale"),
            ("plain", "LAYER_OWN_DEVICE", "true"),
            ("plain", "VK_STEWARD_MEMORY_MEMORY_REPORT", "true"),
            ("plain", "VK_STEWARD_MEMORY_STACKS", "true"),
            ("plain", "VK_STEWARD_MEMORY_BRACKETS", "all"),
            ("plain", "VK_STEWARD_MEMORY_MATCH", "nothing"),
            ("group", "LAYER_CREATES_WITH", "null"),
            ("threads", "LAYER_CREATES_WITH", "null"),
            ("devices", "LAYER_CREATES_WITH", "null"),
        ] {
            // The device of a layer below is made without callbacks, and is taken for the driver's.
            if variable == "LAYER_OWN_DEVICE" && layers.contains(&BELOW) {
                continue;
            }
            let folder = tempfile::tempdir().expect("a folder");
            let ran = stacked(program, mode, layers, &folder).env(variable, value).run();
            ran.assert_code(0);
            assert_order(&ran, layers);
            let is_passed = variable == "VK_STEWARD_MEMORY_MATCH";
            assert_eq!(folder.path().join("report.json").exists(), !is_passed);
            if is_passed {
                continue;
            }
            let report = report(&folder);
            assert_neighbours(&report, &folder, layers);
            assert_eq!(report["findings"], json!([]), "{layers:?} {mode} {value}");
            let devices = report["program"]["instances"][0]["devices"].as_array();
            let device = devices.and_then(|devices| devices.first());
            let name = device.map(|device| device["description"].to_string());
            assert!(name.is_some_and(|name| name.contains("llvmpipe")), "it knows the device: {report}");
        }
    }
}

#[test]
fn ly3_a_layer_above_is_answered_as_without_us() {
    let test = "ly3_a_layer_above_is_answered_as_without_us";
    let Some(program) = program(test) else { return };
    let names: BTreeSet<_> = CommandRow::all().iter().map(|row| row.name).collect();
    let others = [
        "vkGetInstanceProcAddr",
        "vkGetDeviceProcAddr",
        "vkEnumerateInstanceVersion",
        "vkEnumerateInstanceLayerProperties",
        "vkEnumerateInstanceExtensionProperties",
        "vkEnumeratePhysicalDevices",
        "vkGetPhysicalDeviceFeatures2",
        "vkCmdDraw",
        "vkQueueSubmit2",
        "vkNoSuch",
        "vk_layerGetPhysicalDeviceProcAddr",
    ];
    let names: Vec<_> = names.into_iter().chain(others).collect();
    for settings in ["", "nothing"] {
        let answered = |layers: &[&str]| {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("names");
            fs::write(&file, names.join("\n")).expect("a file");
            let child = stacked(program, "plain", layers, &folder).env("LAYER_NAMES", &file);
            let child = match settings {
                "" => child,
                pattern => child.env("VK_STEWARD_MEMORY_MATCH", pattern),
            };
            let ran = child.run();
            ran.assert_code(0);
            assert_order(&ran, layers);
            let lines = ran.stdout.lines().map(str::to_owned);
            lines.collect::<BTreeSet<_>>()
        };
        let without = answered(&[ABOVE]);
        for expected in [
            "before vkCreateInstance",
            "before vkCreateDevice",
            "null vkCreateDevice",
            "instance vkDestroyInstance",
            "device vkCreateBuffer",
        ] {
            assert!(without.contains(expected), "{without:?}");
        }
        let mut expected = without;
        // Without an instance the loader also answers with functions of its own that are no commands before an
        // instance.
        expected.retain(|line| {
            let is_of_instance = !line.starts_with("before ") && !line.starts_with("null ");
            is_of_instance || !(line.contains("DebugUtils") || line.contains(" vk_layer"))
        });
        let with = answered(&[ABOVE, OURS]);
        let differ: Vec<_> = with.symmetric_difference(&expected).collect();
        assert!(differ.is_empty(), "{settings}: {differ:?}");
    }
}
