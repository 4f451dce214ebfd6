//! A program that draws: `vkcube`, unmodified, on lavapipe, on a display of its own where `xvfb-run` is installed, else
//! on the one there is.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::{Child, layer_order, skip};

use crate::run::{STEWARD, is_program, json, steward, with_our_layer};

const OURS: &str = "VK_LAYER_STEWARD_memory";
const VALIDATION: &str = "VK_LAYER_KHRONOS_validation";
const FRAMES: u64 = 200;

/// `BEFORE.. vkcube` on a display. A drawing program that hangs has children: `timeout` ends them all, and the display
/// after them.
fn cube(before: &[&Path], options: &[&str]) -> Child {
    let child = if is_program("xvfb-run") {
        Child::new("xvfb-run").args(["-a", "timeout", "150"])
    } else {
        Child::new("timeout").args(["150"])
    };
    let frames = FRAMES.to_string();
    with_our_layer(child).args(before).args(["vkcube", "--c", &frames]).args(options).limit(Duration::from_secs(170))
}

/// The line that names the device, without a layer; or a skip.
fn alone(test: &str) -> Option<String> {
    for program in ["vkcube", "timeout"] {
        if !is_program(program) {
            skip("vkcube", test, &format!("there is no {program}"));
            return None;
        }
    }
    if !is_program("xvfb-run") && std::env::var_os("DISPLAY").is_none() {
        skip("vkcube", test, "there is neither xvfb-run nor a display");
        return None;
    }
    let alone = cube(&[], &[]).run();
    let device = alone.stderr.lines().find(|line| line.contains("llvmpipe")).filter(|_| alone.code == Some(0));
    if device.is_none() {
        skip("vkcube", test, "vkcube does not draw on lavapipe here");
    }
    device.map(str::to_owned)
}

/// Under `steward run`, with what is known of lavapipe: anything else ends it with 1.
fn under(report: &Path, way: &[&str]) -> Child {
    let run = ["run", "--expect=lavapipe-22.3", "--json"].map(Path::new);
    let mut before = vec![Path::new(STEWARD)];
    before.extend(run);
    before.push(report);
    before.extend(way.iter().map(Path::new));
    before.push(Path::new("--"));
    cube(&before, &[])
}

/// The rows of kinds, of all instances and devices.
fn rows(report: &Value) -> Vec<Value> {
    let list = |of: &Value, name: &str| of[name].as_array().expect("a list").clone();
    let instances = list(&report["program"], "instances");
    let devices = instances.iter().flat_map(|one| list(one, "devices"));
    let all = instances.iter().cloned().chain(devices);
    all.flat_map(|one| list(&one, "kinds")).collect()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().expect("a number")
}

#[test]
fn ly27_ly29_vkcube_draws_in_all_ways_and_leaves_nothing() {
    let Some(device) = alone("ly27_ly29_vkcube_draws_in_all_ways_and_leaves_nothing") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    for way in ["--stacks", "--guard=strict"] {
        let done = under(&file, &[way]).run();
        done.assert_code(0);
        assert!(done.stderr.contains(&device), "{done}");
        let report = json(&file);
        let rows = rows(&report);
        for kind in ["VkSurfaceKHR", "VkSwapchainKHR", "VkPipeline", "VkDevice", "VkInstance"] {
            let row = rows.iter().find(|row| row["kind"] == kind);
            let row = row.unwrap_or_else(|| panic!("{kind}: {report}"));
            assert_eq!(number(row, "objects_created"), 1, "{way} {row}");
        }
        for row in &rows {
            for left in ["live_bytes", "live_blocks", "objects_alive"] {
                assert_eq!(number(row, left), 0, "{way} {row}");
            }
        }
        let blocks: u64 = rows.iter().map(|row| number(row, "total_blocks")).sum();
        println!("vkcube {way}: {blocks} blocks");
        // It did draw: lavapipe's worker freed what each present took, and that is known of it.
        let findings = report["findings"].as_array().expect("findings");
        let freed = findings
            .iter()
            .find(|finding| finding["kind"] == "FreedOnForeignThread" && finding["command"] == "vkQueuePresentKHR");
        let freed = freed.unwrap_or_else(|| panic!("{way}: {report}"));
        assert!(number(freed, "count") >= FRAMES, "{way} {freed}");
        assert_eq!(report["guard"].is_null(), way == "--stacks", "{report}");
        if way == "--stacks" {
            let leaks = &report["leaks"];
            assert_eq!(leaks["mark"], "vkQueuePresentKHR");
            assert_eq!(leaks["stacks"], Value::Array(Vec::new()), "{leaks}");
            // The first present begins the first frame.
            let counted = number(leaks, "intervals") + number(leaks, "warm_up") + 1;
            assert_eq!(counted, FRAMES, "{leaks}");
        }
    }
}

#[test]
fn ly9_of_vkcube_the_validation_layer_says_the_same_above_and_below() {
    let test = "ly9_of_vkcube_the_validation_layer_says_the_same_above_and_below";
    if alone(test).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = steward(&["layer", "--print-manifest"]).run();
    std::fs::write(folder.path().join("layer.json"), manifest.stdout).expect("a file");
    let file = folder.path().join("report.json");
    // The rules that it says are broken, in the order of its messages; and where its manifest is.
    let rules = |options: &[&str], layers: &[&str], theirs: &Path| {
        let mut paths = [folder.path(), theirs];
        if layers.first() == Some(&VALIDATION) {
            paths.reverse();
        }
        let done = cube(&[], options)
            .env("VK_INSTANCE_LAYERS", layers.join(":"))
            .env("VK_ADD_LAYER_PATH", std::env::join_paths(paths).expect("no colons"))
            .env("VK_LOADER_DEBUG", "layer")
            .env("VK_STEWARD_MEMORY_JSON", &file)
            .run();
        done.assert_code(0);
        let mut order = layer_order(&done.stderr);
        order.retain(|(name, _)| [OURS, VALIDATION].contains(&&**name));
        let names: Vec<_> = order.iter().map(|(name, _)| &**name).collect();
        let theirs = order.iter().find(|(name, _)| name == VALIDATION);
        if theirs.is_some() {
            assert_eq!(names, layers, "{done}");
        }
        let lines = done.stdout.lines().chain(done.stderr.lines());
        let rules = lines.filter_map(|line| line.split("VUID-").nth(1)?.split('(').next());
        let folder = theirs.and_then(|(_, manifest)| manifest.parent());
        (rules.map(str::to_owned).collect::<Vec<_>>(), folder.map(Path::to_owned))
    };
    // Vkcube makes some mistakes if it is told to.
    let wrong = ["--force_errors"];
    let (alone, theirs) = rules(&wrong, &[VALIDATION], Path::new("/nonexistent"));
    let Some(theirs) = theirs else {
        return skip("validation", test, "there is no validation layer");
    };
    assert!(!alone.is_empty());
    for order in [[OURS, VALIDATION], [VALIDATION, OURS]] {
        for (options, said) in [(&wrong[..], &alone[..]), (&[], &[])] {
            let (rules, found) = rules(options, &order, &theirs);
            assert_eq!((&rules[..], found.is_some()), (said, true), "{order:?}");
            let rows = rows(&json(&file));
            let left = rows.iter().map(|row| number(row, "live_blocks"));
            assert_eq!(left.sum::<u64>(), 0, "{order:?} {options:?}: {rows:?}");
            std::fs::remove_file(&file).expect("of this run");
        }
    }
}
