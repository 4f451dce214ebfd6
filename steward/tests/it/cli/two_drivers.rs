//! What a second driver shows.

use super::*;

/// The manifest that the environment names, or a skip.
fn swiftshader(test: &str) -> Option<PathBuf> {
    let manifest = testkit::swiftshader();
    if manifest.is_none() {
        skip("swiftshader", test, "STEWARD_SWIFTSHADER names no manifest");
    }
    manifest
}

#[test]
fn swiftshader_leaves_a_block_for_each_update_template() {
    let Some(manifest) = swiftshader("swiftshader_leaves_a_block_for_each_update_template") else {
        return;
    };
    for rounds in [1, 3] {
        let rounds_text = rounds.to_string();
        let child = steward(&["drive", "--driver", "swiftshader", "--rounds", &rounds_text]);
        let done = child.env("VK_ADD_DRIVER_FILES", &manifest).run();
        done.assert_code(0);
        assert!(done.stdout.starts_with("driver: SwiftShader driver "), "{done}");
        let (bytes, s) = (96 * rounds, if rounds == 1 { "" } else { "s" });
        let left = format!(
            "  VkDescriptorUpdateTemplate: {rounds} block{s}, {bytes} requested bytes ({bytes} of scope object)\n"
        );
        assert!(done.stdout.contains(&left), "{left}\n{done}");
    }
}

#[test]
fn two_drivers_are_listed_and_both_run() {
    let Some(manifest) = swiftshader("two_drivers_are_listed_and_both_run") else {
        return;
    };
    if drivers("two_drivers_are_listed_and_both_run", "lavapipe").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [json, html] = ["all.json", "all.html"].map(|name| folder.path().join(name));
    let child = steward(&["drive", "--driver", "all", "--json"]).args([json.as_path(), Path::new("--html"), &html]);
    let done = child.env("VK_ADD_DRIVER_FILES", &manifest).run();
    done.assert_code(0);
    let reports: Vec<Value> = serde_json::from_slice(&fs::read(&json).expect("a report")).expect("JSON");
    for name in ["llvmpipe", "SwiftShader driver"] {
        assert!(reports.iter().any(|report| report["source"]["name"] == name), "{name}\n{done}");
        assert!(done.stdout.contains(&format!("driver: {name} ")), "{name}\n{done}");
    }
    let page = fs::read_to_string(&html).expect("a page");
    for part in ["contexts", "timeline", "findings", "coverage", "leftovers"] {
        for id in [part.to_owned(), format!("driver-2-{part}")] {
            assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
        }
    }
    assert!(page.contains("<h1>llvmpipe ") && page.contains("<h1>SwiftShader driver "), "a heading each");
}
