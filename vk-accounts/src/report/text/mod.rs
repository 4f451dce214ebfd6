//! The report for a terminal, in 120 columns.

#![forbid(unsafe_code)]

mod call_sites;
mod device_memory;
mod findings;
mod guard;
mod leaks;
mod shared_contexts;

use std::fmt;

use alloc_core::Scope;

use super::phase::{title_of, titles};
use super::rows::HEADER_BYTES;
use super::{ByScope, ContextRow, Phase, Report, Source};
use crate::units::bytes;

/// Where lists break.
const WIDTH: usize = 118;
/// Names of contexts may take so much of a line before its numbers are pushed aside.
const WIDEST_NAME: usize = 40;

/// A report for a terminal; see [`Report::text`].
#[derive(Clone, Copy, Debug)]
pub struct Text<'r> {
    report: &'r Report,
    all_findings: bool,
    depth: usize,
}

impl Report {
    /// This for a terminal, in 120 columns: with each finding, or with their number only.
    #[must_use]
    pub const fn text(&self, all_findings: bool) -> Text<'_> {
        Text {
            report: self,
            all_findings,
            depth: 0,
        }
    }
}

impl Text<'_> {
    /// With so many levels below the contexts: 1 for commands, 2 for size classes, 3 for call stacks; 0 for none.
    #[must_use]
    pub const fn depth(mut self, levels: usize) -> Self {
        self.depth = levels;
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text(false).fmt(f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.numbers(f)?;
        let sites = self.report.call_sites.as_ref();
        let sites = sites.filter(|_| self.depth > 0);
        sites.map_or(Ok(()), |sites| call_sites::write(f, sites, self.depth))?;
        let leaks = self.report.leaks.as_ref();
        let leaks = leaks.filter(|leaks| !leaks.stacks.is_empty());
        leaks.map_or(Ok(()), |leaks| fmt::Display::fmt(leaks, f))?;
        self.report
            .device_memory
            .as_ref()
            .map_or(Ok(()), |memory| fmt::Display::fmt(memory, f))?;
        self.report
            .shared_contexts
            .as_ref()
            .map_or(Ok(()), |shared| shared.write(f, self.all_findings))?;
        findings::findings(f, &self.report.findings, self.all_findings)?;
        self.report
            .guard
            .as_ref()
            .map_or(Ok(()), |guard| fmt::Display::fmt(guard, f))?;
        self.report
            .fail
            .as_ref()
            .map_or(Ok(()), |fail| fmt::Display::fmt(fail, f))?;
        self.report
            .honour
            .as_ref()
            .map_or(Ok(()), |honour| write!(f, "{honour}"))?;
        let faults = self.report.faults();
        faults
            .iter()
            .try_for_each(|fault| guard::paragraph(f, "not as expected: ", fault))
    }
}

impl Report {
    fn numbers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)?;
        for note in self.notes() {
            let lines = findings::wrapped(&one_line(&note), WIDTH - "note: ".len());
            lines
                .iter()
                .zip(["note: "].into_iter().chain(std::iter::repeat("      ")))
                .try_for_each(|(line, head)| writeln!(f, "{head}{line}"))?;
        }
        if self.phases.is_empty() {
            writeln!(f, "\nno requests at all")?;
        } else {
            let fullest = title_of(&self.phases, &self.fullest_phase, |phase| phase.live_bytes);
            writeln!(
                f,
                "\ncontexts, live at the end of the phase \"{}\", when they held most:",
                one_line(&fullest)
            )?;
            contexts(f, &self.contexts)?;
            if !matches!(self.source, Source::Trace { .. }) {
                writeln!(
                    f,
                    "  bytes as taken from the host: what was asked for, and {HEADER_BYTES} in front of each block"
                )?;
            } else {
                writeln!(
                    f,
                    "  bytes as asked for; a live run counts {HEADER_BYTES} more in front of each block"
                )?;
            }
            if self.contexts.iter().any(|row| row.peak_slack > 0) {
                writeln!(
                    f,
                    "  ~ an upper bound: scopes, contexts or threads may have had their peaks at different moments"
                )?;
            }
            writeln!(f, "\nphases, live at the end of each:")?;
            phases(f, &self.phases)?;
            let slack = if self.peak_slack == 0 {
                "exact".to_owned()
            } else {
                format!("+-{} bytes", self.peak_slack)
            };
            let peak_phase = title_of(&self.phases, &self.peak_phase, |phase| phase.peak_bytes);
            let (short, phase) = (bytes(self.peak_bytes), one_line(&peak_phase));
            writeln!(
                f,
                "\npeak: {short} ({} bytes, {slack}) in the phase \"{phase}\"",
                self.peak_bytes
            )?;
        }
        if self.leftovers.is_empty() {
            writeln!(f, "leftovers: none, every block was given back")?;
        } else {
            writeln!(f, "leftovers, never given back:")?;
            for left in &self.leftovers {
                let (name, plural) = (
                    one_line(&left.context),
                    if left.blocks == 1 { "" } else { "s" },
                );
                write!(
                    f,
                    "  {name}: {} block{plural}, {} bytes",
                    left.blocks, left.bytes
                )?;
                scopes_in_words(f, &left.by_scope)?;
            }
        }
        Ok(())
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
                let plural = if *rounds == 1 { "" } else { "s" };
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
            Self::Program {
                executable,
                process,
                commands,
                devices,
                ..
            } => {
                writeln!(
                    f,
                    "program: {}, process {process}, {commands} commands",
                    one_line(executable)
                )?;
                devices
                    .iter()
                    .try_for_each(|device| writeln!(f, "device: {}", one_line(device)))
            }
        }
    }
}

fn contexts(f: &mut fmt::Formatter<'_>, rows: &[ContextRow]) -> fmt::Result {
    let (used, unused): (Vec<_>, Vec<_>) = rows
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
    let width = used
        .iter()
        .map(|row| name(row).chars().count())
        .max()
        .unwrap_or(0)
        .clamp("context".len(), WIDEST_NAME);
    write!(f, "  {:<width$}", "context")?;
    scope_names(f)?;
    writeln!(
        f,
        "{:>9}{:>10}{:>8}{:>9}",
        "live", "peak", "blocks", "taken"
    )?;
    for row in used {
        write!(f, "  {:<width$}", name(row))?;
        scope_cells(f, &row.live_by_scope)?;
        let peak = peak(row.peak_bytes, row.peak_slack);
        writeln!(
            f,
            "{:>9}{peak:>10}{:>8}{:>9}",
            cell(row.live_bytes),
            row.total_blocks,
            cell(row.total_bytes)
        )?;
    }
    if !unused.is_empty() {
        let mut line = "  never asked:".to_owned();
        for (number, row) in unused.iter().enumerate() {
            let comma = if number + 1 < unused.len() { "," } else { "" };
            let word = format!(" {}{comma}", one_line(&row.name));
            if line.chars().count() + word.chars().count() > WIDTH {
                writeln!(f, "{line}")?;
                line = "   ".to_owned();
            }
            line += &word;
        }
        writeln!(f, "{line}")?;
    }
    Ok(())
}

fn phases(f: &mut fmt::Formatter<'_>, phases: &[Phase]) -> fmt::Result {
    let titles: Vec<_> = titles(phases).iter().map(|title| one_line(title)).collect();
    let width = titles
        .iter()
        .map(|title| title.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(12, WIDEST_NAME);
    write!(
        f,
        "  {:<width$}{:>9}{:>8}{:>8}{:>9}",
        "phase", "commands", "blocks", "freed", "taken"
    )?;
    scope_names(f)?;
    writeln!(f, "{:>9}{:>9}", "live", "peak")?;
    for (phase, title) in phases.iter().zip(&titles) {
        write!(f, "  {title:<width$}")?;
        let [commands, blocks, freed] = [phase.commands, phase.blocks, phase.freed].map(count);
        write!(
            f,
            "{commands:>9}{blocks:>8}{freed:>8}{:>9}",
            cell(phase.bytes)
        )?;
        scope_cells(f, &phase.live_by_scope)?;
        writeln!(
            f,
            "{:>9}{:>9}",
            cell(phase.live_bytes),
            peak(phase.peak_bytes, phase.peak_slack)
        )?;
    }
    Ok(())
}

fn scope_names(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    Scope::ALL
        .into_iter()
        .try_for_each(|scope| write!(f, "{:>9}", scope.name()))
}

fn scope_cells(f: &mut fmt::Formatter<'_>, by_scope: &ByScope) -> fmt::Result {
    Scope::ALL
        .into_iter()
        .try_for_each(|scope| write!(f, "{:>9}", cell(by_scope.get(scope))))
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

/// What stands behind a word that is counted.
fn plural(number: u64) -> &'static str {
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

/// Names and reasons come from drivers, files and the system: none of them may break a line, steer the terminal, or show what
/// follows in another order.
pub fn one_line(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|c| if steers(c) { ' ' } else { c })
        .collect()
}
