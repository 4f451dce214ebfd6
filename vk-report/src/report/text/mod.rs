#![forbid(unsafe_code)]

mod call_sites;
mod columns;
mod device_memory;
mod findings;
mod guard;
mod leaks;
mod program;

use std::fmt;

use alloc_core::Scope;

use super::phase::title_of;
use super::{ByScope, ContextRow, FailRun, FoldedPhases, Phase, Report, RunEnvironment, Source};
use crate::units::bytes;
use findings::ListedFindings;

const WIDTH: usize = 118;
const WIDEST_NAME: usize = 40;

const BYPASSING: &str =
    "(bypassing: malloc in Vulkan calls, and on threads that never call Vulkan, even the program's)";

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
        Text { report: self, all_findings, depth: 0, width: usize::MAX, all_rounds: false }
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

    /// With the phases of each round; else those of the fourth round of many and later ones are one row.
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
        sites.into_iter().try_for_each(|sites| call_sites::write(f, sites, self.depth))?;
        let report = self.report;
        let is_program = report.program.is_some();
        let leaks = report.leaks.iter();
        leaks.filter(|leaks| is_program || !leaks.stacks.is_empty()).try_for_each(|leaks| leaks.fmt(f))?;
        part(f, &report.device_memory)?;
        part(f, &report.defragmentation)?;
        findings::findings(f, report, (self.listed(), self.sentence_width()))?;
        part(f, &report.guard)?;
        if is_program {
            // How it ended after a refusal says nothing of its driver.
            part(f, &report.fail.as_ref().map(FailRun::refusals))?;
            part(f, &report.callback_coverage)?;
            return match &report.callback_coverage {
                Some(coverage) if coverage.absent.is_none() => paragraph(f, "", BYPASSING, self.sentence_width()),
                _ => Ok(()),
            };
        }
        part(f, &report.fail)?;
        part(f, &report.callback_coverage)?;
        let faults = report.faults();
        faults.iter().try_for_each(|fault| guard::listed(f, "not as expected: ", fault))
    }
}

fn part<T: fmt::Display>(f: &mut fmt::Formatter<'_>, part: &Option<T>) -> fmt::Result {
    part.iter().try_for_each(|part| part.fmt(f))
}

impl Text<'_> {
    fn numbers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        fmt::Display::fmt(&report.source, f)?;
        let environment = report.environment.iter().flat_map(RunEnvironment::lines);
        environment.into_iter().try_for_each(|line| writeln!(f, "{line}"))?;
        for note in report.notes() {
            paragraph(f, "note: ", &note, self.sentence_width())?;
        }
        if let Some(program) = &report.program {
            return self.program(f, program);
        }
        if report.phases.is_empty() && report.peak_bytes == 0 {
            writeln!(f, "\nno requests at all")?;
        } else if !report.phases.is_empty() {
            let fullest = title_of(&report.phases, &report.fullest_phase, |phase| phase.live_bytes);
            writeln!(f, "\ncontexts, live at the end of the phase \"{}\", when they held most:", one_line(&fullest))?;
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
            let slack =
                if report.peak_slack == 0 { "exact".to_owned() } else { format!("+-{} bytes", report.peak_slack) };
            let peak_phase = title_of(&report.phases, &report.peak_phase, |phase| phase.peak_bytes);
            let (short, phase) = (bytes(report.peak_bytes), one_line(&peak_phase));
            writeln!(f, "\npeak: {short} ({} bytes, {slack}) in the phase \"{phase}\"", report.peak_bytes)?;
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
            Self::Driver { name, version, device, seed, rounds, commands, comparisons, objects } => {
                writeln!(f, "driver: {} {}", one_line(name), one_line(version))?;
                let made: u64 = objects.iter().map(|(_, number)| u64::from(*number)).sum();
                let plural = plural((*rounds).into());
                writeln!(f, "device: {}", one_line(device))?;
                write!(
                    f,
                    "workload: {rounds} round{plural} with seed {seed}: {made} objects of {} kinds, ",
                    objects.len()
                )?;
                writeln!(f, "{commands} commands, {comparisons} results read back and right")
            }
            Self::Trace { file, driver, no_driver, lines } => {
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

impl Text<'_> {
    fn contexts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, unused): (Vec<_>, Vec<_>) =
            self.report.contexts.iter().partition(|row| row.group || row.total_blocks > 0);
        let name = |row: &ContextRow| format!("{:indent$}{}", "", one_line(&row.name), indent = row.steps() * 2);
        let rows: Vec<_> = used.into_iter().map(|row| (name(row), row)).collect();
        let names = name_width(&rows, "context".len());
        let columns = ContextRow::columns();
        columns::write(f, ("context", names), &rows, &columns, self.width)?;
        if unused.is_empty() {
            return Ok(());
        }
        let unused: Vec<_> = unused.iter().map(|row| row.name.as_str()).collect();
        let width = self.sentence_width();
        paragraph(f, "  never asked: ", &unused.join(", "), width)
    }

    fn phases(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folded = FoldedPhases::of(&self.report.phases, self.all_rounds);
        let rows = folded.rows.iter();
        let rows: Vec<_> = rows.map(|row| (one_line(&row.name), row)).collect();
        let names = name_width(&rows, 12);
        let columns = Phase::columns();
        columns::write(f, ("phase", names), &rows, &columns, self.width)?;
        if folded.hidden == 0 {
            return Ok(());
        }
        writeln!(f, "  {} rounds with {} phases are folded; --all-rounds shows them", folded.rounds, folded.hidden)
    }
}

fn name_width<T>(rows: &[(String, &T)], least: usize) -> usize {
    let longest = rows.iter().map(|(name, _)| name.chars().count()).max();
    longest.unwrap_or(0).clamp(least, WIDEST_NAME)
}

pub(super) fn plural(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

fn scopes_in_words(f: &mut fmt::Formatter<'_>, by_scope: &ByScope) -> fmt::Result {
    let held = Scope::ALL.into_iter().filter(|scope| by_scope.get(*scope) > 0);
    let words: Vec<_> = held.map(|scope| format!("{} of scope {scope}", by_scope.get(scope))).collect();
    match words.is_empty() {
        true => writeln!(f),
        false => writeln!(f, " ({})", words.join(", ")),
    }
}

/// The text without control characters: names from drivers, files and the system must not break a line, control the
/// terminal, or reorder text.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.replace(steers, " ")
}

/// Whether the character breaks a line, controls the terminal, or reorders the text behind it.
#[must_use]
pub fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

const MIN_SENTENCE: usize = 24;

/// Writes `text` behind `head`, in lines of at most `width` characters that are broken at spaces and set in as far as
/// `head` is long. An empty text has no line.
///
/// # Errors
/// The formatter's.
pub fn paragraph(f: &mut fmt::Formatter<'_>, head: &str, text: &str, width: usize) -> fmt::Result {
    let indent = head.chars().count();
    let room = width.saturating_sub(indent).max(MIN_SENTENCE);
    let (mut line, mut length) = (head.to_owned(), 0);
    for word in one_line(text).split_whitespace() {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > room {
            writeln!(f, "{line}")?;
            (line, length) = (" ".repeat(indent), 0);
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += word_length;
    }
    match length {
        0 => Ok(()),
        _ => writeln!(f, "{line}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::paragraph;

    struct Wrapped(&'static str, usize);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            paragraph(f, "a: ", self.0, self.1)
        }
    }

    #[test]
    fn lines_break_at_spaces() {
        let wrapped = |text, width| Wrapped(text, width).to_string();
        let words = "one two  three four five six";
        assert_eq!(wrapped(words, 40), "a: one two three four five six\n");
        assert_eq!(wrapped(words, 27), "a: one two three four five\n   six\n");
        assert_eq!(wrapped(words, 0), wrapped(words, 27), "the least");
        let long = wrapped("immeasurably-immeasurable short", 0);
        assert_eq!(long, "a: immeasurably-immeasurable\n   short\n");
        assert_eq!(wrapped(" ", 3), "");
    }
}
