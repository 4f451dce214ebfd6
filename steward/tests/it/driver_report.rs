//! `steward drivers --report`: what is written of a driver with a planted defect, and of the drivers in `docs/drivers`.

use std::fs;
use std::path::{Path, PathBuf};

use fake_driver::Defect;
use testkit::{Finished, skip};

use crate::reference_loaded::manifest::Manifest;
use crate::run::steward;

/// Sizes of Rust's structs and what the heap holds depend on how the driver was built.
fn without_numbers(document: &str) -> String {
    let row = |line: &str| match line.strip_prefix("| reference_icd") {
        Some(rest) => {
            let cells: Vec<_> = rest.split('|').collect();
            let [version, coverage, memory @ .., bugs, notes, _] = &cells[..] else {
                panic!("{line}");
            };
            assert!(coverage.contains(" % of "), "{line}");
            assert_eq!(memory.len(), 5, "{line}");
            let is_size = |cell: &&str| cell.ends_with("B ") && !cell.starts_with(" 0 ");
            assert!(memory.iter().all(is_size), "{line}");
            format!("| reference_icd{version}|..|{bugs}|{notes}|")
        }
        None => line.to_owned(),
    };
    let lines: Vec<_> = document.lines().map(row).collect();
    lines.join("\n") + "\n"
}

/// Also from the JSON that the run wrote, without a driver.
#[test]
fn a_planted_defect_is_a_text_for_the_drivers_maintainers() {
    let test = "a_planted_defect_is_a_text_for_the_drivers_maintainers";
    let manifest = Manifest::new();
    let json = manifest.path.with_file_name("reports.json");
    let driver = manifest.path.display().to_string();
    let ran = steward(&["drivers", "--report", "--driver", &driver, "--json"])
        .args([&json])
        .env_remove("VK_LOADER_DRIVERS_SELECT")
        .env(fake_driver::VARIABLE.to_str().expect("plain"), Defect::CacheAsObject.to_string())
        .run();
    if ran.stderr.contains("there is no Vulkan loader") {
        return skip("loader", test, ran.stderr.trim());
    }
    ran.assert_code(0);
    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/driver_report.md");
    let expected = fs::read_to_string(snapshot).expect("a snapshot");
    assert_eq!(without_numbers(&ran.stdout), expected, "{ran}");
    let read = steward(&["drivers", "--report"]).args([&json]).run();
    read.assert_code(0);
    assert_eq!(read.stdout, ran.stdout);
    let both = steward(&["drivers", "--report"]).args([&json, &json]).run();
    assert_eq!(both.stdout.matches("| reference_icd").count(), 2, "{both}");
}

/// The document is made again of the reports, whose form and words the program has.
#[test]
fn the_document_on_drivers_is_what_the_program_writes_of_their_reports() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let entries = fs::read_dir(docs.join("drivers")).expect("reports");
    let mut reports: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    reports.sort();
    assert!(reports.len() > 3, "{reports:?}");
    let done: Finished = steward(&["drivers", "--report"]).args(&reports).run();
    done.assert_code(0);
    let written = fs::read_to_string(docs.join("drivers.md")).expect("a document");
    assert!(written == done.stdout, "write it again: steward drivers --report docs/drivers/*.json > docs/drivers.md");
}
