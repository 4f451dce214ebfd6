//! All drivers on one page, each with what came of its check.

use std::fs;
use std::path::Path;

use super::steward;
use crate::support::parts::{part, text_of};
use serde_json::Value;
use testkit::{Child, skip};

#[test]
fn the_page_of_all_drivers_has_each_check_and_its_leaks() {
    let test = "the_page_of_all_drivers_has_each_check_and_its_leaks";
    if testkit::swiftshader().is_none() {
        return skip("swiftshader", test, "STEWARD_SWIFTSHADER names no manifest");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [html, json] = ["all.html", "all.json"].map(|name| folder.path().join(name));
    let run = |child: Child, options: &[&str]| {
        let args = ["check", "--driver", "all", "--rounds", "3"];
        let child = child.args(args).args(options);
        child.args([Path::new("--html"), &html, Path::new("--json"), &json]).run()
    };
    let done = run(steward(&[]), &[]);
    let checks: Vec<Value> = serde_json::from_slice(&fs::read(&json).expect("checks")).expect("JSON");
    let named = |name: &str| {
        let of = |check: &&Value| check["driver"].as_str().is_some_and(|of| of.contains(name));
        checks.iter().position(|check| of(&check))
    };
    let (Some(lavapipe), Some(swiftshader)) = (named("llvmpipe"), named("SwiftShader")) else {
        return skip("lavapipe", test, "one driver alone has nothing beside it");
    };
    done.assert_code(0);
    let page = fs::read_to_string(&html).expect("a page");
    let id = |driver: usize, id: &str| match driver {
        0 => id.to_owned(),
        driver => format!("driver-{}-{id}", driver + 1),
    };
    assert_eq!(checks.len(), 2, "{done}");
    for (driver, known) in [(lavapipe, "lavapipe-22.3"), (swiftshader, "swiftshader-5.0")] {
        let check = text_of(part(&page, &id(driver, "check")));
        assert!(check.contains("Everything is as expected.") && check.contains(known), "{check}");
    }
    let leaks = text_of(part(&page, &id(swiftshader, "leftovers")));
    for said in ["V41", "3 blocks", "VkDescriptorUpdateTemplate", "a round"] {
        assert!(leaks.contains(said), "{said}: {leaks}");
    }
    let nothing = text_of(part(&page, &id(lavapipe, "leftovers")));
    assert!(!nothing.contains("never freed"), "{nothing}");
    // What it is made of travels in files of its own, whatever else is asked for.
    run(steward(&[]), &["--guard=cookie"]).assert_code(0);
    let guarded = fs::read_to_string(&html).expect("a page");
    for driver in [lavapipe, swiftshader] {
        assert!(text_of(part(&guarded, &id(driver, "check"))).contains("Everything is as expected."));
    }
}
