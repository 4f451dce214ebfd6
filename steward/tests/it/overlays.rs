//! The layers that players and developers have on, above and below: `vkcube` on lavapipe and a display of its own
//! (`xvfb-run`) with MangoHud, RenderDoc, gfxreconstruct, the validation layer and Mesa's overlay. One that is not
//! installed is skipped.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::{Child, Finished, layer_order, skip};

use crate::run::{STEWARD, is_program, json, steward, with_our_layer};

const OURS: &str = "VK_LAYER_STEWARD_memory";
const FRAMES: &str = "20";

/// A layer, and the variable that switches it on.
struct Overlay {
    layer: &'static str,
    on: (&'static str, &'static str),
}

impl Overlay {
    /// An explicit one may be named again, by a variable that stands above or below.
    fn is_explicit(&self) -> bool {
        self.on.0 == "VK_INSTANCE_LAYERS"
    }

    /// Whether the loader has put it into the chain.
    fn is_in(&self, done: &Finished) -> bool {
        let order = layer_order(&done.stderr);
        order.iter().any(|(name, _)| name.starts_with(self.layer))
    }
}

const fn explicit(layer: &'static str) -> Overlay {
    let on = ("VK_INSTANCE_LAYERS", layer);
    Overlay { layer, on }
}

const MANGOHUD: Overlay = Overlay { layer: "VK_LAYER_MANGOHUD_overlay", on: ("MANGOHUD", "1") };
const RENDERDOC: Overlay =
    Overlay { layer: "VK_LAYER_RENDERDOC_Capture", on: ("ENABLE_VULKAN_RENDERDOC_CAPTURE", "1") };
const GFXRECONSTRUCT: Overlay = explicit("VK_LAYER_LUNARG_gfxreconstruct");
const VALIDATION: Overlay = explicit("VK_LAYER_KHRONOS_validation");
const MESA: Overlay = explicit("VK_LAYER_MESA_overlay");

/// `BEFORE.. vkcube` on a display. What the layers write lies in the folder.
fn cube(before: &[&Path], folder: &Path) -> Child {
    let child = Child::new("xvfb-run").args(["-a", "timeout", "150"]);
    with_our_layer(child)
        .args(before)
        .args(["vkcube", "--c", FRAMES])
        .env("HOME", folder)
        .env("GFXRECON_CAPTURE_FILE", folder.join("capture.gfxr"))
        .env("VK_LOADER_DEBUG", "layer")
        .limit(Duration::from_secs(170))
}

fn with(child: Child, overlay: &Overlay) -> Child {
    child.env(overlay.on.0, overlay.on.1)
}

/// The exit code without Steward, or a skip.
fn alone(test: &str, overlay: &Overlay, folder: &Path) -> Option<i32> {
    for program in ["vkcube", "xvfb-run", "timeout"] {
        if !is_program(program) {
            skip("overlays", test, &format!("there is no {program}"));
            return None;
        }
    }
    let done = with(cube(&[], folder), overlay).run();
    if !done.stderr.contains("llvmpipe") {
        skip("overlays", test, "vkcube finds no lavapipe");
        return None;
    }
    if !overlay.is_in(&done) {
        skip("overlays", test, &format!("there is no {}", overlay.layer));
        return None;
    }
    assert!(!done.timed_out, "{done}");
    Some(done.code.unwrap_or(-1))
}

/// The objects of the process's report, and that it has some.
fn assert_report(report: &Path, done: &Finished) -> Value {
    let report = json(report);
    let instances = report["program"]["instances"].as_array().expect("a list");
    let devices = instances.iter().filter_map(|one| one["devices"].as_array());
    let kinds = devices.flatten().filter_map(|one| one["kinds"].as_array());
    let swapchains = kinds.flatten().filter(|row| row["kind"] == "VkSwapchainKHR");
    assert_eq!(swapchains.count(), 1, "{done}");
    report
}

/// With the overlay above, by `steward run`.
fn above(test: &str, overlay: &Overlay) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(code) = alone(test, overlay, folder.path()) else {
        return;
    };
    let report = folder.path().join("report.json");
    let run = ["run", "--json"].map(Path::new);
    let before = [Path::new(STEWARD), run[0], run[1], &report, Path::new("--")];
    let done = with(cube(&before, folder.path()), overlay).run();
    done.assert_code(code);
    assert!(overlay.is_in(&done), "{done}");
    let order = layer_order(&done.stderr);
    assert_eq!(order.last().map(|(name, _)| &**name), Some(OURS), "{done}");
    let whole = assert_report(&report, &done);
    assert_eq!(whole["source"]["layers_below"], Value::Array(Vec::new()), "{done}");
    fs::remove_file(&report).expect("a file");
    // What is left out passes through.
    let passed = with(cube(&before, folder.path()), overlay).env("VK_STEWARD_MEMORY_MATCH", "nothing").run();
    passed.assert_code(code);
    assert!(overlay.is_in(&passed), "{passed}");
    assert!(passed.stderr.contains("steward: no report"), "{passed}");
}

/// With the overlay below: it creates objects of its own, and the report says so.
fn below(test: &str, overlay: &Overlay) {
    assert!(overlay.is_explicit());
    let folder = tempfile::tempdir().expect("a folder");
    let Some(code) = alone(test, overlay, folder.path()) else {
        return;
    };
    let manifest = steward(&["layer", "--print-manifest"]).run();
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).expect("a folder");
    fs::write(manifests.join("layer.json"), manifest.stdout).expect("a file");
    let [text, report] = ["report.txt", "report.json"].map(|name| folder.path().join(name));
    let done = cube(&[], folder.path())
        .env("VK_ADD_LAYER_PATH", &manifests)
        .env("VK_INSTANCE_LAYERS", format!("{OURS}:{}", overlay.layer))
        .env("VK_STEWARD_MEMORY_TEXT", &text)
        .env("VK_STEWARD_MEMORY_JSON", &report)
        .run();
    done.assert_code(code);
    let order = layer_order(&done.stderr);
    assert_eq!(order.last().map(|(name, _)| &**name), Some(overlay.layer), "{done}");
    let below = assert_report(&report, &done)["source"]["layers_below"].clone();
    assert_eq!(below.as_array().map(Vec::len), Some(1), "{below}");
    let text = fs::read_to_string(text).expect("a report");
    assert!(text.contains("layers below, whose own objects count"), "{text}");
}

#[test]
fn ly2_vkcube_draws_below_mangohud() {
    above("ly2_vkcube_draws_below_mangohud", &MANGOHUD);
}

#[test]
fn ly2_vkcube_draws_below_renderdoc() {
    above("ly2_vkcube_draws_below_renderdoc", &RENDERDOC);
}

#[test]
fn ly2_vkcube_draws_below_gfxreconstruct() {
    above("ly2_vkcube_draws_below_gfxreconstruct", &GFXRECONSTRUCT);
}

#[test]
fn ly2_vkcube_draws_below_the_validation_layer() {
    above("ly2_vkcube_draws_below_the_validation_layer", &VALIDATION);
}

#[test]
fn ly2_vkcube_draws_below_mesas_overlay() {
    above("ly2_vkcube_draws_below_mesas_overlay", &MESA);
}

#[test]
fn ly9_vkcube_draws_above_gfxreconstruct() {
    below("ly9_vkcube_draws_above_gfxreconstruct", &GFXRECONSTRUCT);
}

#[test]
fn ly9_vkcube_draws_above_the_validation_layer() {
    below("ly9_vkcube_draws_above_the_validation_layer", &VALIDATION);
}

#[test]
fn ly9_vkcube_draws_above_mesas_overlay() {
    below("ly9_vkcube_draws_above_mesas_overlay", &MESA);
}
