//! The linked layer of `steward drive`, and the layer of `steward run` below it or below the workload alone, on
//! lavapipe.

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

/// The workload on lavapipe as a program without callbacks, as words of a command line.
pub(crate) fn plain_workload() -> [String; 3] {
    let drivers = steward(&["drivers", "--json", "-"]).run();
    let drivers: Value = serde_json::from_str(&drivers.stdout).expect("JSON");
    let driver = drivers.as_array().and_then(|all| all.iter().find(|one| one["id"] == "MESA_LLVMPIPE"));
    plain_workload_on(driver.expect("lavapipe"))
}

/// The same on a driver of `steward drivers --json`.
pub(crate) fn plain_workload_on(driver: &Value) -> [String; 3] {
    let driver = serde_json::json!({
        "index": driver["index"], "device_index": 0, "manifest": null, "stem": driver["file"], "driver_id": driver["id"],
        "driver_name": driver["driver"], "driver_info": driver["version"], "device_name": driver["device"], "api_version": [1, 3, 0],
    });
    let job = serde_json::json!({
        "driver": { "info": driver, "is_direct": false }, "seed": 7, "rounds": 1, "is_observed": false, "check": true, "records": false,
        "stacks": "None", "settings": [], "folder": "",
    });
    [STEWARD.into(), "workload-child".into(), job.to_string()]
}

/// `steward BEFORE.. drive .. --no-coverage OPTIONS.. --json FILE`, and the JSON.
fn report(folder: &Path, before: &[&str], options: &[&str]) -> Value {
    let file = folder.join("report.json");
    let done = steward(before).args(DRIVE).args(options).args(["--no-coverage", "--json"]).args([&file]).run();
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
    let file = folder.path().join("layer.json");
    steward(&["run", "--json"]).args([&file]).args(plain_workload()).run().assert_code(0);
    let layer = json(&file);
    let plain = report(folder.path(), &[], &[]);
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

/// What differs is the loader's: it allocates for the instance, for the device, and more for a chain with a layer.
#[test]
fn ly14_the_drivers_numbers_are_the_same_below_run_alone_and_without_a_loader() {
    let test = "ly14_the_drivers_numbers_are_the_same_below_run_alone_and_without_a_loader";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let alone = report(folder.path(), &[], &[]);
    let below_run = report(folder.path(), &["run", "--", STEWARD], &[]);
    let direct = report(folder.path(), &[], &["--direct"]);
    let kinds = |report: &Value| -> Vec<Value> {
        let rows = report["contexts"].as_array().expect("rows").iter();
        let mut rows: Vec<_> = rows.filter(|row| row["group"] == false).cloned().collect();
        for row in &mut rows {
            let row = row.as_object_mut().expect("a row");
            // How much is live at once depends on when the driver's threads free what a submit has needed.
            row.retain(|name, _| !name.starts_with("peak_") && !name.starts_with("live_"));
        }
        rows
    };
    let without = |rows: Vec<Value>, loaders: &[&str]| -> Vec<Value> {
        let is_drivers = |row: &Value| !loaders.iter().any(|kind| row["name"] == *kind);
        rows.into_iter().filter(is_drivers).collect()
    };
    assert!(kinds(&alone).len() > 15);
    for (other, loaders) in [(&below_run, &["VkInstance"][..]), (&direct, &["VkInstance", "VkDevice"])] {
        for member in ["source", "leftovers", "device_memory", "unjudged"] {
            assert_eq!(other[member], alone[member], "{member}");
        }
        assert_eq!(without(kinds(other), loaders), without(kinds(&alone), loaders));
        let findings = |report: &Value| -> Vec<String> {
            let rows = report["findings"].as_array().expect("rows").iter();
            let is_loaders = |row: &&Value| loaders.iter().any(|kind| row["owner"] == *kind);
            // Which thread of the driver has the last reference, and frees, is its timing.
            let is_chance = |row: &&Value| row["kind"] == "FreedOnForeignThread";
            let name = |row: &Value| format!("{} {} {}", row["rule"], row["owner"], row["command"]);
            let rows = rows.filter(|row| !is_loaders(row) && !is_chance(row));
            let mut names: Vec<_> = rows.map(name).collect();
            names.sort();
            names.dedup();
            names
        };
        assert!(findings(&alone).len() > 3, "{:?}", findings(&alone));
        assert_eq!(findings(other), findings(&alone));
    }
    let layers = |report: &Value| report["environment"]["layers"].as_array().map(Vec::len);
    assert_eq!((layers(&below_run), layers(&alone)), (Some(1), Some(0)));
    assert!(below_run["limits"].to_string().contains("VK_LAYER_STEWARD_memory"));
}

/// The linked layer counts what comes through its callbacks, and so does the layer below it, in another way: by the
/// checker's records.
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
    let devices = list(&of_layer["program"]["instances"]).into_iter().flat_map(|instance| list(&instance["devices"]));
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
        let is_workloads =
            objects.iter().any(|object| object[0] == row["name"] && object[1] == created && created != 0);
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
