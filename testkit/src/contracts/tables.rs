//! The tables of the contracts: prefixes, words that look like rows, rows, laws, and the rows that need no test.

use std::collections::{BTreeMap, BTreeSet};

use super::{DIRECTORY, EXCUSES};

/// The columns of a contract's table: row, what must hold, who fails it today, state and proof.
const COLUMNS: usize = 4;
/// How the state of a prefix or a row begins that waits for its code.
const NOT_BUILT: &str = "not built yet";
/// A reason with fewer bytes explains nothing.
const MIN_REASON: usize = 20;

#[derive(Default)]
pub(super) struct Tables {
    prefixes: BTreeMap<String, Prefix>,
    pub(super) rows: BTreeMap<String, Row>,
    laws: BTreeSet<String>,
    /// Words that have the form of a row and mean something else.
    other_words: BTreeSet<String>,
    /// Rows without a test, with the reason.
    excuses: BTreeMap<String, String>,
}

struct Prefix {
    files: Vec<String>,
    is_built: bool,
}

pub(super) struct Row {
    pub(super) is_built: bool,
}

impl Tables {
    /// Reads all tables. The second value says what is wrong in them.
    pub(super) fn read(files: &[(String, String)]) -> (Self, Vec<String>) {
        let (mut tables, mut faults) = (Self::default(), Vec::new());
        let text = |path: &str| {
            files
                .iter()
                .find(|(name, _)| name == path)
                .map_or("", |(_, text)| text)
        };
        tables.read_index(text(&format!("{DIRECTORY}README.md")));
        for (path, text) in files {
            match path
                .strip_prefix(DIRECTORY)
                .filter(|name| name.ends_with(".md"))
            {
                None | Some("README.md") => {}
                Some("laws.md") => tables
                    .laws
                    .extend(table(text).filter_map(|cells| number(cells.first()?))),
                Some(name) => tables.read_rows(name, text, &mut faults),
            }
            if path.starts_with(DIRECTORY) {
                faults
                    .extend(missing_paths(text, files).map(|missing| {
                        format!("{path} names {missing}, which is not in the tree")
                    }));
            }
        }
        for (prefix, Prefix { files: names, .. }) in &tables.prefixes {
            for name in names
                .iter()
                .filter(|name| text(&format!("{DIRECTORY}{name}")).is_empty())
            {
                faults.push(format!(
                    "{prefix} has its rows in {name}, which is not there"
                ));
            }
        }
        // A reason may excuse several rows.
        tables.excuses = table(section(text(EXCUSES), "Rows without a test"))
            .filter_map(|cells| Some((*cells.first()?, *cells.get(1)?)))
            .flat_map(|(rows, reason)| {
                let rows = rows.split(',').filter_map(|row| row_id(row.trim()));
                rows.map(|row| (row.to_owned(), reason.to_owned()))
            })
            .collect();
        (tables, faults)
    }

    fn read_index(&mut self, text: &str) {
        for cells in table(section(text, "Prefixes")) {
            let [prefix, names, _, state] = cells[..] else {
                continue;
            };
            let prefix = prefix.trim_matches('`');
            if !prefix.is_empty() && prefix.bytes().all(|letter| letter.is_ascii_uppercase()) {
                let files = names
                    .split(',')
                    .map(|name| name.trim().trim_matches('`').to_owned())
                    .collect();
                self.prefixes.insert(
                    prefix.to_owned(),
                    Prefix {
                        files,
                        is_built: !state.starts_with(NOT_BUILT),
                    },
                );
            }
        }
        let words = table(section(text, "Words that are no rows"));
        self.other_words = words
            .filter_map(|cells| row_id(cells.first()?.trim_matches('`')).map(str::to_owned))
            .collect();
    }

    fn read_rows(&mut self, name: &str, text: &str, faults: &mut Vec<String>) {
        for cells in table(text) {
            let Some(row) = cells.first().and_then(|cell| row_id(cell)) else {
                continue;
            };
            let mut fault = |what: &str| faults.push(format!("{DIRECTORY}{name}: {row} {what}"));
            let is_built = !cells
                .last()
                .is_some_and(|state| state.starts_with(NOT_BUILT));
            if cells.len() != COLUMNS || cells.iter().any(|cell| cell.is_empty()) {
                fault("needs four cells: row, what must hold, who fails it today, state and proof");
            }
            match self.prefixes.get(prefix_of(row)) {
                None => fault("has a prefix that README.md does not list"),
                Some(prefix) if !prefix.files.iter().any(|file| file == name) => {
                    fault("belongs in another file, says README.md")
                }
                Some(prefix) if prefix.is_built && !is_built => {
                    fault("is not built yet, and README.md says that its prefix is")
                }
                Some(_) => {}
            }
            if self.rows.insert(row.to_owned(), Row { is_built }).is_some() {
                fault("is defined twice");
            }
        }
    }

    /// Whether `row` is a row, or a word that is listed because it looks like one.
    pub(super) fn is_known(&self, row: &str) -> bool {
        self.rows.contains_key(row) || self.other_words.contains(row)
    }

    /// What `word` cites and no table defines. `before` is the word in front of it.
    pub(super) fn undefined(&self, word: &str, before: &str) -> Option<String> {
        if before.eq_ignore_ascii_case("law") {
            return number(word)
                .filter(|law| !self.laws.contains(law))
                .map(|law| format!("law {law}"));
        }
        let row = row_id(word).filter(|row| self.prefixes.contains_key(prefix_of(row)))?;
        (!self.is_known(row)).then(|| row.to_owned())
    }

    /// One sentence for each row whose proof and state do not agree, `proven` being the rows that have a test.
    pub(super) fn unproven(&self, proven: &BTreeSet<String>) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, row) in &self.rows {
            let (has_test, is_excused) = (proven.contains(name), self.excuses.contains_key(name));
            match (row.is_built, has_test, is_excused) {
                (true, false, false) => faults.push(format!(
                    "{name} has neither a test nor a reason in {EXCUSES}"
                )),
                (_, true, true) => faults.push(format!(
                    "{name} has a test, and {EXCUSES} says that it has none"
                )),
                (false, true, false) => faults.push(format!(
                    "{name} has a test, and its state is \"{NOT_BUILT}\""
                )),
                _ => {}
            }
            if self.other_words.contains(name) {
                faults.push(format!(
                    "{name} is a row, and README.md lists it as a word that is none"
                ));
            }
        }
        for (row, reason) in &self.excuses {
            if !self.rows.contains_key(row) {
                faults.push(format!(
                    "{EXCUSES} excuses {row}, which no contract defines"
                ));
            }
            if reason.len() < MIN_REASON {
                faults.push(format!("{EXCUSES} gives no reason for {row}: {reason:?}"));
            }
        }
        faults
    }
}

/// The letters and the digits of `word`, if it is made of one or more letters, all accepted by `is_letter`, and one or more digits.
pub(super) fn split_id(word: &str, is_letter: impl Fn(char) -> bool) -> Option<(&str, &str)> {
    let (letters, digits) = word.split_at(word.find(|c| !is_letter(c))?);
    (!letters.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
        .then_some((letters, digits))
}

fn row_id(word: &str) -> Option<&str> {
    split_id(word, |letter| letter.is_ascii_uppercase()).map(|_| word)
}

fn prefix_of(row: &str) -> &str {
    row.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn number(word: &str) -> Option<String> {
    (!word.is_empty() && word.bytes().all(|digit| digit.is_ascii_digit())).then(|| word.to_owned())
}

/// The lines below the heading `title`, up to the next heading.
fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let heading =
        |line: &str| line.starts_with('#') && line.trim_start_matches('#').trim() == title;
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        if heading(line) {
            return after.find("\n#").map_or(after, |end| &after[..end]);
        }
        rest = after;
    }
    ""
}

/// The cells of each line that is a row of a table.
fn table(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim_end().strip_prefix('|')?.strip_suffix('|'));
    lines.map(|line| line.split('|').map(str::trim).collect())
}

/// The paths in backticks that begin with a folder of the tree and lead to nothing.
fn missing_paths<'a>(
    text: &'a str,
    files: &'a [(String, String)],
) -> impl Iterator<Item = &'a str> {
    let quoted = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(move |path| {
        let is_path =
            |(folder, _): (&str, &str)| !path.contains([' ', '*']) && is_start(files, folder);
        path.split_once('/').is_some_and(is_path) && !is_start(files, path.trim_end_matches('/'))
    })
}

/// Whether `path` is a file or a folder of the tree.
fn is_start(files: &[(String, String)], path: &str) -> bool {
    let below = |name: &str| {
        name.strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    !path.is_empty() && files.iter().any(|(name, _)| below(name))
}
