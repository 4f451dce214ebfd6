//! Every row of the contract has a test named after it, or a reason in ARCHITECTURE.md.
//!
//! A test proves row M7 when its name begins with `m7_`, or with the names of several rows, M7 among them. The reasons stand in ARCHITECTURE.md, under the heading "Rows without
//! a test", as a table with the columns row and reason.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{files, text};

/// The rows of the contract that this tree has to answer, as ranges of numbers.
const ROWS: &[(&str, &[(u32, u32)])] = &[
    ("M", &[(1, 9), (11, 11), (15, 15), (17, 17), (20, 21), (23, 23), (27, 33), (38, 44)]),
    ("V", &[(1, 44)]),
    ("T", &[(1, 46)]),
    ("GV", &[(1, 28)]),
    (
        "H",
        &[
            (1, 31),
            (32, 34),
            (36, 38),
            (43, 44),
            (46, 46),
            (48, 51),
            (54, 57),
            (58, 75),
            (76, 76),
            (78, 78),
            (80, 82),
            (84, 87),
            (89, 104),
            (106, 109),
            (111, 121),
        ],
    ),
    ("I", &[(1, 53)]),
    ("IW", &[(1, 10)]),
];

#[test]
fn every_row_has_a_test_or_a_reason() {
    let rows: BTreeSet<String> = ROWS
        .iter()
        .flat_map(|(letters, ranges)| ranges.iter().flat_map(move |(from, to)| (*from..=*to).map(move |n| number(letters, n))))
        .collect();
    let mut tests = BTreeSet::new();
    for (_, text) in files().into_iter().filter(|(name, _)| name.ends_with(".rs")) {
        tests.extend(test_names(&text).into_iter().map(str::to_owned));
    }
    let reasons = reasons(&std::fs::read_to_string(common::root().join("ARCHITECTURE.md")).unwrap_or_default());
    let proven = |row: &str| tests.iter().any(|test| proves(test, row));
    let list = |wanted: &dyn Fn(&String) -> bool| -> Vec<&String> { rows.iter().filter(|row| wanted(row)).collect() };

    let missing = list(&|row| !proven(row) && !reasons.contains_key(row));
    let stale = list(&|row| proven(row) && reasons.contains_key(row));
    let tested = rows.iter().filter(|row| proven(row)).count();
    println!("{} rows: {tested} with a test, {} with a reason", rows.len(), reasons.len());
    assert!(missing.is_empty(), "rows with neither a test nor a reason in ARCHITECTURE.md: {missing:?}");
    assert!(stale.is_empty(), "rows that ARCHITECTURE.md says have no test, and that have one: {stale:?}");
    for (row, reason) in &reasons {
        assert!(rows.contains(row), "ARCHITECTURE.md excuses {row}, which is no row of this tree's");
        assert!(reason.len() > 20, "no reason for {row}: {reason:?}");
    }
}

/// Rows of one letter are numbered as they come, the guard's with two digits.
fn number(letters: &str, n: u32) -> String {
    if matches!(letters, "T" | "GV") { format!("{letters}{n:02}") } else { format!("{letters}{n}") }
}

fn proves(test: &str, row: &str) -> bool {
    let is_row = |part: &&str| {
        let digits = part.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
        digits.len() < part.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    // What follows the names of rows says what is shown.
    let Some((names, _)) = test.rsplit_once('_') else { return false };
    names.split('_').take_while(is_row).any(|name| name == row.to_lowercase())
}

/// Names of functions under `#[test]`, and of all functions of a file that has its own `main` (a test binary without harness).
fn test_names(text: &str) -> Vec<&str> {
    let own_main = text.lines().any(|line| line.starts_with("fn main()"));
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") {
            marked = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|(before, _)| before.is_empty() || before.ends_with(' ')) {
            if marked || own_main {
                names.extend(rest.split(['(', '<']).next());
            }
            marked = false;
        } else if !line.starts_with("#[") && !line.starts_with("//") && !line.is_empty() {
            marked = false;
        }
    }
    names
}

/// Row and reason of each line of the table.
fn reasons(architecture: &str) -> BTreeMap<String, String> {
    let section =
        architecture.lines().skip_while(|line| !(line.starts_with('#') && line.ends_with("Rows without a test"))).skip(1);
    let table = section.take_while(|line| !line.starts_with('#')).filter_map(|line| line.strip_prefix('|'));
    let cells = table.filter_map(|line| line.trim_end_matches('|').split_once('|'));
    let cells = cells.map(|(row, reason)| (row.trim().to_owned(), reason.trim().to_owned()));
    cells
        .filter(|(row, _)| {
            ROWS.iter().any(|(letters, _)| {
                row.strip_prefix(letters).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
            })
        })
        .collect()
}

#[test]
fn names_and_reasons_are_read_as_written() {
    let source = "#[test]\nfn v14_realloc() {}\nfn v15_helper() {}\n#[test]\n#[should_panic]\n// why\nfn v16_() {}\nlet x = 1;\n";
    assert_eq!(test_names(source), ["v14_realloc", "v16_"]);
    assert_eq!(test_names("fn v8_case() {}\nfn main() {}"), ["v8_case", "main"]);
    assert!(proves("v1_x", "V1") && !proves("v14_x", "V1") && !proves("v1", "V1"));
    assert!(proves("v1_v2_x", "V2") && !proves("v1_x_v2_y", "V2") && !proves("v1_v2", "V2"));
    let page = "# A\n| V2 | not here |\n## Rows without a test\n\n| row | reason |\n|-|-|\n| V3 | since |\n|V4|why|\n## B\n| V5 | no |\n";
    let read: Vec<_> = reasons(page).into_iter().collect();
    assert_eq!(read, [("V3".to_owned(), "since".to_owned()), ("V4".to_owned(), "why".to_owned())]);
    assert!(text("Cargo.toml").contains("[workspace]"), "the files of the tree are found");
}
