//! The layer in a program that knows nothing of it, on lavapipe: `vulkaninfo`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Child, skip};

/// Where `cargo test` has put the shared library: beside the tests. `cargo build` alone puts it into the folder above.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let library = test.with_file_name("libVkLayer_steward_memory.so");
    assert!(library.is_file(), "{} is not built", library.display());
    library
}

fn vulkaninfo(arguments: &[&str]) -> Child {
    Child::new("vulkaninfo").args(arguments).env("VK_LOADER_DRIVERS_SELECT", "lvp*")
}

pub(crate) fn with_layer(child: Child, folder: &Path) -> Child {
    let manifest = json!({
        "file_format_version": "1.2.1",
        "layer": {
            "name": "VK_LAYER_STEWARD_memory",
            "type": "GLOBAL",
            "library_path": library(),
            "api_version": "1.4.0",
            "implementation_version": "1",
            "description": "",
        },
    });
    fs::write(folder.join("layer.json"), manifest.to_string()).expect("a file");
    child
        .env("VK_ADD_LAYER_PATH", folder)
        .env("VK_INSTANCE_LAYERS", "VK_LAYER_STEWARD_memory")
        .env("VK_STEWARD_MEMORY_TEXT", folder.join("report.txt"))
        .env("VK_STEWARD_MEMORY_JSON", folder.join("report.json"))
}

/// The part of the output about devices.
fn devices(output: &str) -> &str {
    let at = output.find("Devices:").expect("a list of devices");
    &output[at..]
}

#[test]
fn vulkaninfo_says_the_same_and_its_driver_is_counted() {
    let test = "vulkaninfo_says_the_same_and_its_driver_is_counted";
    let is_there = |folder: PathBuf| folder.join("vulkaninfo").is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(is_there) {
        return skip("vulkaninfo", test, "there is no vulkaninfo");
    }
    let without = vulkaninfo(&["--summary"]).run();
    if without.code != Some(0) || !without.stdout.contains("llvmpipe") {
        return skip("lavapipe", test, "vulkaninfo shows no lavapipe");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let with = with_layer(vulkaninfo(&["--summary"]), folder.path()).run();
    with.assert_code(0);
    assert_eq!(devices(&with.stdout), devices(&without.stdout));
    assert!(with.stdout.contains("VK_LAYER_STEWARD_memory"), "{with}");

    let mut files: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    files.sort();
    assert_eq!(files, ["layer.json", "report.json", "report.txt"]);
    let text = fs::read_to_string(folder.path().join("report.txt")).expect("a report");
    assert!(text.contains("VkInstance") && text.contains("findings: none"), "{text}");
    let report = fs::read(folder.path().join("report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let instance = &report["program"]["instances"][0];
    let row = |kinds: &Value, kind: &str| -> Value {
        let kinds = kinds.as_array().expect("rows");
        let row = kinds.iter().find(|row| row["kind"] == kind);
        row.unwrap_or_else(|| panic!("{kind} in {kinds:?}")).clone()
    };
    for row in [row(&instance["kinds"], "VkInstance"), row(&instance["devices"][0]["kinds"], "VkDevice")] {
        // lavapipe takes memory for both, and vulkaninfo destroys both.
        assert!(row["total_bytes"].as_u64() > Some(0), "{row}");
        assert!(row["peak_bytes"].as_u64() > Some(0), "{row}");
        assert!(row["objects_created"].as_u64() > Some(0), "{row}");
        for nothing in ["live_bytes", "live_blocks", "objects_alive", "foreign_commands"] {
            assert_eq!(row[nothing], 0, "{row}");
        }
    }
    assert_eq!(report["findings"], json!([]));
}
