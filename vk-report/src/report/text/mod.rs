//! The report for a terminal, in 120 columns or as many as it has.

#![forbid(unsafe_code)]

mod call_sites;
mod columns;
mod device_memory;
mod findings;
mod folded;
mod guard;
mod leaks;
mod program;

use std::fmt;

use alloc_core::Scope;

use super::phase::title_of;
use super::{ByScope, ContextRow, FailRun, Phase, Report, RunEnvironment, Source};
use crate::units::bytes;
use columns::Column;
use findings::ListedFindings;
use folded::folded;

/// The widest line of lists and sentences.
const WIDTH: usize = 118;
/// The width of names of contexts before their numbers are pushed aside.
const WIDEST_NAME: usize = 40;

/// What of a program counts as past the callbacks.
const BYPASSING: &str = "(bypassing: malloc in Vulkan calls, and on threads that never call Vulkan, even the program's)";

/// A report for a terminal; see [`Report::text`].
#[derive(Clone, Copy, Debug)]
pub struct Text<'r> {
    report: &'r Report,
    all_findings: bool,
    depth: usize,
    width: usize,
    all_rounds: bool,
}

impl Report {
    /// This for a terminal, in some 120 columns: with each finding, or with their number only.
    #[must_use]
    pub const fn text(&self, all_findings: bool) -> Text<'_> {
        Text {
            report: self,
            all_findings,
            depth: 0,
            width: usize::MAX,
            all_rounds: false,
        }
    }
}

impl Text<'_> {
    /// With `levels` levels below the contexts: 1 for commands, 2 for size classes, 3 for call stacks; 0 for none.
    #[must_use]
    pub const fn depth(mut self, levels: usize) -> Self {
        self.depth = levels;
        self
    }

    /// For a terminal of `columns` columns: tables leave out columns that do not fit, and name them.
    #[must_use]
    pub const fn width(mut self, columns: usize) -> Self {
        self.width = columns;
        self
    }

    /// With the phases of each round; else those of the fourth round of many and those after it are one row.
    #[must_use]
    pub const fn all_rounds(mut self, all: bool) -> Self {
        self.all_rounds = all;
        self
    }

    /// Of a program what is not known of the driver is always listed.
    fn listed(&self) -> ListedFindings {
        match (self.all_findings, &self.report.program) {
            (true, _) => ListedFindings::All,
            (false, Some(_)) => ListedFindings::Unknown,
            (false, None) => ListedFindings::None,
        }
    }

    fn paragraph(&self, f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
        let lines = findings::wrapped(text, self.sentence_width());
        lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }

    /// Where sentences break.
    fn sentence_width(&self) -> usize {
        self.width.min(WIDTH)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text(false).fmt(f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbers(f)?;
        let sites = self.report.call_sites.as_ref();
        let sites = sites.filter(|_| self.depth > 0);
        sites
            .into_iter()
            .try_for_each(|sites| call_sites::write(f, sites, self.depth))?;
        let report = self.report;
        let is_program = report.program.is_some();
        let leaks = report.leaks.iter();
        leaks
            .filter(|leaks| is_program || !leaks.stacks.is_empty())
            .try_for_each(|leaks| leaks.fmt(f))?;
        part(f, &report.device_memory)?;
        part(f, &report.defragmentation)?;
        findings::findings(f, report, (self.listed(), self.sentence_width()))?;
        part(f, &report.guard)?;
        if is_program {
            // How it ended after a refusal says nothing of its driver.
            part(f, &report.fail.as_ref().map(FailRun::refusals))?;
            part(f, &report.callback_coverage)?;
            return match &report.callback_coverage {
                Some(coverage) if coverage.absent.is_none() => self.paragraph(f, BYPASSING),
                _ => Ok(()),
            };
        }
        part(f, &report.fail)?;
        part(f, &report.callback_coverage)?;
        let faults = report.faults();
        faults
            .iter()
            .try_for_each(|fault| guard::paragraph(f, "not as expected: ", fault))
    }
}

/// A part of the report, if it has that.
fn part<T: fmt::Display>(f: &mut fmt::Formatter<'_>, part: &Option<T>) -> fmt::Result {
    part.iter().try_for_each(|part| part.fmt(f))
}

impl Text<'_> {
    fn numbers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        fmt::Display::fmt(&report.source, f)?;
        let environment = report.environment.iter().flat_map(RunEnvironment::lines);
        environment
            .into_iter()
            .try_for_each(|line| writeln!(f, "{line}"))?;
        for note in report.notes() {
            let width = self.sentence_width().saturating_sub("note: ".len());
            let lines = findings::wrapped(&one_line(&note), width);
            lines
                .iter()
                .zip(["note: "].into_iter().chain(std::iter::repeat("      ")))
                .try_for_each(|(line, head)| writeln!(f, "{head}{line}"))?;
        }
        if let Some(program) = &report.program {
            return self.program(f, program);
        }
        if report.phases.is_empty() && report.peak_bytes == 0 {
            writeln!(f, "\nno requests at all")?;
        } else if !report.phases.is_empty() {
            let fullest = title_of(&report.phases, &report.fullest_phase, |phase| {
                phase.live_bytes
            });
            writeln!(
                f,
                "\ncontexts, live at the end of the phase \"{}\", when they held most:",
                one_line(&fullest)
            )?;
            self.contexts(f)?;
            writeln!(f, "  {}", report.source.bytes_note())?;
            if report.contexts.iter().any(|row| row.peak_slack > 0) {
                writeln!(
                    f,
                    "  ~ an upper bound: scopes, contexts or threads may have had their peaks at different moments"
                )?;
            }
            writeln!(f, "\nphases, live at the end of each:")?;
            self.phases(f)?;
            let slack = if report.peak_slack == 0 {
                "exact".to_owned()
            } else {
                format!("+-{} bytes", report.peak_slack)
            };
            let peak_phase = title_of(&report.phases, &report.peak_phase, |phase| phase.peak_bytes);
            let (short, phase) = (bytes(report.peak_bytes), one_line(&peak_phase));
            writeln!(
                f,
                "\npeak: {short} ({} bytes, {slack}) in the phase \"{phase}\"",
                report.peak_bytes
            )?;
        }
        if report.leftovers.is_empty() {
            writeln!(f, "leftovers: none, every block was freed")?;
        } else {
            writeln!(f, "leftovers, never freed:")?;
            for left in &report.leftovers {
                write!(
                    f,
                    "  {}: {} block{}, {} requested bytes",
                    one_line(&left.context),
                    left.blocks,
                    plural(left.blocks),
                    left.bytes
                )?;
                scopes_in_words(f, &left.by_scope)?;
            }
        }
        let coverage = report.callback_coverage.as_ref();
        coverage.map_or(Ok(()), |coverage| findings::leading(f, coverage))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver {
                name,
                version,
                device,
                seed,
                rounds,
                commands,
                comparisons,
                objects,
            } => {
                writeln!(f, "driver: {} {}", one_line(name), one_line(version))?;
                let made: u64 = objects.iter().map(|(_, number)| u64::from(*number)).sum();
                let plural = plural((*rounds).into());
                writeln!(f, "device: {}", one_line(device))?;
                write!(
                    f,
                    "workload: {rounds} round{plural} with seed {seed}: {made} objects of {} kinds, ",
                    objects.len()
                )?;
                writeln!(
                    f,
                    "{commands} commands, {comparisons} results read back and right"
                )
            }
            Self::Trace {
                file,
                driver,
                no_driver,
                lines,
            } => {
                let file = one_line(file);
                writeln!(f, "trace: {file}")?;
                if let Some(reason) = no_driver {
                    writeln!(f, "no driver: {}", one_line(reason))?;
                }
                let driver = if driver.is_empty() {
                    "a driver that the trace does not name".to_owned()
                } else {
                    one_line(driver)
                };
                writeln!(f, "recorded on: {driver}; {lines} lines")
            }
            Self::Program { .. } => program::source(f, self),
        }
    }
}

/// A column of five, by allocation scope.
fn scope_columns<T: 'static>(by_scope: fn(&T) -> ByScope) -> impl Iterator<Item = Column<T>> {
    Scope::ALL.into_iter().map(move |scope| Column {
        title: scope.name(),
        width: 9,
        rank: 3,
        cell: Box::new(move |row| cell(by_scope(row).get(scope))),
    })
}

/// A column of numbers.
fn column<T: 'static>(
    (title, width, rank): (&'static str, usize, u8),
    cell: fn(&T) -> String,
) -> Column<T> {
    Column {
        title,
        width,
        rank,
        cell: Box::new(cell),
    }
}

impl Text<'_> {
    fn contexts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, unused): (Vec<_>, Vec<_>) = self
            .report
            .contexts
            .iter()
            .partition(|row| row.group || row.total_blocks > 0);
        let name = |row: &ContextRow| {
            format!(
                "{:indent$}{}",
                "",
                one_line(&row.name),
                indent = row.steps() * 2
            )
        };
        let rows: Vec<_> = used.into_iter().map(|row| (name(row), row)).collect();
        let names = name_width(&rows, "context".len());
        let columns: Vec<_> = scope_columns(|row: &ContextRow| row.live_by_scope)
            .chain([
                column(("live", 9, 0), |row: &ContextRow| cell(row.live_bytes)),
                column(("peak", 10, 0), |row| peak(row.peak_bytes, row.peak_slack)),
                column(("blocks", 8, 2), |row| row.total_blocks.to_string()),
                column(("taken", 9, 1), |row| cell(row.total_bytes)),
            ])
            .collect();
        columns::write(f, ("context", names), &rows, &columns, self.width)?;
        if unused.is_empty() {
            return Ok(());
        }
        let mut line = "  never asked:".to_owned();
        for (number, row) in unused.iter().enumerate() {
            let comma = if number + 1 < unused.len() { "," } else { "" };
            let word = format!(" {}{comma}", one_line(&row.name));
            if line.chars().count() + word.chars().count() > self.sentence_width() {
                writeln!(f, "{line}")?;
                line = "   ".to_owned();
            }
            line += &word;
        }
        writeln!(f, "{line}")
    }

    fn phases(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folded = folded(&self.report.phases, self.all_rounds);
        let rows = folded.rows.iter();
        let rows: Vec<_> = rows.map(|(title, row)| (one_line(title), row)).collect();
        let names = name_width(&rows, 12);
        let columns: Vec<_> = [
            column(("commands", 9, 2), |row: &Phase| count(row.commands)),
            column(("blocks", 8, 2), |row| count(row.blocks)),
            column(("freed", 8, 2), |row| count(row.freed)),
            column(("taken", 9, 1), |row| cell(row.bytes)),
        ]
        .into_iter()
        .chain(scope_columns(|row: &Phase| row.live_by_scope))
        .chain([
            column(("live", 9, 0), |row: &Phase| cell(row.live_bytes)),
            column(("peak", 9, 0), |row| peak(row.peak_bytes, row.peak_slack)),
        ])
        .collect();
        columns::write(f, ("phase", names), &rows, &columns, self.width)?;
        if folded.hidden == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "  {} rounds with {} phases are folded; --all-rounds shows them",
            folded.rounds, folded.hidden
        )
    }
}

/// The width of the longest name, within bounds.
fn name_width<T>(rows: &[(String, &T)], least: usize) -> usize {
    let longest = rows.iter().map(|(name, _)| name.chars().count()).max();
    longest.unwrap_or(0).clamp(least, WIDEST_NAME)
}

fn cell(number: u64) -> String {
    if number == 0 {
        "-".to_owned()
    } else {
        bytes(number)
    }
}

fn count(number: u64) -> String {
    if number == 0 {
        "-".to_owned()
    } else {
        number.to_string()
    }
}

fn peak(number: u64, slack: u64) -> String {
    format!("{}{}", if slack == 0 { "" } else { "~" }, cell(number))
}

/// The ending of a counted noun.
pub(super) fn plural(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

fn scopes_in_words(f: &mut fmt::Formatter<'_>, by_scope: &ByScope) -> fmt::Result {
    let held = Scope::ALL
        .into_iter()
        .filter(|scope| by_scope.get(*scope) > 0);
    let words: Vec<_> = held
        .map(|scope| format!("{} of scope {scope}", by_scope.get(scope)))
        .collect();
    match words.is_empty() {
        true => writeln!(f),
        false => writeln!(f, " ({})", words.join(", ")),
    }
}

/// The text without control characters. Names and reasons come from drivers, files and the system: none of them may break a line, control
/// the terminal, or reorder the text behind it.
pub fn one_line(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|c| if steers(c) { ' ' } else { c })
        .collect()
}
