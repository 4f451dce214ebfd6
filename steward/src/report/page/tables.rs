#![forbid(unsafe_code)]

use super::label::cell;
use vk_report::report::{Cell, Column, ContextRow, CoverageRun, Leftover, Phase, Report, VulkanMemoryRow};
use vk_report::units::bytes;

const ROWS: usize = 300;
#[derive(Default)]
pub(super) struct FigureTable {
    /// The headings of the columns after the first; narrow screens show them beside each number.
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<FigureRow>,
    pub(super) more: usize,
}

#[derive(Default)]
pub(super) struct FigureRow {
    pub(super) name: String,
    /// Its indentation in steps.
    pub(super) depth: usize,
    /// Its number in the drawing, from 1; 0 for none.
    pub(super) number: usize,
    pub(super) strong: bool,
    pub(super) cells: Vec<String>,
}

impl FigureTable {
    /// A row without data is a heading.
    fn of<T>(columns: &[Column<T>], rows: Vec<(FigureRow, Option<&T>)>) -> Self {
        let cells = |data: Option<&T>| {
            let cell = |column: &Column<T>| data.map_or_else(String::new, |row| exact((column.cell)(row)));
            columns.iter().map(cell).collect()
        };
        Self {
            columns: columns.iter().map(|column| column.title).collect(),
            more: rows.len().saturating_sub(ROWS),
            rows: rows.into_iter().take(ROWS).map(|(head, data)| FigureRow { cells: cells(data), ..head }).collect(),
        }
    }
}

fn exact(shown: Cell) -> String {
    match shown {
        Cell::Bytes(number) | Cell::Count(number) | Cell::Peak { bytes: number, slack: 0 } => cell(number),
        Cell::Peak { bytes, .. } => format!("\u{2248}\u{202f}{}", cell(bytes)),
        Cell::Text(text) => text,
    }
}

pub(super) fn contexts(report: &Report) -> (FigureTable, String) {
    let (used, unused): (Vec<_>, Vec<_>) = report.contexts.iter().partition(|row| row.group || row.total_blocks > 0);
    let head = |row: &ContextRow| FigureRow {
        name: row.name.clone(),
        depth: row.steps(),
        strong: row.group,
        ..FigureRow::default()
    };
    let names = unused.iter().take(ROWS).map(|row| row.name.clone());
    let more = (unused.len() > ROWS).then(|| format!("and {} more", unused.len() - ROWS));
    let names: Vec<_> = names.chain(more).collect();
    let rows = used.into_iter().map(|row| (head(row), Some(row))).collect();
    (FigureTable::of(&ContextRow::columns(), rows), names.join(", "))
}

pub(super) fn phases(phases: &[Phase]) -> FigureTable {
    let rows = (1..).zip(phases).map(|(number, phase)| {
        let head = FigureRow { name: phase.name.clone(), number, ..FigureRow::default() };
        (head, Some(phase))
    });
    FigureTable::of(&Phase::columns(), rows.collect())
}

pub(super) fn leftovers(report: &Report) -> FigureTable {
    let rows = report.leftovers.iter().map(|left| {
        let head = FigureRow { name: left.context.clone(), ..FigureRow::default() };
        (head, Some(left))
    });
    FigureTable::of(&Leftover::columns(), rows.collect())
}

pub(super) fn vulkan_memory(report: &Report) -> FigureTable {
    let mut rows = Vec::new();
    for device in report.vulkan_memory.iter().flatten() {
        if device.heaps.is_empty() && device.types.is_empty() {
            continue;
        }
        let lost = match device.lost_blocks {
            0 => String::new(),
            lost => format!("; {lost} blocks are counted nowhere"),
        };
        let head = FigureRow { name: format!("{}{lost}", device.device), strong: true, ..FigureRow::default() };
        rows.push((head, None));
        for (what, of) in [("heap", &device.heaps), ("type", &device.types)] {
            rows.extend(of.iter().map(|row| {
                let head = FigureRow { name: format!("{what} {}", row.index), depth: 1, ..FigureRow::default() };
                (head, Some(row))
            }));
        }
    }
    FigureTable::of(&VulkanMemoryRow::columns(), rows)
}

pub(super) struct Bar {
    pub(super) name: &'static str,
    pub(super) run: CoverageRun,
    pub(super) terms: Vec<Term>,
    pub(super) beside: String,
}

/// A part of a bar, of 1000 units.
pub(super) struct Term {
    pub(super) class: &'static str,
    pub(super) name: &'static str,
    pub(super) left: f64,
    pub(super) share: f64,
    pub(super) calls: u64,
    pub(super) bytes: u64,
}

pub(super) fn bar(name: &'static str, run: CoverageRun) -> Bar {
    let parts = [
        ("callback", "through callbacks", run.callback_calls, run.callback_bytes),
        ("in-command", "past them, inside of commands", run.in_command_calls, run.in_command_bytes),
        (
            "never-issued",
            "past them, on the driver\u{2019}s own threads",
            run.never_issued_calls,
            run.never_issued_bytes,
        ),
    ];
    let all: f64 = parts.iter().map(|part| part.3 as f64).sum();
    let mut left = 0.0;
    let terms = parts.map(|(class, name, calls, bytes)| {
        let share = if all > 0.0 { bytes as f64 / all } else { 0.0 };
        let at = left;
        left += share * 1000.0;
        Term { class, name, left: at, share, calls, bytes }
    });
    let beside = [
        ("the application between commands", run.application_bytes),
        ("the allocator behind the callbacks", run.in_callback_bytes),
        ("mappings", run.mapped_bytes),
    ];
    let beside = beside.into_iter().filter(|(_, taken)| *taken > 0);
    let beside: Vec<_> = beside.map(|(name, taken)| format!("{name} {}", bytes(taken))).collect();
    Bar { name, run, terms: terms.into(), beside: beside.join(", ") }
}
