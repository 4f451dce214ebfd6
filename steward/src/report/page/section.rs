//! The page's part about one driver or trace.

#![forbid(unsafe_code)]

use super::areas::{Areas, areas};
use super::drill_down::{DrillPart, drill_down};
use super::findings::{FindingLine, findings};
use super::growth::{GrowthRows, growth};
use super::guard::{self, GuardSection};
use super::label::{capitalised, grouped};
use super::leaks::{LeakCard, PeakCard, leaks, peaks};
use super::rounds::folded;
use super::tables::{self, Bar, FigureTable};
use super::timeline_chart::{Course, course};
use super::vulkan::vulkan_memory;
use crate::expectations::CheckSummary;
use crate::expectations::name_known;
use crate::report::ReportOrList;
use vk_report::report::title_of;
use vk_report::report::{
    Defragmentation, DeviceMemory, FindingRow, Report, RunEnvironment, Source, VulkanMemory,
    one_line,
};
use vk_report::units::bytes;

/// One driver's part of the page.
#[derive(Default)]
pub(super) struct Section {
    /// The prefix of its ids; empty for the first part.
    pub(super) prefix: String,
    pub(super) heading: String,
    /// The driver or trace that ran.
    pub(super) about: Vec<String>,
    /// Why it could not be run.
    pub(super) failed: Option<String>,
    pub(super) limits: Vec<String>,
    pub(super) figures: Vec<Figure>,
    pub(super) fullest_phase: String,
    pub(super) bytes_note: &'static str,
    pub(super) areas: Vec<Areas>,
    pub(super) contexts: FigureTable,
    /// Details of each context.
    pub(super) drill: Vec<DrillPart>,
    /// The result of a check, if there was one.
    pub(super) check: Option<CheckSummary>,
    pub(super) unused: String,
    pub(super) course: Option<Course>,
    pub(super) steps: &'static str,
    pub(super) growth: GrowthRows,
    /// Rounds as one row each.
    pub(super) phases: FigureTable,
    /// The phases of all rounds; empty if `phases` has them.
    pub(super) all_phases: FigureTable,
    pub(super) slack: bool,
    /// What the sub-allocator says of device memory, in sentences; empty without sub-allocations.
    pub(super) memory: Vec<String>,
    /// A defragmentation, before and after.
    pub(super) defragmentation: Vec<String>,
    pub(super) findings: Vec<FindingLine>,
    /// The number of notes, which are folded.
    pub(super) notes: usize,
    /// A sentence about how many are known of the driver.
    pub(super) known: String,
    pub(super) leaks: Vec<LeakCard>,
    /// Call stacks that were omitted.
    pub(super) leaks_more: usize,
    /// What was held at the highest moments.
    pub(super) peaks: Vec<PeakCard>,
    /// Device memory that a program allocated.
    pub(super) vulkan: FigureTable,
    pub(super) coverage_absent: String,
    pub(super) bars: Vec<Bar>,
    pub(super) leftovers: FigureTable,
    /// A guard's reports and refused requests; empty without both.
    pub(super) guard: Vec<String>,
    pub(super) told: Vec<GuardSection>,
}

/// A number at the top.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) detail: String,
    /// It shows an error.
    pub(super) bad: bool,
}

impl Section {
    pub(super) fn new(index: usize, entry: &ReportOrList) -> Self {
        let prefix = if index == 0 {
            String::new()
        } else {
            format!("driver-{}-", index + 1)
        };
        match entry {
            ReportOrList::Report(report) => Self {
                prefix,
                ..Self::of(report)
            },
            ReportOrList::Failed(failed) => {
                let (leaks, leaks_more) = leaks(failed.leaks.as_ref());
                Self {
                    prefix,
                    heading: one_line(&failed.driver),
                    failed: Some(one_line(&failed.error)),
                    leaks,
                    leaks_more,
                    peaks: peaks(failed.leaks.as_ref()),
                    ..Self::default()
                }
            }
        }
    }

    /// Adds the result of a check.
    pub(super) fn checked(mut self, mut check: CheckSummary) -> Self {
        for difference in &mut check.differences {
            *difference = one_line(difference);
        }
        let figure = Figure {
            name: "Check",
            value: check.words(),
            detail: format!("{} known of this driver", check.known),
            bad: !check.is_as_expected,
        };
        self.figures.insert(0, figure);
        Self {
            check: Some(check),
            ..self
        }
    }

    fn of(report: &Report) -> Self {
        let mut compared = report.clone();
        // A report that was saved before its rows had causes has only the numbers.
        let is_named = compared.known_findings.as_ref().is_some_and(|known| {
            known.known == 0 || compared.findings.iter().any(|row| row.known.is_some())
        });
        if !is_named {
            name_known(&mut compared);
        }
        let (contexts, unused) = tables::contexts(report);
        let coverage = report.callback_coverage.clone().unwrap_or_default();
        let live = !matches!(report.source, Source::Trace { .. });
        let (findings, known) = findings(&compared);
        let (leaks, leaks_more) = leaks(report.leaks.as_ref());
        let rounds = folded(&report.phases);
        let samples = rounds.samples(&report.timeline);
        let runs = [
            ("Without the loader", coverage.without_loader),
            ("With the loader", coverage.with_loader),
        ];
        let bars: Vec<_> = runs
            .iter()
            .filter_map(|(name, run)| Some(tables::bar(name, run.as_ref()?)))
            .collect();
        let absent = match (&coverage.absent, live) {
            (Some(reason), _) => one_line(reason),
            (None, _) if !bars.is_empty() => String::new(),
            (None, true) => "It was not measured in this run.".to_owned(),
            (None, false) => {
                "A trace holds callbacks only: what went past them is not in it.".to_owned()
            }
        };
        Self {
            heading: heading(&report.source),
            about: about(&report.source)
                .into_iter()
                .chain(
                    report
                        .environment
                        .iter()
                        .flat_map(RunEnvironment::lines)
                        .map(|line| capitalised(&line)),
                )
                .collect(),
            limits: report.notes().map(|note| one_line(&note)).collect(),
            figures: figures(report, &findings, &known),
            fullest_phase: one_line(&title_of(&report.phases, &report.fullest_phase, |phase| {
                phase.live_bytes
            })),
            bytes_note: report.source.bytes_note(),
            areas: areas(report),
            contexts,
            drill: drill_down(report.call_sites.as_ref()),
            unused,
            course: course(report, &rounds.phases, &samples),
            growth: growth(&rounds, &samples),
            steps: if live {
                "commands"
            } else {
                "lines of the trace"
            },
            phases: tables::phases(&rounds.phases),
            all_phases: if rounds.rounds.is_empty() {
                FigureTable::default()
            } else {
                tables::phases(&report.phases)
            },
            slack: report.contexts.iter().any(|row| row.peak_slack > 0)
                || report.phases.iter().any(|row| row.peak_slack > 0),
            memory: memory(report.device_memory.as_ref()),
            defragmentation: moved(report.defragmentation.as_ref()),
            notes: findings
                .iter()
                .filter(|line| line.class == FindingRow::NOTE)
                .count(),
            findings,
            known,
            leaks,
            leaks_more,
            peaks: peaks(report.leaks.as_ref()),
            vulkan: vulkan_memory(report),
            coverage_absent: absent,
            bars,
            leftovers: tables::leftovers(report),
            guard: guard::lines(report),
            told: guard::guard_section(report),
            ..Self::default()
        }
    }
}

fn memory(memory: Option<&DeviceMemory>) -> Vec<String> {
    let lines = memory.into_iter().flat_map(DeviceMemory::lines);
    lines.map(|line| capitalised(&line) + ".").collect()
}

fn moved(moved: Option<&Defragmentation>) -> Vec<String> {
    let states = |moved: &Defragmentation| {
        [
            capitalised(&moved.title()) + ".",
            format!("Before: {}.", moved.before.figures()),
            format!("After: {}.", moved.after.figures()),
        ]
    };
    moved.map(states).into_iter().flatten().collect()
}

pub(super) fn heading(source: &Source) -> String {
    match source {
        Source::Driver { name, version, .. } => one_line(&format!("{name} {version}")),
        Source::Trace { file, .. } => one_line(file),
        Source::Program { executable, .. } => one_line(executable),
    }
}

fn about(source: &Source) -> Vec<String> {
    match source {
        Source::Driver {
            device,
            seed,
            rounds,
            commands,
            comparisons,
            objects,
            ..
        } => {
            let made: u64 = objects.iter().map(|(_, number)| u64::from(*number)).sum();
            let plural = if *rounds == 1 { "" } else { "s" };
            vec![
                format!("Device: {}", one_line(device)),
                format!(
                    "Workload: {rounds} round{plural} with seed {seed}, {made} objects of {} kinds, {} commands, {} results read back and right",
                    objects.len(),
                    grouped(*commands),
                    grouped(*comparisons)
                ),
            ]
        }
        Source::Trace {
            driver,
            no_driver,
            lines,
            ..
        } => {
            let driver = if driver.is_empty() {
                "a driver that the trace does not name".into()
            } else {
                one_line(driver)
            };
            let mut about = vec![format!(
                "Replay of {} lines, recorded on {driver}",
                grouped(*lines)
            )];
            about.extend(
                no_driver
                    .as_ref()
                    .map(|reason| format!("No driver was run: {}", one_line(reason))),
            );
            about
        }
        Source::Program {
            arguments,
            process,
            commands,
            loader,
            layers,
            layers_below,
            devices,
            ..
        } => {
            let mut about = vec![format!(
                "Process {process}, {} commands",
                grouped(*commands)
            )];
            about.extend(
                arguments
                    .as_ref()
                    .map(|arguments| format!("Arguments: {}", one_line(&arguments.join(" ")))),
            );
            let devices = devices.iter();
            about.extend(devices.map(|device| format!("Device: {}", one_line(device))));
            let loader = loader.iter();
            about.extend(loader.map(|loader| format!("Loader: {}", one_line(loader))));
            for (what, layers) in [
                ("Other layers that were named", layers),
                (
                    "Layers below, whose own objects count and are judged as the driver's",
                    layers_below,
                ),
            ] {
                if !layers.is_empty() {
                    about.push(format!("{what}: {}", one_line(&layers.join(", "))));
                }
            }
            about
        }
    }
}

fn figures(report: &Report, findings: &[FindingLine], known: &str) -> Vec<Figure> {
    let worst = FindingRow::LEVELS.first();
    let is_violation = |line: &&FindingLine| Some(&line.class) == worst;
    let has_unknown = findings
        .iter()
        .filter(is_violation)
        .any(|line| line.cause.is_empty());
    let taken = tables::phase_sum(report, |phase| phase.bytes);
    let blocks = tables::phase_sum(report, |phase| phase.blocks);
    let left = report.leftovers.iter().fold((0_u64, 0_u64), |sum, left| {
        (
            sum.0.saturating_add(left.blocks),
            sum.1.saturating_add(left.bytes),
        )
    });
    let about = if report.peak_slack == 0 {
        "exact".to_owned()
    } else {
        format!("\u{b1} {} bytes", grouped(report.peak_slack))
    };
    // The number counts the worst and the text below it the others: notes are legal and may be many.
    let mut levels = FindingRow::LEVELS.iter().filter_map(|level| {
        let count = report
            .findings
            .iter()
            .filter(|row| row.level == *level)
            .count();
        (count > 0).then(|| format!("{count} {level}{}", if count == 1 { "" } else { "s" }))
    });
    let worst = levels.next().unwrap_or_else(|| "none".to_owned());
    let others = levels.collect::<Vec<_>>().join(", ");
    let mut figures = vec![
        Figure {
            name: "Peak",
            value: bytes(report.peak_bytes),
            detail: format!("{} bytes, {about}", grouped(report.peak_bytes)),
            bad: false,
        },
        Figure {
            name: "Taken in all",
            value: bytes(taken),
            detail: format!("{} blocks", grouped(blocks)),
            bad: false,
        },
        Figure {
            name: "Findings",
            value: worst,
            detail: match (others.as_str(), known) {
                ("", "") => "of Vulkan's rules".to_owned(),
                ("", known) => known.to_owned(),
                (others, "") => format!("and {others}"),
                (others, known) => format!("and {others}. {known}"),
            },
            bad: has_unknown,
        },
        Figure {
            name: "Left behind",
            value: if left.0 == 0 {
                "nothing".to_owned()
            } else {
                bytes(left.1)
            },
            detail: if left.0 == 0 {
                "every block was freed".to_owned()
            } else {
                format!(
                    "{} block{}",
                    grouped(left.0),
                    if left.0 == 1 { "" } else { "s" }
                )
            },
            bad: left.0 > 0,
        },
    ];
    let (without, with) = report
        .callback_coverage
        .as_ref()
        .map_or((None, None), |coverage| {
            (coverage.without_loader, coverage.with_loader)
        });
    if let Some(ratio) = without.or(with).and_then(|run| run.ratio()) {
        let detail = if without.is_some() {
            "through callbacks, without the loader"
        } else {
            "through callbacks"
        };
        figures.insert(
            2,
            Figure {
                name: "Callback coverage",
                value: vk_report::units::percent(ratio),
                detail: detail.to_owned(),
                bad: false,
            },
        );
    }
    figures.extend(report.vulkan_memory.as_deref().map(device_memory));
    figures.extend(report.guard.as_ref().map(guard::figure));
    figures
}

/// The device memory that a program did not free.
fn device_memory(devices: &[VulkanMemory]) -> Figure {
    let (blocks, left) = VulkanMemory::live(devices);
    Figure {
        name: "Device memory left behind",
        value: match left {
            0 => "nothing".to_owned(),
            left => bytes(left),
        },
        detail: match blocks {
            0 => "every block was freed".to_owned(),
            1 => "1 block".to_owned(),
            blocks => format!("{} blocks", grouped(blocks)),
        },
        bad: blocks > 0,
    }
}
