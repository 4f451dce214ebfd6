//! Exact numbers beside the drawings.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::areas::unit;
use super::label::{cell, grouped};
use vk_report::report::{ByScope, ContextRow, CoverageRun, Leftover, Phase, Report, one_line};
use vk_report::units::{bytes, percent};

/// The most rows of a table; data has all.
const ROWS: usize = 300;
/// The columns after the first of each table; scopes in the order of `Scope::ALL`.
const CONTEXT_COLUMNS: [&str; 9] = [
    "command", "object", "cache", "device", "instance", "live", "peak", "blocks", "taken",
];
const PHASE_COLUMNS: [&str; 11] = [
    "commands", "blocks", "freed", "taken", "command", "object", "cache", "device", "instance",
    "live", "peak",
];
const LEFTOVER_COLUMNS: [&str; 7] = [
    "command", "object", "cache", "device", "instance", "blocks", "bytes",
];

/// A table that may have been cut.
#[derive(Default)]
pub(super) struct FigureTable {
    /// The headings of the columns after the first; narrow screens show them beside each number.
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<FigureRow>,
    /// Rows that were omitted.
    pub(super) more: usize,
}

impl FigureTable {
    pub(super) fn of(
        columns: &[&'static str],
        rows: impl ExactSizeIterator<Item = FigureRow>,
    ) -> Self {
        Self {
            columns: columns.to_vec(),
            more: rows.len().saturating_sub(ROWS),
            rows: rows.take(ROWS).collect(),
        }
    }
}

/// A name and a row of numbers.
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

/// A figure of all phases together.
pub(super) fn phase_sum(report: &Report, figure: fn(&Phase) -> u64) -> u64 {
    let figures = report.phases.iter().map(figure);
    figures.fold(0, u64::saturating_add)
}

fn scopes(by_scope: &ByScope) -> impl Iterator<Item = String> {
    Scope::ALL
        .into_iter()
        .map(|scope| cell(by_scope.get(scope)))
}

fn peak(bytes: u64, slack: u64) -> String {
    format!(
        "{}{}",
        if slack == 0 { "" } else { "\u{2248}\u{202f}" },
        cell(bytes)
    )
}

/// Contexts with requests, and the names of the others.
pub(super) fn contexts(report: &Report) -> (FigureTable, String) {
    let (used, unused): (Vec<_>, Vec<_>) = report
        .contexts
        .iter()
        .partition(|row| row.group || row.total_blocks > 0);
    let row = |row: &ContextRow| FigureRow {
        name: one_line(&row.name),
        depth: row.steps(),
        strong: row.group,
        cells: scopes(&row.live_by_scope)
            .chain([
                cell(row.live_bytes),
                peak(row.peak_bytes, row.peak_slack),
                cell(row.total_blocks),
                cell(row.total_bytes),
            ])
            .collect(),
        ..FigureRow::default()
    };
    let mut names: Vec<_> = unused
        .iter()
        .take(ROWS)
        .map(|row| one_line(&row.name))
        .collect();
    names.extend((unused.len() > ROWS).then(|| format!("and {} more", unused.len() - ROWS)));
    (
        FigureTable::of(&CONTEXT_COLUMNS, used.into_iter().map(row)),
        names.join(", "),
    )
}

/// Numbered phases.
pub(super) fn phases(phases: &[Phase]) -> FigureTable {
    let row = |(index, phase): (usize, &Phase)| FigureRow {
        name: one_line(&phase.name),
        number: index + 1,
        cells: [phase.commands, phase.blocks, phase.freed, phase.bytes]
            .map(cell)
            .into_iter()
            .chain(scopes(&phase.live_by_scope))
            .chain([
                cell(phase.live_bytes),
                peak(phase.peak_bytes, phase.peak_slack),
            ])
            .collect(),
        ..FigureRow::default()
    };
    FigureTable::of(&PHASE_COLUMNS, phases.iter().enumerate().map(row))
}

/// Blocks that were not freed.
pub(super) fn leftovers(report: &Report) -> FigureTable {
    let row = |left: &Leftover| FigureRow {
        name: one_line(&left.context),
        cells: scopes(&left.by_scope)
            .chain([left.blocks, left.bytes].map(cell))
            .collect(),
        ..FigureRow::default()
    };
    FigureTable::of(&LEFTOVER_COLUMNS, report.leftovers.iter().map(row))
}

/// One measurement of callback coverage, as a bar and a row.
pub(super) struct Bar {
    pub(super) name: &'static str,
    pub(super) ratio: String,
    pub(super) callback: String,
    pub(super) past: String,
    pub(super) terms: Vec<Term>,
    /// Figures without a ratio.
    pub(super) beside: String,
}

/// A part of a bar, of 1000 units.
pub(super) struct Term {
    pub(super) class: &'static str,
    pub(super) name: &'static str,
    pub(super) left: String,
    pub(super) width: String,
    pub(super) calls: String,
    pub(super) bytes: String,
    pub(super) short: String,
    pub(super) share: String,
}

/// A measurement and both terms of its ratio.
pub(super) fn bar(name: &'static str, run: &CoverageRun) -> Bar {
    let parts = [
        (
            "callback",
            "through callbacks",
            run.callback_calls,
            run.callback_bytes,
        ),
        (
            "in-command",
            "past them, inside of commands",
            run.in_command_calls,
            run.in_command_bytes,
        ),
        (
            "never-issued",
            "past them, on the driver\u{2019}s own threads",
            run.never_issued_calls,
            run.never_issued_bytes,
        ),
    ];
    let all: f64 = parts.iter().map(|part| part.3 as f64).sum();
    let mut left = 0.0;
    let terms = parts.map(|(class, name, calls, taken)| {
        let share = if all > 0.0 { taken as f64 / all } else { 0.0 };
        let at = left;
        left += share * 1000.0;
        Term {
            class,
            name,
            left: unit(at),
            width: unit(share * 1000.0),
            calls: grouped(calls),
            bytes: grouped(taken),
            short: bytes(taken),
            share: percent(share),
        }
    });
    let beside = [
        ("the application between commands", run.application_bytes),
        ("the allocator behind the callbacks", run.in_callback_bytes),
        ("mappings", run.mapped_bytes),
    ];
    let beside = beside
        .into_iter()
        .filter(|(_, taken)| *taken > 0)
        .map(|(name, taken)| format!("{name} {}", bytes(taken)));
    Bar {
        name,
        ratio: run
            .ratio()
            .map_or_else(|| "no bytes at all".to_owned(), percent),
        callback: bytes(run.callback_bytes),
        past: bytes(run.past_bytes()),
        terms: terms.into(),
        beside: beside.collect::<Vec<_>>().join(", "),
    }
}
