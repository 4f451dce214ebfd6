//! Checks the rows of `docs/contracts` against the tree: every row is proven, and every row that is cited is defined.

mod source;
mod tables;

use std::collections::BTreeSet;

use source::{comments, numbered_lines, test_names};
use tables::{Tables, split_id};

/// Where the contracts lie in the repository.
const DIRECTORY: &str = "docs/contracts/";
/// The file whose section "Rows without a test" excuses rows.
const EXCUSES: &str = "ARCHITECTURE.md";

/// A prefix has at most so many letters, so that a test may begin with a word and a number.
const MAX_PREFIX: usize = 2;

/// What [`check_contracts`] found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ContractReport {
    /// Number of rows that are defined.
    pub rows: usize,
    /// Number of rows that a test is named after.
    pub tested: usize,
    /// Number of rows whose state is `not built yet`.
    pub not_built: usize,
    /// One sentence for each fault. Empty if the contracts and the tree agree.
    pub faults: Vec<String>,
}

/// Reads the contracts among `files` (path and text of each file of the repository) and checks them.
///
/// `docs/contracts/README.md` says which prefixes and which other words there are; the other files of that folder define rows.
/// A test proves the rows that its name begins with: `m7_..` proves M7. Comments of `.rs` files, names of tests and all text of
/// `.md` files may cite rows and laws that are defined, and no others.
#[must_use]
pub fn check_contracts(files: &[(String, String)]) -> ContractReport {
    let (tables, mut faults) = Tables::read(files);
    let mut proven = BTreeSet::new();
    for (path, text) in files {
        let mut check = |line: usize, word: &str, before: &str| {
            if let Some(name) = tables.undefined(word, before) {
                faults.push(format!(
                    "{path}:{line} cites {name}, which no contract defines"
                ));
            }
        };
        if path.ends_with(".md") {
            numbered_lines(1, text)
                .for_each(|(line, text)| each_word(text, |word, before| check(line, word, before)));
        } else if path.ends_with(".rs") {
            for (first, comment) in comments(text) {
                numbered_lines(first, comment).for_each(|(line, text)| {
                    each_word(text, |word, before| check(line, word, before))
                });
            }
            for (line, name) in test_names(text) {
                for row in rows_of_test(name).map(str::to_uppercase) {
                    if !tables.is_known(&row) {
                        faults.push(format!(
                            "{path}:{line} is a test named after {row}, which no contract defines"
                        ));
                    }
                    proven.insert(row);
                }
            }
        }
    }
    faults.extend(tables.unproven(&proven));
    let tested = tables
        .rows
        .keys()
        .filter(|row| proven.contains(*row))
        .count();
    let not_built = tables.rows.values().filter(|row| !row.is_built).count();
    ContractReport {
        rows: tables.rows.len(),
        tested,
        not_built,
        faults,
    }
}

/// The rows that the name of a test begins with, in small letters. What follows them says what the test shows.
fn rows_of_test(name: &str) -> impl Iterator<Item = &str> {
    let rows = name.rsplit_once('_').map_or("", |(rows, _)| rows);
    let is_row = |part: &&str| {
        split_id(part, |letter| letter.is_ascii_lowercase())
            .is_some_and(|(letters, _)| letters.len() <= MAX_PREFIX)
    };
    rows.split('_').take_while(is_row)
}

/// Calls `f` with each word of `text` and the word before it, which is empty for the first one.
fn each_word(text: &str, mut f: impl FnMut(&str, &str)) {
    let mut before = "";
    for word in text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
    {
        f(word, before);
        before = word;
    }
}
