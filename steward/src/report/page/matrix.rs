#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BTreeMap;

use alloc_core::Scope;

use super::label::{cell, counted};
use super::section::{heading, phase_sum};
use crate::expectations::CheckSummary;
use crate::report::{CheckedDriver, ReportOrList};
use vk_report::report::{ContextRow, Coverage, CoverageRun, FindingRow, Report, VulkanMemory};
use vk_report::units::{bytes, percent};

const KINDS: usize = 16;

pub(super) struct Matrix {
    pub(super) drivers: Vec<String>,
    pub(super) groups: Vec<(&'static str, Vec<MatrixRow>)>,
}

pub(super) struct MatrixRow {
    pub(super) name: String,
    pub(super) cells: Vec<String>,
}

pub(super) fn matrix(drivers: &[CheckedDriver]) -> Option<Matrix> {
    let reports: Vec<Option<&Report>> = drivers.iter().map(report).collect();
    if reports.iter().flatten().count() < 2 {
        return None;
    }
    let row = |name: &str, figure: &dyn Fn(&Report) -> String| {
        let cell = |report: &Option<&Report>| report.map_or_else(no_report, figure);
        MatrixRow { name: name.to_owned(), cells: reports.iter().map(cell).collect() }
    };
    let coverage = |name, run: fn(&Coverage) -> Option<CoverageRun>| {
        row(name, &|report| {
            let ratio = report.callback_coverage.as_ref().and_then(run);
            let ratio = ratio.and_then(|run| run.ratio());
            ratio.map_or_else(|| cell(0), percent)
        })
    };
    let left = |left: u64| match left {
        0 => "nothing".to_owned(),
        left => bytes(left),
    };
    let memory = vec![
        row("Peak", &|report| bytes(report.peak_bytes)),
        row("Taken in all", &|report| bytes(phase_sum(report, |phase| phase.bytes))),
        row("Blocks", &|report| cell(phase_sum(report, |phase| phase.blocks))),
        row("Left behind", &|report| left(sum(report.leftovers.iter().map(|left| left.bytes)))),
        row("Device memory left behind", &|report| {
            let live = report.vulkan_memory.as_deref().map(VulkanMemory::live);
            live.map_or_else(|| cell(0), |(_, live)| left(live))
        }),
        coverage("Through callbacks, without the loader", |coverage| coverage.without_loader),
        coverage("Through callbacks, with the loader", |coverage| coverage.with_loader),
    ];
    let levels = FindingRow::LEVELS.into_iter().map(|level| {
        row(&format!("{level}s"), &|report| {
            let found = report.findings.iter().filter(|row| row.level == level);
            cell(found.count() as u64)
        })
    });
    let held = |name: &str, is_counted: &dyn Fn(&ContextRow) -> bool, figure: &dyn Fn(&ContextRow) -> u64| {
        row(name, &|report| {
            let rows = report.contexts.iter().filter(|row| is_counted(row));
            cell(sum(rows.map(figure)))
        })
    };
    let scopes = Scope::ALL
        .into_iter()
        .map(|scope| held(scope.name(), &|row| row.depth == 0, &|row| row.live_by_scope.get(scope)));
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let rows = reports.iter().flatten().flat_map(|report| &report.contexts);
    for row in rows.filter(|row| !row.group && row.live_bytes > 0) {
        let most = kinds.entry(&row.name).or_default();
        *most = (*most).max(row.live_bytes);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, most)| Reverse(*most));
    let kinds: Vec<&str> = kinds.into_iter().map(|(name, _)| name).collect();
    let (shown, more) = kinds.split_at(kinds.len().min(KINDS));
    let of_kinds = |name: &str, is_one: &dyn Fn(&str) -> bool| {
        let is_counted = |row: &ContextRow| !row.group && is_one(&row.name);
        held(name, &is_counted, &|row| row.live_bytes)
    };
    let rest = (!more.is_empty()).then(|| {
        let name = counted(more.len() as u64, "more kind");
        of_kinds(&name, &|kind| !shown.contains(&kind))
    });
    let of_kind = |name: &&str| of_kinds(name, &|kind| kind == *name);
    let kinds = shown.iter().map(of_kind).chain(rest);
    Some(Matrix {
        drivers: drivers.iter().map(name).collect(),
        groups: vec![
            ("Check", of_checks(drivers)),
            ("Host memory", memory),
            ("Findings", levels.collect()),
            ("Bytes by scope, when contexts held most", scopes.collect()),
            ("Bytes by kind of object, when contexts held most", kinds.collect()),
        ],
    })
}

fn report(driver: &CheckedDriver) -> Option<&Report> {
    match &driver.report {
        ReportOrList::Report(report) => Some(report),
        ReportOrList::Failed(_) => None,
    }
}

fn name(driver: &CheckedDriver) -> String {
    match &driver.report {
        ReportOrList::Report(report) => heading(&report.source),
        ReportOrList::Failed(failed) => failed.driver.clone(),
    }
}

fn no_report() -> String {
    "no report".to_owned()
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn of_checks(drivers: &[CheckedDriver]) -> Vec<MatrixRow> {
    if drivers.iter().all(|driver| driver.check.is_none()) {
        return Vec::new();
    }
    let row = |name: &str, of: fn(&CheckSummary) -> String| {
        let cell = |driver: &CheckedDriver| driver.check.as_ref().map_or_else(no_report, of);
        MatrixRow { name: name.to_owned(), cells: drivers.iter().map(cell).collect() }
    };
    vec![
        row("Result", CheckSummary::words),
        row("Compared with", |check| check.expectations.clone().unwrap_or_else(|| "nothing".to_owned())),
        row("Known findings", |check| cell(check.known as u64)),
    ]
}
