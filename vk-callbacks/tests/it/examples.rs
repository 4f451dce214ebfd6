//! The examples end without an error and say what their first lines promise. `cargo test` builds them; a run of one test alone may not have.

use std::path::PathBuf;

use testkit::{Child, skip};
use vk_callbacks::TraceReader;

/// Where an example is; none, with a reason printed, where it was not built.
fn example(name: &str) -> Option<PathBuf> {
    let this = std::env::current_exe().expect("a path");
    let folder = this.ancestors().nth(2).expect("deps, in a folder");
    let file = folder.join("examples").join(name);
    if !file.exists() {
        skip("examples", name, "it was not built");
        return None;
    }
    Some(file)
}

#[test]
fn judged_driver_ends_well() {
    if let Some(file) = example("judged_driver") {
        Child::new(file).run().assert_code(0);
    }
}

#[test]
fn recorder_writes_a_trace_that_is_read_back() {
    let Some(file) = example("recorder") else {
        return;
    };
    let folder = std::env::temp_dir();
    let trace = folder.join(format!("recorder-{}.trace", std::process::id()));
    let done = Child::new(file).args([&trace]).run();
    done.assert_code(0);
    if done.stdout.contains("SKIPPED") {
        return skip("driver", "recorder", &done.stdout);
    }
    let text = std::fs::read_to_string(&trace).expect("it was written");
    let _ = std::fs::remove_file(&trace);
    assert!(done.stdout.contains(" 0 lost; "), "{done}");
    let events = TraceReader::new(&text).expect("a trace").count();
    assert!(
        events > 20 && text.contains("vkCreateDevice"),
        "{events}: {text}"
    );
}
