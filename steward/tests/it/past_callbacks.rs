//! A driver that frees by the C library what came through callbacks: with the meter, which stands before the C
//! library's heap.

use std::path::Path;
use std::{env, fs};

use serde_json::Value;
use testkit::{Child, compile_c, skip};
use vk_steward::callback_coverage::{CoverageError, Preload};

#[test]
fn ly52_what_callbacks_gave_and_the_c_library_frees_is_reported_and_not_freed() {
    let test = "ly52_what_callbacks_gave_and_the_c_library_frees_is_reported_and_not_freed";
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vk-layer/tests/client.c");
    let Some(client) = compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))) else {
        return skip("cc", test, "there is no compiler for C");
    };
    let meter = match Preload::new() {
        Ok(meter) => meter,
        Err(CoverageError::NotBuilt { reason }) => return skip("meter", test, &reason),
        Err(error) => panic!("{error}"),
    };
    let library = env::current_exe().expect("a path");
    let library = library.with_file_name("libVkLayer_steward_memory.so");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let run = |guard: &str, meter_is_asked: &str| {
        let child = Child::new(&client)
            .args(["past-callbacks".as_ref(), library.as_os_str()])
            .env("LD_PRELOAD", meter.path())
            .env("VK_STEWARD_MEMORY_METER", meter_is_asked)
            .env("VK_STEWARD_MEMORY_JSON", &file);
        child.env("VK_STEWARD_MEMORY_GUARD", guard).run()
    };
    // Without a judge the C library ends the process: the mistake is one.
    assert_ne!(run("", "false").code, Some(0));
    for guard in ["", "cookie", "fence", "strict"] {
        let done = run(guard, "true");
        done.assert_code(0);
        assert!(done.stdout.contains("went on"), "{done}");
        let report = fs::read(&file).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        let findings = report["findings"].as_array().expect("findings");
        let found = |kind: &str, owner: &str, command: &str| {
            let is_it = |row: &&Value| row["kind"] == kind && row["owner"] == owner && row["command"] == command;
            let row = findings.iter().find(is_it).expect(kind);
            let sentence = row["sentence"].as_str().expect("a sentence");
            // The module is this client, which is its own driver.
            assert!(sentence.contains("; called from client"), "{sentence}");
            row["count"].as_u64().expect("a number")
        };
        let library = "the C library";
        let freed = "FreedThroughOther";
        assert_eq!(found(freed, library, "vkCreateInstance"), 2, "{report}");
        // By a thread of the driver's own.
        assert_eq!(found(freed, library, ""), 1, "{report}");
        let unknown = found("FreedUnknown", "VkInstance", "vkCreateInstance");
        assert_eq!(unknown, 1, "{report}");
        // And nothing else: what stayed is not accused a second time.
        assert_eq!(findings.len(), 3, "{report}");
        let row = &report["program"]["instances"][0]["kinds"][0];
        assert_eq!(row["live_blocks"], 3, "{report}");
    }
}
