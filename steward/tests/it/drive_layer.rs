//! `steward drive --layer`, and the workload with callbacks of its own above the layer, on lavapipe.

use std::path::Path;

use serde_json::Value;
use testkit::skip;

use crate::run::{STEWARD, json, steward};

pub(crate) const DRIVE: [&str; 5] = ["drive", "--driver", "lavapipe", "--seed", "1"];

/// Whether `steward drivers` lists lavapipe.
pub(crate) fn is_lavapipe_there(test: &str) -> bool {
    let is_there = steward(&["drivers"]).run().stdout.contains("MESA_LLVMPIPE");
    if !is_there {
        skip("lavapipe", test, "`steward drivers` lists no lavapipe");
    }
    is_there
}

/// `steward BEFORE.. drive .. --json FILE`, and the JSON.
fn report(folder: &Path, before: &[&str], option: &str) -> Value {
    let file = folder.join("report.json");
    let done = steward(before)
        .args(DRIVE)
        .args([option, "--json"])
        .args([&file])
        .run();
    done.assert_code(0);
    json(&file)
}

#[test]
fn ly46_the_workload_runs_through_the_layer_without_callbacks_of_its_own() {
    let test = "ly46_the_workload_runs_through_the_layer_without_callbacks_of_its_own";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let layer = report(folder.path(), &[], "--layer");
    let plain = report(folder.path(), &[], "--no-coverage");
    let kinds = &layer["program"]["instances"][0]["devices"][0]["kinds"];
    let kinds = kinds.as_array().expect("rows");
    let mut compared = 0;
    for object in plain["source"]["objects"].as_array().expect("a list") {
        let Some(row) = kinds.iter().find(|row| row["kind"] == object[0]) else {
            continue;
        };
        assert_eq!(row["objects_created"], object[1], "{row}");
        for nothing in ["objects_alive", "foreign_commands"] {
            assert_eq!(row[nothing], 0, "{row}");
        }
        compared += 1;
    }
    assert!(compared > 15, "{compared} kinds");
    // lavapipe's known defect, which the checker finds in either place.
    let has_v29 = |findings: &Value| {
        let mut rows = findings.as_array().expect("rows").iter();
        rows.any(|row| row["rule"] == "V29" && row["owner"] == "VkPipelineCache")
    };
    assert!(has_v29(&plain["findings"]) && has_v29(&layer["findings"]));
}

#[test]
fn ly14_callbacks_of_the_program_are_counted_as_without_the_layer() {
    let test = "ly14_callbacks_of_the_program_are_counted_as_without_the_layer";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let without = report(folder.path(), &[], "--no-coverage");
    let with = report(folder.path(), &["run", "--", STEWARD], "--no-coverage");
    for member in ["source", "leftovers", "device_memory", "unjudged"] {
        assert_eq!(with[member], without[member], "{member}");
    }
    let layers = |report: &Value| report["environment"]["layers"].as_array().map(Vec::len);
    assert_eq!((layers(&with), layers(&without)), (Some(1), Some(0)));
    assert!(
        with["limits"]
            .to_string()
            .contains("VK_LAYER_STEWARD_memory")
    );
    let rows = |report: &Value| -> Vec<Value> {
        let rows = report["contexts"].as_array().expect("rows").iter();
        // The loader allocates more for a chain with a layer: for the instance, and so in the sum of all.
        let rows = rows.filter(|row| row["name"] != "vulkan" && row["name"] != "VkInstance");
        let mut rows: Vec<Value> = rows.cloned().collect();
        for row in &mut rows {
            let row = row.as_object_mut().expect("a row");
            // How much is live at once depends on when the driver's threads free what a submit has needed.
            row.retain(|name, _| !name.starts_with("peak_") && !name.starts_with("live_"));
        }
        rows
    };
    assert!(rows(&without).len() > 15);
    assert_eq!(rows(&with), rows(&without));
}

/// The workload counts what comes through its own callbacks, and so does the layer above it, in another way: by the checker's records.
#[test]
fn ly19_the_layer_counts_what_a_program_counts_itself() {
    let test = "ly19_the_layer_counts_what_a_program_counts_itself";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let manifest = steward(&["layer", "--print-manifest"]).run();
    std::fs::write(path("layer.json"), manifest.stdout).expect("a file");
    let drive = steward(&DRIVE).args(["--no-coverage", "--json"]);
    drive
        .args([path("own.json")])
        .env("VK_ADD_LAYER_PATH", folder.path())
        .env("VK_INSTANCE_LAYERS", "VK_LAYER_STEWARD_memory")
        .env("VK_STEWARD_MEMORY_JSON", path("of_layer.json"))
        .run()
        .assert_code(0);
    let (own, of_layer) = (json(&path("own.json")), json(&path("of_layer.json")));
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    let devices = list(&of_layer["program"]["instances"])
        .into_iter()
        .flat_map(|instance| list(&instance["devices"]));
    let kinds: Vec<_> = devices.flat_map(|device| list(&device["kinds"])).collect();
    let objects = list(&own["source"]["objects"]);
    let mut compared = 0;
    for row in list(&own["contexts"]) {
        let sum = |name: &str| -> u64 {
            let of_kind = kinds.iter().filter(|kind| kind["kind"] == row["name"]);
            of_kind.map(|kind| number(kind, name)).sum()
        };
        let created = sum("objects_created");
        // Of other kinds not all objects have callbacks.
        let is_workloads = objects
            .iter()
            .any(|object| object[0] == row["name"] && object[1] == created && created != 0);
        // Of the device's callbacks the loader asks as well, above the layer.
        let is_of_driver = row["name"] != "VkDevice";
        if !is_workloads || !is_of_driver || sum("foreign_commands") != 2 * created {
            continue;
        }
        let blocks = number(&row, "total_blocks");
        assert_eq!(sum("total_blocks"), blocks, "{row}");
        // The workload's accounts have 16 bytes in front of each block.
        let bytes = number(&row, "total_bytes") - 16 * blocks;
        assert_eq!(sum("total_bytes"), bytes, "{row}");
        assert_eq!((sum("live_blocks"), sum("objects_alive")), (0, 0), "{row}");
        compared += 1;
    }
    assert!(compared >= 8, "{compared} kinds");
}
