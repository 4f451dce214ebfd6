//! The table of figures in benches/README.md equals the newest results, to the digit.
//!
//! `benches/record` writes the results and, by running this test with `STEWARD_BENCH_TABLE=write`, the table: into
//! `benches/results/TABLE.md`, and into benches/README.md between `<!-- bench:begin -->` and `<!-- bench:end -->`. The layer's figures,
//! which `benches/record --layer` writes, have a table of their own.

mod layer_rows;
mod rows;

use std::fs;

use crate::common::{root, text};
use layer_rows::LAYER_ROWS;
use rows::{ROWS, row};

/// The page that shows the tables.
const PAGE: &str = "benches/README.md";

/// A table, where its results lie, and where the page has it.
struct ShownTable {
    rows: &'static [&'static [Row]],
    folder: &'static str,
    begin: &'static str,
    end: &'static str,
}

const BENCHES: ShownTable = ShownTable {
    rows: ROWS,
    folder: "benches/results",
    begin: "<!-- bench:begin -->\n",
    end: "<!-- bench:end -->",
};
const LAYER: ShownTable = ShownTable {
    rows: &[LAYER_ROWS],
    folder: "benches/results/layer",
    begin: "<!-- layer:begin -->\n",
    end: "<!-- layer:end -->",
};

/// A row of the table: what, the most that is fine, and the figures with their names in the cell.
struct Row {
    what: &'static str,
    reach: Option<f64>,
    figures: &'static [(&'static str, &'static str)],
}

impl Row {
    /// Needs what is not everywhere: talloc's library, clients of Python.
    fn may_be_skipped(&self) -> bool {
        ["talloc", "processor time against"]
            .iter()
            .any(|word| self.what.contains(word))
    }
}

/// The table that belongs to the text of a results file.
fn table(rows: &[&[Row]], results: &str) -> String {
    let head = |key: &str| {
        let line = results
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("the results have no line \"{key}: ..\""))
    };
    assert!(
        !results.contains("(quick: not to be quoted)"),
        "results of a quick run are not for tables"
    );
    let mut table = format!(
        "Commit {}, {}, {}, {}; load {} before, {} after. The target is an upper limit.\n\n",
        head("commit"),
        head("date"),
        head("cpu"),
        head("rustc"),
        head("load before"),
        head("load after"),
    );
    table.push_str("| what | target | measured | |\n|---|---|---|---|\n");
    for row in rows.iter().copied().flatten() {
        let figures: Vec<(&str, Option<&str>)> = row
            .figures
            .iter()
            .map(|(name, key)| (*name, figure(results, key)))
            .collect();
        assert!(
            figures.iter().any(|(_, value)| value.is_some()) || row.may_be_skipped(),
            "no figure for \"{}\"",
            row.what
        );
        let value = |figure: &str| {
            figure
                .parse::<f64>()
                .unwrap_or_else(|_| panic!("{figure} is no number"))
        };
        let missed = |figure: &Option<&str>| {
            row.reach
                .is_some_and(|reach| figure.is_some_and(|figure| value(figure) > reach))
        };
        let cells: Vec<String> = figures
            .iter()
            .map(|(name, figure)| match figure {
                Some(text) if missed(figure) => format!("{name} **{text}**"),
                Some(text) => format!("{name} {text}"),
                None => format!("{name}: skipped"),
            })
            .map(|cell| cell.trim_start().to_owned())
            .collect();
        let verdict = match row.reach {
            None => "",
            Some(_) if figures.iter().all(|(_, figure)| figure.is_none()) => "skipped",
            Some(_) if figures.iter().any(|(_, figure)| missed(figure)) => "missed",
            Some(_) => "reached",
        };
        let reach = row.reach.map_or(String::new(), |reach| reach.to_string());
        table.push_str(&format!(
            "| {} | {reach} | {} | {verdict} |\n",
            row.what,
            cells.join(", ")
        ));
    }
    table
}

/// The figure on the line that begins with `key`.
fn figure<'r>(results: &'r str, key: &str) -> Option<&'r str> {
    results
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
}

/// The text of the newest results, by the date in them.
fn newest(folder: &str) -> String {
    let folder = root().join(folder);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("no results ({error}): run benches/record"));
    let texts = entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "txt"))
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).expect("results are text");
            let date = text
                .lines()
                .find_map(|line| line.strip_prefix("date: "))
                .unwrap_or_else(|| panic!("{:?} has no date", entry));
            (date.to_owned(), text)
        });
    texts
        .max()
        .map(|(_, text)| text)
        .expect("no results: run benches/record")
}

/// Where the table stands in the page.
fn between(page: &str, table: &ShownTable) -> Option<(usize, usize)> {
    let begin = page.find(table.begin)? + table.begin.len();
    let end = begin + page.get(begin..)?.find(table.end)?;
    Some((begin, end))
}

#[test]
fn the_page_has_the_figures_of_the_newest_results() {
    for shown in [&BENCHES, &LAYER] {
        is_shown(shown);
    }
}

fn is_shown(shown: &ShownTable) {
    let table = table(shown.rows, &newest(shown.folder));
    let file = format!("{}/TABLE.md", shown.folder);
    let page = text(PAGE);
    if std::env::var_os("STEWARD_BENCH_TABLE").is_some_and(|value| value == "write") {
        fs::write(root().join(&file), &table).expect("writable");
        if let Some((begin, end)) = between(&page, shown) {
            fs::write(
                root().join(PAGE),
                format!("{}{table}{}", &page[..begin], &page[end..]),
            )
            .expect("writable");
        }
    }
    assert_eq!(
        text(&file),
        table,
        "{file} is not made from the newest results: run benches/record --table"
    );
    let page = text(PAGE);
    let (begin, end) = between(&page, shown).unwrap_or_else(|| {
        let (begin, end) = (shown.begin.trim(), shown.end);
        panic!("{PAGE} has no table: put \"{begin}\" and \"{end}\" where it belongs, then run benches/record --table")
    });
    assert_eq!(
        &page[begin..end],
        table,
        "the table of {PAGE} is not the newest one: run benches/record --table"
    );
}

#[test]
fn a_figure_that_changes_changes_the_table() {
    let results = newest(BENCHES.folder);
    let line = results
        .lines()
        .find(|line| line.starts_with("ratio: arena/64-build ours/bumpalo "))
        .expect("a figure of the table");
    let changed = results.replace(line, "ratio: arena/64-build ours/bumpalo 9.99");
    assert!(
        table(ROWS, &changed).contains("64 B **9.99**"),
        "beyond its reach, so it stands out"
    );
    assert_ne!(table(ROWS, &changed), table(ROWS, &results));
    let key = "ratio: arena/64-build ours/bumpalo";
    assert_eq!(figure(&results, key), line.strip_prefix(key).map(str::trim));
    assert_eq!(
        figure(&results, "ratio: arena/64-buil"),
        None,
        "a key is a whole one"
    );
}
