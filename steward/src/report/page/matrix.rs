//! Drivers side by side, a row for each figure.

#![forbid(unsafe_code)]

use std::collections::HashSet;

use alloc_core::Scope;

use super::label::cell;
use super::tables::phase_sum;
use crate::expectations::CheckSummary;
use crate::report::ReportOrList;
use vk_report::report::{
    ContextRow, Coverage, CoverageRun, FindingRow, Report, VulkanMemory, one_line,
};
use vk_report::units::{bytes, percent};

/// The most kinds of objects that are compared.
const KINDS: usize = 16;

/// All drivers of a page.
pub(super) struct Matrix {
    pub(super) drivers: Vec<String>,
    pub(super) groups: Vec<MatrixGroup>,
}

/// Rows that belong together.
pub(super) struct MatrixGroup {
    pub(super) title: &'static str,
    pub(super) rows: Vec<MatrixRow>,
}

/// One figure of each driver.
pub(super) struct MatrixRow {
    pub(super) name: String,
    pub(super) cells: Vec<String>,
}

/// None if fewer than two drivers have a report. `checks` has each check's result, or is empty.
pub(super) fn matrix(entries: &[ReportOrList], checks: &[Option<&CheckSummary>]) -> Option<Matrix> {
    let reports: Vec<Option<&Report>> = entries
        .iter()
        .map(|entry| match entry {
            ReportOrList::Report(report) => Some(&**report),
            ReportOrList::Failed(_) => None,
        })
        .collect();
    if reports.iter().flatten().count() < 2 {
        return None;
    }
    let drivers = entries.iter().map(|entry| match entry {
        ReportOrList::Report(report) => super::section::heading(&report.source),
        ReportOrList::Failed(failed) => one_line(&failed.driver),
    });
    let row = |name: &str, figure: &dyn Fn(&Report) -> String| MatrixRow {
        name: name.to_owned(),
        cells: reports
            .iter()
            .map(|report| report.map_or_else(|| "no report".to_owned(), figure))
            .collect(),
    };
    let coverage = |report: &Report, run: fn(&Coverage) -> Option<CoverageRun>| {
        let ratio = report.callback_coverage.as_ref().and_then(run)?.ratio();
        ratio.map(percent)
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "\u{2013}".to_owned());
    let memory = vec![
        row("Peak", &|report| bytes(report.peak_bytes)),
        row("Taken in all", &|report| {
            bytes(phase_sum(report, |phase| phase.bytes))
        }),
        row("Blocks", &|report| {
            cell(phase_sum(report, |phase| phase.blocks))
        }),
        row("Left behind", &|report| {
            let left = report.leftovers.iter().map(|left| left.bytes);
            match left.fold(0_u64, u64::saturating_add) {
                0 => "nothing".to_owned(),
                left => bytes(left),
            }
        }),
        row("Device memory left behind", &|report| {
            let live = report.vulkan_memory.as_deref().map(VulkanMemory::live);
            or_dash(live.map(|(_, left)| match left {
                0 => "nothing".to_owned(),
                left => bytes(left),
            }))
        }),
        row("Through callbacks, without the loader", &|report| {
            or_dash(coverage(report, |coverage| coverage.without_loader))
        }),
        row("Through callbacks, with the loader", &|report| {
            or_dash(coverage(report, |coverage| coverage.with_loader))
        }),
    ];
    let level = |level: &'static str| {
        let count = move |report: &Report| {
            let found = report.findings.iter().filter(|row| row.level == level);
            cell(found.count() as u64)
        };
        row(&format!("{level}s"), &count)
    };
    let scope = |scope: Scope| {
        row(scope.name(), &move |report: &Report| {
            let top = report.contexts.iter().filter(|row| row.depth == 0);
            let held = top.map(|row| row.live_by_scope.get(scope));
            cell(held.fold(0_u64, u64::saturating_add))
        })
    };
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    for context in reports.iter().flatten().flat_map(|report| &report.contexts) {
        if context.group || context.live_bytes == 0 {
            continue;
        }
        match kinds.iter_mut().find(|(name, _)| *name == context.name) {
            Some((_, most)) => *most = (*most).max(context.live_bytes),
            None => kinds.push((&context.name, context.live_bytes)),
        }
    }
    kinds.sort_by_key(|(_, most)| std::cmp::Reverse(*most));
    let held = |name: &str, is_own: &dyn Fn(&str) -> bool| {
        row(name, &|report: &Report| {
            let own = |context: &&ContextRow| !context.group && is_own(&context.name);
            let held = report.contexts.iter().filter(own).map(|row| row.live_bytes);
            cell(held.fold(0_u64, u64::saturating_add))
        })
    };
    let kind = |(name, _): &(&str, u64)| held(&one_line(name), &|context| context == *name);
    let mut by_kind: Vec<_> = kinds.iter().take(KINDS).map(kind).collect();
    let more = kinds.get(KINDS..).unwrap_or_default();
    if !more.is_empty() {
        let names: HashSet<_> = more.iter().map(|(name, _)| *name).collect();
        let name = format!(
            "{} more kind{}",
            more.len(),
            if more.len() == 1 { "" } else { "s" }
        );
        by_kind.push(held(&name, &|context| names.contains(context)));
    }
    let groups = vec![
        MatrixGroup {
            title: "Check",
            rows: of_checks(checks),
        },
        MatrixGroup {
            title: "Host memory",
            rows: memory,
        },
        MatrixGroup {
            title: "Findings",
            rows: FindingRow::LEVELS.into_iter().map(level).collect(),
        },
        MatrixGroup {
            title: "Bytes by scope, when contexts held most",
            rows: Scope::ALL.into_iter().map(scope).collect(),
        },
        MatrixGroup {
            title: "Bytes by kind of object, when contexts held most",
            rows: by_kind,
        },
    ];
    Some(Matrix {
        drivers: drivers.collect(),
        groups,
    })
}

/// The checks' results; no rows without checks.
fn of_checks(checks: &[Option<&CheckSummary>]) -> Vec<MatrixRow> {
    if checks.iter().all(Option::is_none) {
        return Vec::new();
    }
    let row = |name: &str, of: fn(&CheckSummary) -> String| MatrixRow {
        name: name.to_owned(),
        cells: checks
            .iter()
            .map(|check| check.map_or_else(|| "no report".to_owned(), of))
            .collect(),
    };
    vec![
        row("Result", CheckSummary::words),
        row("Compared with", |check| match &check.expectations {
            Some(name) => one_line(name),
            None => "nothing".to_owned(),
        }),
        row("Known findings", |check| cell(check.known as u64)),
    ]
}
