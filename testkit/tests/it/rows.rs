//! The rows of `docs/contracts` and the tree agree; and each kind of disagreement is found in a tree that is made up.
//!
//! A test proves row M7 when its name begins with `m7_`, or with the names of several rows, M7 among them. A row
//! without a test has its reason in ARCHITECTURE.md, under the heading "Rows without a test".

use std::collections::{BTreeMap, BTreeSet};

use crate::common::files;

type Files = [(String, String)];

const FOLDER: &str = "docs/contracts/";

#[test]
fn every_row_has_a_test_or_a_reason_and_every_cited_row_is_defined() {
    let (faults, proven) = faults(&files());
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(proven > 100, "the rows and the tests were found: {proven} proven");
}

/// What does not agree, a sentence each, and how many rows have a test.
fn faults(files: &Files) -> (Vec<String>, usize) {
    let text = |path: &str| {
        let found = files.iter().find(|(name, _)| name == path);
        found.map_or("", |(_, text)| text.as_str())
    };
    let index = text("docs/contracts/README.md");
    let (index, others) = index.split_once("## Words that are no rows").unwrap_or((index, ""));
    let prefixes: BTreeMap<&str, &str> = cells(index)
        .filter_map(|cells| Some((cells[0].strip_prefix('`')?.strip_suffix('`')?, *cells.get(1)?)))
        .collect();
    let others: BTreeSet<&str> = cells(others).map(|cells| cells[0].trim_matches('`')).collect();
    let laws: BTreeSet<&str> = cells(text("docs/contracts/laws.md")).map(|cells| cells[0]).collect();
    let (mut faults, mut rows) = (Vec::new(), BTreeMap::new());
    for (path, text) in files {
        let Some(file) = path.strip_prefix(FOLDER) else {
            continue;
        };
        let named = spans(text).filter(|span| span.contains('/') && !span.contains([' ', '*']));
        for span in named {
            let exists = |path: &str| files.iter().any(|(name, _)| name.starts_with(path));
            let folder = span.split('/').next().unwrap_or(span);
            if exists(&format!("{folder}/")) && !exists(span) {
                faults.push(format!("{path} names {span}"));
            }
        }
        for cells in cells(text).filter(|_| !["README.md", "laws.md"].contains(&file)) {
            let Some((prefix, row)) = row(cells[0]) else {
                continue;
            };
            let listed = prefixes.get(prefix).copied().unwrap_or("");
            if cells.len() != 4 || cells.contains(&"") || !listed.split(", ").any(|one| one == file) {
                faults.push(format!("{file}: {row} lacks a cell, or its prefix is not of this file"));
            }
            let is_built = !cells[cells.len() - 1].starts_with("not built yet");
            if rows.insert(row, is_built).is_some() {
                faults.push(format!("{file}: {row} is defined twice"));
            }
        }
    }
    let mut tested = BTreeSet::new();
    for (path, text) in files {
        let is_rust = path.ends_with(".rs");
        if !is_rust && !path.ends_with(".md") {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            let said = if is_rust { line.split_once("//").map_or("", |(_, comment)| comment) } else { line };
            let mut before = "";
            for word in words(said) {
                let is_cited = row(word).is_some_and(|(prefix, _)| prefixes.contains_key(prefix));
                let is_law = before.eq_ignore_ascii_case("law") && word.parse::<u8>().is_ok();
                if is_cited && !rows.contains_key(word) && !others.contains(word) || is_law && !laws.contains(word) {
                    faults.push(format!("{path}:{number} cites {word}, which no contract defines"));
                }
                before = word;
            }
        }
        for name in tests(text).filter(|_| is_rust) {
            // What follows the rows says what the test shows.
            let parts = name.rsplit_once('_').map_or("", |(rows, _)| rows).split('_');
            let parts = parts.map(str::to_uppercase);
            for part in parts.take_while(|part| row(part).is_some_and(|(p, _)| p.len() <= 2)) {
                if !rows.contains_key(part.as_str()) && !others.contains(part.as_str()) {
                    faults.push(format!("{path}: {name} is of no row"));
                }
                tested.insert(part);
            }
        }
    }
    let excuses = text("ARCHITECTURE.md").split_once("## Rows without a test");
    let excuses = excuses.map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or(rest));
    let excused: BTreeSet<&str> =
        cells(excuses).flat_map(|cells| cells[0].split(", ")).filter(|name| row(name).is_some()).collect();
    for name in excused.iter().filter(|name| !rows.contains_key(*name)) {
        faults.push(format!("{name} is excused and not defined"));
    }
    for (name, is_built) in &rows {
        let (has_test, is_excused) = (tested.contains(*name), excused.contains(name));
        if *is_built != (has_test || is_excused) && !is_excused || has_test && is_excused {
            faults.push(format!("{name}: built {is_built}, tested {has_test}, excused {is_excused}"));
        }
    }
    let proven = rows.keys().filter(|name| tested.contains(**name)).count();
    (faults, proven)
}

/// The prefix of a row, and the row: letters in capitals, then a number.
fn row(word: &str) -> Option<(&str, &str)> {
    let (prefix, number) = word.split_at(word.find(|c: char| !c.is_ascii_uppercase())?);
    let is_row = !prefix.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    is_row.then_some((prefix, word))
}

/// The cells of each line of a table.
fn cells(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines();
    let lines = lines.filter_map(|line| line.trim_end().strip_prefix('|')?.strip_suffix('|'));
    lines.map(|line| line.split('|').map(str::trim).collect())
}

fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty())
}

/// The functions under `#[test]`, and all of a file with a `main` of its own.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = text.starts_with("fn main()") || text.contains("\nfn main()");
    let has_main = is_test;
    text.lines().map(str::trim).filter_map(move |line| {
        let name = line.strip_prefix("fn ").filter(|_| is_test);
        let goes_on = line.starts_with("#[") || line.starts_with("//");
        is_test = has_main || line == "#[test]" || is_test && goes_on;
        name?.split(['(', '<']).next()
    })
}

/// A tree in which everything is right: a row with a test, one with a reason, and one that is not built yet.
const TREE: [(&str, &str); 6] = [
    (
        "docs/contracts/README.md",
        "| `A` | first.md | one |\n| `B` | second.md, third.md | two |\n## Words that are no rows\n| `A200` | a machine |\n",
    ),
    ("docs/contracts/first.md", "| A1 | it holds | nobody | built |\n| A02 | it holds | nobody | limit |\n"),
    ("docs/contracts/second.md", "| B1 | it holds | nobody | not built yet |\n"),
    ("docs/contracts/laws.md", "| 1 | a law | `a/tests/t.rs` |\n"),
    ("ARCHITECTURE.md", "## Rows without a test\n| A02 | a reason |\n## More\n"),
    ("a/tests/t.rs", "// A1, A200, law 1\n#[test]\nfn a1_holds() {}\n"),
];

#[test]
fn what_does_not_agree_is_found() {
    let found = |path: &str, old: &str, new: &str| {
        let tree = TREE.map(|(name, text)| {
            let text = if name == path { text.replacen(old, new, 1) } else { text.into() };
            (name.to_owned(), text)
        });
        faults(&tree).0.len()
    };
    assert_eq!(found("", "", ""), 0);
    for (path, old, new) in [
        ("a/tests/t.rs", "#[test]", ""),
        ("a/tests/t.rs", "a1_", "a1_b1_"),
        ("a/tests/t.rs", "a1_", "a1_a02_"),
        ("a/tests/t.rs", "a1_", "a1_a3_"),
        ("a/tests/t.rs", "A1,", "A3,"),
        ("a/tests/t.rs", "law 1", "law 7"),
        ("ARCHITECTURE.md", "| A02", "| A02, A3"),
        ("ARCHITECTURE.md", "a reason", "as A3 says"),
        ("ARCHITECTURE.md", "| A02 | a reason |", ""),
        ("docs/contracts/first.md", "| nobody", ""),
        ("docs/contracts/first.md", "| A02", "| A1 | a | b | built |\n| A02"),
        ("docs/contracts/README.md", "second.md,", ""),
        ("docs/contracts/laws.md", "t.rs", "u.rs"),
    ] {
        assert!(found(path, old, new) > 0, "{path}: {new}");
    }
}
