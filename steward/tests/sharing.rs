//! `steward drive` runs two contexts with one shader cache, and says what went with one of them: on lavapipe, and on SwiftShader where
//! `STEWARD_SWIFTSHADER=<manifest>` names it.

use testkit::{Child, skip};
use vk_steward::report::{Entry, Report, SharedContexts, html};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

fn driven(driver: &str, more: &[&str]) -> Option<Report> {
    let mut child = Child::new(STEWARD).args(["drive", "--no-honour", "--driver", driver, "--json", "-"]).args(more);
    if let Some(manifest) = testkit::swiftshader() {
        child = child.env("VK_ADD_DRIVER_FILES", &manifest);
    }
    let ran = child.run();
    (ran.code == Some(0)).then(|| serde_json::from_str(&ran.stdout).expect("the JSON of a report"))
}

fn check(shared: &SharedContexts) {
    assert_eq!((shared.kernels, shared.contexts.len()), (8, 2));
    for context in &shared.contexts {
        assert_eq!((context.compiled, context.found, context.regions), (4, 4, 3), "{}", context.name);
    }
    // Exactly the first's: its four kernels, its memory, and what the driver took through its own callbacks.
    let first = &shared.went;
    assert_eq!((first.kernels, first.held, first.blocks, first.others_bytes), (4, 0, 1, 0));
    assert!(first.block_bytes > 0 && first.book_bytes > 0 && first.driver_blocks > 0 && first.driver_bytes > 0);
    assert_eq!((shared.still_found, shared.compiled_anew), (4, 4));
    let last = &shared.went_last;
    assert_eq!((last.kernels, last.held, last.others_bytes, shared.left_bytes), (8, 0, 0, 0));
    assert!(last.driver_blocks > first.driver_blocks, "twice the kernels");
}

#[test]
fn one_context_is_released_and_exactly_its_own_goes() {
    let Some(report) = driven("lavapipe", &[]) else {
        return skip("lavapipe", "one_context_is_released_and_exactly_its_own_goes", "there is no lavapipe");
    };
    check(report.shared_contexts.as_ref().expect("they were run"));
    let text = report.to_string();
    assert!(text.contains("first released: 4 kernels, 1 memory object of 256 KiB"), "{text}");
    let on = "second went on: 4 of its own found, 4 of first compiled anew";
    assert!(text.contains(on), "{text}");
    let page = html(&[Entry::Report(Box::new(report))]).expect("a page");
    assert!(page.contains(on) && page.contains("Two contexts, one shader cache"));
}

#[test]
fn one_context_is_released_on_swiftshader_too() {
    match testkit::swiftshader().and_then(|_| driven("swiftshader", &[])) {
        Some(report) => check(report.shared_contexts.as_ref().expect("they were run")),
        None => skip("swiftshader", "one_context_is_released_on_swiftshader_too", "no SwiftShader is named"),
    }
}

#[test]
fn where_memory_is_guarded_on_purpose_they_are_not_run() {
    let Some(report) = driven("lavapipe", &["--guard", "cookie"]) else {
        return skip("lavapipe", "where_memory_is_guarded_on_purpose_they_are_not_run", "there is no lavapipe");
    };
    assert!(report.guard.is_some() && report.shared_contexts.is_none());
}
