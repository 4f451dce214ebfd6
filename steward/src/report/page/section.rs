#![forbid(unsafe_code)]

use std::cmp::Reverse;

use super::courses::{SmallCourse, courses};
use super::findings::{self, findings};
use super::label::{capitalised, grouped};
use super::tables::{self, Bar, FigureTable};
use super::timeline_chart::{Course, course};
use crate::expectations::{CheckSummary, name_known};
use crate::report::{CheckedDriver, Failed, ReportOrList};
use vk_report::report::{
    DrillDown, FindingRow, FoldedPhases, GuardRun, Leaks, Phase, Report, RunEnvironment, Source, VulkanMemory,
    VulkanMemoryRow, title_of,
};

pub(super) struct Section {
    /// The prefix of its ids; empty for the first part.
    pub(super) prefix: String,
    pub(super) heading: String,
    pub(super) check: Option<CheckSummary>,
    pub(super) failed: Option<Failed>,
    pub(super) drawn: Option<Box<Drawn>>,
}

pub(super) struct Drawn {
    pub(super) report: Report,
    /// All but notes, the worst first.
    pub(super) findings: Vec<FindingRow>,
    pub(super) notes: Vec<FindingRow>,
    pub(super) known: String,
    pub(super) contexts: FigureTable,
    /// The names of contexts without a request.
    pub(super) unused: String,
    pub(super) drill: Vec<DrillDown>,
    pub(super) course: Option<Course>,
    pub(super) courses: Vec<SmallCourse>,
    pub(super) phases: FigureTable,
    /// The phases of all rounds; empty if `phases` has them.
    pub(super) all_phases: FigureTable,
    pub(super) vulkan: FigureTable,
    pub(super) bars: Vec<Bar>,
    pub(super) leftovers: FigureTable,
}

impl Section {
    pub(super) fn new(index: usize, driver: CheckedDriver) -> Self {
        let (heading, failed, drawn) = match driver.report {
            ReportOrList::Report(report) => (heading(&report.source), None, Some(Box::new(Drawn::of(*report)))),
            ReportOrList::Failed(failed) => (failed.driver.clone(), Some(failed), None),
        };
        Self {
            prefix: match index {
                0 => String::new(),
                index => format!("driver-{}-", index + 1),
            },
            heading,
            check: driver.check,
            failed,
            drawn,
        }
    }

    /// The list may also be known of a driver or program without a report.
    pub(super) fn leaks(&self) -> Option<&Leaks> {
        match (&self.drawn, &self.failed) {
            (Some(drawn), _) => drawn.report.leaks.as_ref(),
            (None, failed) => failed.as_ref()?.leaks.as_ref(),
        }
    }
}

impl Section {
    pub(super) fn has_leaks(&self) -> bool {
        self.leaks().is_some_and(|leaks| !leaks.stacks.is_empty())
    }

    /// Whether there is anything to say of what is left, also that nothing is.
    pub(super) fn has_leftovers(&self) -> bool {
        self.drawn.is_some() || self.has_leaks() || self.leaks().is_some_and(|leaks| !leaks.peaks.is_empty())
    }
}

impl Drawn {
    fn of(mut report: Report) -> Self {
        // A report that was saved before its rows had causes has only the numbers.
        let is_named = report
            .known_findings
            .as_ref()
            .is_some_and(|known| known.known == 0 || report.findings.iter().any(|row| row.known.is_some()));
        if !is_named {
            name_known(&mut report);
        }
        let (contexts, unused) = tables::contexts(&report);
        let (findings, notes) = findings(&report);
        let rounds = FoldedPhases::of(&report.phases, false);
        let samples = rounds.samples(&report.timeline);
        let coverage = report.callback_coverage.clone().unwrap_or_default();
        let runs = [("Without the loader", coverage.without_loader), ("With the loader", coverage.with_loader)];
        let bars = runs.into_iter().filter_map(|(name, run)| Some(tables::bar(name, run?)));
        Self {
            known: findings::known(&report, &findings),
            findings,
            notes,
            contexts,
            unused,
            drill: report.call_sites.as_ref().map(|sites| sites.drill_down()).unwrap_or_default(),
            course: course(&report, &rounds.rows, &samples),
            courses: courses(&report),
            phases: tables::phases(&rounds.rows),
            all_phases: match rounds.hidden == 0 {
                true => FigureTable::default(),
                false => tables::phases(&report.phases),
            },
            vulkan: tables::vulkan_memory(&report),
            bars: bars.collect(),
            leftovers: tables::leftovers(&report),
            report,
        }
    }

    pub(super) fn about(&self) -> Vec<String> {
        let source = &self.report.source;
        let mut lines: Vec<_> = source.to_string().lines().map(capitalised).collect();
        if let Source::Program { devices, loader, layers, .. } = source {
            lines.extend(devices.iter().map(|device| format!("Device: {device}")));
            lines.extend(loader.iter().map(|loader| format!("Loader: {loader}")));
            if !layers.is_empty() {
                lines.push(format!("Other layers that were named: {}", layers.join(", ")));
            }
        } else {
            lines.remove(0);
        }
        let environment = self.report.environment.iter().flat_map(RunEnvironment::lines);
        lines.extend(environment.map(|line| capitalised(&line)));
        lines
    }

    pub(super) fn sum(&self, figure: fn(&Phase) -> u64) -> u64 {
        let figures = self.report.phases.iter().map(figure);
        figures.fold(0, u64::saturating_add)
    }

    pub(super) fn taken(&self) -> u64 {
        self.sum(|phase| phase.bytes)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.sum(|phase| phase.blocks)
    }

    pub(super) fn left(&self) -> (u64, u64) {
        self.report.leftovers.iter().fold((0, 0), |(blocks, bytes), left| {
            (left.blocks.saturating_add(blocks), left.bytes.saturating_add(bytes))
        })
    }

    /// The heaps that were used, with their names, the one with the highest peak first.
    pub(super) fn heaps(&self) -> Vec<(String, &VulkanMemoryRow)> {
        let devices = self.report.vulkan_memory.as_deref().unwrap_or_default();
        let heaps = devices.iter().flat_map(|device| {
            device.heaps.iter().map(move |heap| match devices.len() {
                1 => (format!("heap {}", heap.index), heap),
                _ => (format!("heap {} of {}", heap.index, device.device), heap),
            })
        });
        let mut heaps: Vec<_> = heaps.collect();
        heaps.sort_by_key(|(_, heap)| Reverse(heap.peak_bytes));
        heaps.truncate(4);
        heaps
    }

    pub(super) fn device_memory(&self) -> Option<(u64, u64)> {
        self.report.vulkan_memory.as_deref().map(VulkanMemory::live)
    }

    pub(super) fn levels(&self) -> Vec<String> {
        let count = |level: &&str| {
            let rows = self.report.findings.iter().filter(|row| row.level == **level).count();
            let s = if rows == 1 { "" } else { "s" };
            (rows > 0).then(|| format!("{rows} {level}{s}"))
        };
        FindingRow::LEVELS.iter().filter_map(count).collect()
    }

    pub(super) fn has_unknown(&self) -> bool {
        let worst = FindingRow::LEVELS.first().copied();
        let mut violations = self.findings.iter().filter(|row| Some(findings::class(row)) == worst);
        violations.any(|row| row.known.is_none())
    }

    pub(super) fn coverage(&self) -> Option<(f64, bool)> {
        let (run, is_alone) = self.report.callback_coverage.as_ref()?.leading()?;
        Some((run.ratio()?, is_alone))
    }

    pub(super) fn coverage_absent(&self) -> &str {
        let coverage = self.report.callback_coverage.as_ref();
        match coverage.and_then(|coverage| coverage.absent.as_deref()) {
            Some(reason) => reason,
            None if !self.bars.is_empty() => "",
            None if self.is_trace() => "A trace holds callbacks only: what went past them is not in it.",
            None => "It was not measured in this run.",
        }
    }

    pub(super) fn is_trace(&self) -> bool {
        matches!(self.report.source, Source::Trace { .. })
    }

    pub(super) fn fullest_phase(&self) -> String {
        let report = &self.report;
        title_of(&report.phases, &report.fullest_phase, |phase| phase.live_bytes)
    }

    pub(super) fn is_empty_at_ends(&self) -> bool {
        self.report.phases.iter().all(|phase| phase.live_bytes == 0)
    }

    pub(super) fn has_slack(&self) -> bool {
        let mut contexts = self.report.contexts.iter().map(|row| row.peak_slack);
        let mut phases = self.report.phases.iter().map(|row| row.peak_slack);
        contexts.any(|slack| slack > 0) || phases.any(|slack| slack > 0)
    }

    pub(super) fn memory(&self) -> Vec<String> {
        let lines = self.report.device_memory.iter().flat_map(|memory| memory.lines());
        let mut lines: Vec<_> = lines.map(|line| capitalised(&line) + ".").collect();
        if let Some(moved) = self.report.defragmentation.as_ref().filter(|_| !lines.is_empty()) {
            lines.extend([
                capitalised(&moved.title()) + ".",
                format!("Before: {}.", moved.before.figures()),
                format!("After: {}.", moved.after.figures()),
            ]);
        }
        lines
    }

    pub(super) fn guard(&self) -> Vec<String> {
        let guard = self.report.guard.as_ref().map(|guard| {
            let told = Vec::new();
            GuardRun { told, ..guard.clone() }.to_string()
        });
        let fail = self.report.fail.as_ref().map(ToString::to_string);
        let both: String = guard.into_iter().chain(fail).collect();
        both.lines().map(|line| line.trim().to_owned()).collect()
    }

    pub(super) fn exactness(&self) -> String {
        match self.report.peak_slack {
            0 => "exact".to_owned(),
            slack => format!("\u{b1} {} bytes", grouped(slack)),
        }
    }
}

fn heading(source: &Source) -> String {
    match source {
        Source::Driver { name, version, .. } => format!("{name} {version}"),
        Source::Trace { file, .. } => file.clone(),
        Source::Program { executable, .. } => executable.clone(),
    }
}
