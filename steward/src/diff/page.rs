#![forbid(unsafe_code)]

use askama::Template;

use super::text::{UNLIKE_ROUNDS, remark, shown, signed};
use super::{Change, Diff, Part, Unit};
use crate::report::grouped;
use vk_report::report::one_line;

#[derive(Template)]
#[template(path = "diff.html")]
struct DiffPage {
    version: &'static str,
    diffs: Vec<View>,
}

struct View {
    before: String,
    after: String,
    compared: bool,
    summary: String,
    /// Empty if the numbers of rounds are equal.
    rounds: &'static str,
    by_time: usize,
    left_out: usize,
    parts: Vec<(&'static str, Vec<DiffRow>)>,
}

struct DiffRow {
    name: String,
    measure: String,
    before: String,
    after: String,
    exact: String,
    change: String,
    remark: String,
    /// A bar to the left or right of the middle; the width is 100 units.
    left: String,
    width: String,
    down: bool,
}

/// The page about `diffs`, as a complete HTML document.
///
/// # Errors
/// Never with the template as it is: it writes into memory.
pub fn html(diffs: &[Diff]) -> Result<String, askama::Error> {
    DiffPage {
        version: env!("CARGO_PKG_VERSION"),
        diffs: diffs.iter().map(view).collect(),
    }
    .render()
}

fn view(diff: &Diff) -> View {
    let side = |side: &Option<String>| {
        side.as_deref()
            .map_or_else(|| "not in this file".to_owned(), one_line)
    };
    let part = |part: Part| {
        let changes: Vec<&Change> = diff
            .changes
            .iter()
            .filter(|change| change.part == part)
            .collect();
        // Bars of one unit can be compared with each other.
        let largest = [Unit::Bytes, Unit::Count].map(|unit| largest(&changes, unit));
        let largest = |unit: Unit| {
            if unit == Unit::Bytes {
                largest[0]
            } else {
                largest[1]
            }
        };
        let rows = changes
            .iter()
            .map(|change| row(change, largest(change.unit)))
            .collect::<Vec<_>>();
        (!rows.is_empty()).then(|| (part.name(), rows))
    };
    View {
        before: side(&diff.before),
        after: side(&diff.after),
        compared: diff.compared,
        summary: one_line(&diff.summary()),
        rounds: if diff.unlike_rounds {
            UNLIKE_ROUNDS
        } else {
            ""
        },
        by_time: diff.by_time,
        left_out: diff.left_out,
        parts: Part::ALL.into_iter().filter_map(part).collect(),
    }
}

fn largest(changes: &[&Change], unit: Unit) -> u128 {
    changes
        .iter()
        .filter(|change| change.unit == unit)
        .map(|change| change.by().unsigned_abs())
        .max()
        .unwrap_or(1)
        .max(1)
}

fn row(change: &Change, largest: u128) -> DiffRow {
    let down = change.by() < 0;
    let width = 50.0 * change.by().unsigned_abs() as f64 / largest as f64;
    let side = |side: Option<u64>| {
        side.map_or_else(
            || "\u{2013}".to_owned(),
            |number| shown(number, change.unit),
        )
    };
    let exact = |side: Option<u64>| side.map_or_else(|| "not there".to_owned(), grouped);
    DiffRow {
        name: one_line(&change.name),
        measure: change.measure.clone(),
        before: side(change.before),
        after: side(change.after),
        exact: format!("{} \u{2192} {}", exact(change.before), exact(change.after)),
        change: signed(change).replacen('-', "\u{2212}", 1),
        remark: remark(change).replacen('-', "\u{2212}", 1),
        left: format!("{:.1}", if down { 50.0 - width } else { 50.0 }),
        width: format!("{width:.1}"),
        down,
    }
}
