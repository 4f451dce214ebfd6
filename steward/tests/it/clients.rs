//! Programs that know nothing of Steward, unmodified, under `steward run`: scripts for Python's packages of five Vulkan
//! clients, which lie in `tests/clients`. `STEWARD_CLIENTS` names a virtual environment that has the packages; without
//! it the tests are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::{Child, Finished, skip};

use crate::run::steward;

/// Compilers of shaders and modules run in them.
const LIMIT: Duration = Duration::from_secs(300);

fn python(test: &str) -> Option<PathBuf> {
    let Some(environment) = std::env::var_os("STEWARD_CLIENTS") else {
        let reason = "STEWARD_CLIENTS names no virtual environment with the clients";
        skip("clients", test, reason);
        return None;
    };
    let python = Path::new(&environment).join("bin/python3");
    assert!(python.is_file(), "{} is not there", python.display());
    Some(python)
}

fn script(client: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    folder.join(client).with_extension("py")
}

/// The hash of what the client computed.
fn result(done: &Finished) -> &str {
    done.assert_code(0);
    let line = done.stdout.lines().find_map(|line| line.strip_prefix("result: "));
    line.unwrap_or_else(|| panic!("no result: {done}"))
}

/// Everything in the reports that is called `name`.
fn all<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    let below: Box<dyn Iterator<Item = &Value>> = match report {
        Value::Array(values) => Box::new(values.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => return Vec::new(),
    };
    let own = report.get(name);
    own.into_iter().chain(below.flat_map(|value| all(value, name))).collect()
}

/// Runs the client plain, and in each way of `steward run`. What is found and not expected of lavapipe makes that exit
/// with 1.
fn the_same_in_all_ways(test: &str, client: &str) {
    let Some(python) = python(test) else {
        return;
    };
    let plain = Child::new(&python).args([script(client)]).env("VK_LOADER_DRIVERS_SELECT", "lvp*").limit(LIMIT).run();
    let plain = result(&plain);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let expect = "--expect=lavapipe-22.3";
    for way in [
        // With accounts only.
        ["--no-check", "--driver=lvp*"],
        [expect, "--driver=lvp*"],
        [expect, "--guard=fence"],
        [expect, "--guard=strict"],
        [expect, "--guard=cookie"],
        [expect, "--guard=sampled"],
    ] {
        let done = steward(&["run", "--json"])
            .args([&file])
            .args(way)
            .args(["--"])
            .args([&python, &script(client)])
            .limit(LIMIT)
            .run();
        assert_eq!(result(&done), plain, "{client} {way:?}");
        let report = fs::read(&file).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        // The rows of kinds, of instances and of devices: each block counts once.
        let kinds = all(&report, "kinds").into_iter();
        let rows = kinds.flat_map(|kinds| kinds.as_array().expect("rows"));
        let blocks: u64 = rows.filter_map(|row| row["total_blocks"].as_u64()).sum();
        println!("{client} {}: {blocks} blocks", way.join(" "));
        assert!(blocks > 100, "{client} {way:?}: {blocks} blocks");
    }
}

#[test]
fn ly27_ly29_wgpu_is_the_same_in_all_ways() {
    the_same_in_all_ways("ly27_ly29_wgpu_is_the_same_in_all_ways", "wgpu_dispatch");
}

#[test]
fn ly27_ly29_taichi_is_the_same_in_all_ways() {
    the_same_in_all_ways("ly27_ly29_taichi_is_the_same_in_all_ways", "taichi_kernels");
}

#[test]
fn ly27_ly29_ncnn_is_the_same_in_all_ways() {
    the_same_in_all_ways("ly27_ly29_ncnn_is_the_same_in_all_ways", "ncnn_inferences");
}

#[test]
fn ly27_ly29_iree_is_the_same_in_all_ways() {
    the_same_in_all_ways("ly27_ly29_iree_is_the_same_in_all_ways", "iree_module");
}

#[test]
fn ly27_ly29_halide_is_the_same_in_all_ways() {
    the_same_in_all_ways("ly27_ly29_halide_is_the_same_in_all_ways", "halide_pipeline");
}
