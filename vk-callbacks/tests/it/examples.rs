//! The examples end without an error and say what their first lines promise.

use testkit::{example, skip};
use vk_callbacks::TraceReader;

#[test]
fn judged_driver_ends_well() {
    if let Some(example) = example("judged_driver") {
        example.run().assert_code(0);
    }
}

#[test]
fn recorder_writes_a_trace_that_is_read_back() {
    let Some(example) = example("recorder") else {
        return;
    };
    let folder = std::env::temp_dir();
    let trace = folder.join(format!("recorder-{}.trace", std::process::id()));
    let done = example.args([&trace]).run();
    done.assert_code(0);
    if done.stdout.contains("SKIPPED") {
        return skip("driver", "recorder", &done.stdout);
    }
    let text = std::fs::read_to_string(&trace).expect("it was written");
    let _ = std::fs::remove_file(&trace);
    assert!(done.stdout.contains(" 0 lost; "), "{done}");
    let events = TraceReader::new(&text).expect("a trace").count();
    assert!(events > 20 && text.contains("vkCreateDevice"), "{events}: {text}");
}
