#![forbid(unsafe_code)]

use std::fmt;

use super::{one_line, paragraph, plural};
use crate::report::{Coverage, CoverageRun, FindingRow, KnownFindings, Report};
use crate::units::{bytes, percent};

const WIDEST_RULE: usize = 24;
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ListedFindings {
    All,
    Unknown,
    None,
}

/// Notes, which are legal, are listed apart.
pub(super) fn findings(
    f: &mut fmt::Formatter<'_>,
    report: &Report,
    (listed, width): (ListedFindings, usize),
) -> fmt::Result {
    let (rows, known) = (&report.findings, report.known_findings.as_ref());
    let (notes, broken): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.level == FindingRow::NOTE);
    if broken.is_empty() {
        // No verdict is no good one.
        let is_checked = report.program.as_ref().is_none_or(|of| of.check.is_some());
        let none = if is_checked { "none" } else { "not checked" };
        writeln!(f, "findings: {none}")?;
    } else {
        let words = known.map(KnownFindings::words).unwrap_or_default();
        let comma = if words.is_empty() { "" } else { ", " };
        let is_hidden = broken.iter().any(|row| !listed.has(row));
        let hint = match (listed, words.is_empty()) {
            _ if !is_hidden => "",
            (ListedFindings::None, true) => " (--findings lists them, `steward check` says which are known)",
            (ListedFindings::None, false) => " (--findings lists them, `steward check` says why)",
            _ => " (--findings lists them)",
        };
        // A reader takes them for mistakes of the program.
        let whose = match known {
            Some(known) if listed == ListedFindings::Unknown && known.unknown == 0 => {
                ", the driver's and not your program's"
            }
            _ => "",
        };
        writeln!(f, "findings: {}{comma}{words}{whose}{hint}", by_level(&broken))?;
        list(f, &broken, (listed, width))?;
    }
    if notes.is_empty() {
        return Ok(());
    }
    let hint = match listed {
        ListedFindings::All => "",
        _ => " (--findings lists them)",
    };
    writeln!(f, "notes: {}, legal{hint}", notes.len())?;
    list(f, &notes, (listed, width))
}

impl ListedFindings {
    fn has(self, row: &FindingRow) -> bool {
        match self {
            Self::All => true,
            Self::Unknown => row.known.is_none() && row.level != FindingRow::NOTE,
            Self::None => false,
        }
    }
}

fn list(
    f: &mut fmt::Formatter<'_>,
    rows: &[&FindingRow],
    (listed, line_width): (ListedFindings, usize),
) -> fmt::Result {
    let mut sorted: Vec<_> = rows.iter().filter(|row| listed.has(row)).collect();
    sorted.sort_by_key(|row| row.rank());
    let width = sorted.iter().map(|row| row.rule.chars().count()).max().unwrap_or(0).min(WIDEST_RULE);
    for row in sorted {
        let [level, rule] = [&row.level, &row.rule].map(|text| one_line(text));
        let head = format!("  {level:<9} {rule:<width$} ");
        paragraph(f, &head, &row.sentence, line_width)?;
        let below = " ".repeat(head.chars().count());
        // A sentence of the checker says where and how often.
        if row.kind.is_empty() {
            paragraph(f, &below, &place(row), line_width)?;
        }
        match row.known.as_deref() {
            None => {}
            Some("") => paragraph(f, &below, "known of the driver", line_width)?,
            Some(cause) => {
                let known = format!("known of the driver: {cause}");
                paragraph(f, &below, &known, line_width)?;
            }
        }
    }
    Ok(())
}

fn by_level(rows: &[&FindingRow]) -> String {
    let known =
        FindingRow::LEVELS.map(|level| (level.to_owned(), rows.iter().filter(|row| row.level == level).count()));
    let other = ("other".to_owned(), rows.iter().filter(|row| row.rank() == FindingRow::LEVELS.len()).count());
    let counted = known.into_iter().chain([other]).filter(|(_, count)| *count > 0);
    let words = counted.map(|(level, count)| format!("{count} {level}{}", plural(count as u64)));
    words.collect::<Vec<_>>().join(", ")
}

fn place(row: &FindingRow) -> String {
    let mut words = Vec::new();
    for (before, text) in [("callbacks of ", &row.owner), ("", &row.command), ("scope ", &row.scope)] {
        if !text.is_empty() {
            words.push(format!("{before}{}", one_line(text)));
        }
    }
    if row.count > 1 {
        words.push(format!("{} times", row.count));
    }
    if row.bytes > 0 {
        words.push(bytes(row.bytes));
    }
    words.join(", ")
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.absent.as_deref().map(one_line).unwrap_or_default();
        let runs = [("without the loader", &self.without_loader), ("with the loader", &self.with_loader)];
        if runs.iter().all(|(_, run)| run.is_none()) {
            return writeln!(f, "callback coverage: not measured: {reason}");
        }
        writeln!(f, "callback coverage, requested bytes through callbacks of all that the driver requested:")?;
        runs.into_iter().try_for_each(|(name, run)| match run {
            Some(run) => one_run(f, name, run),
            // It was not tried.
            None if reason.is_empty() => Ok(()),
            None => writeln!(f, "  {name:<18}        -  {reason}"),
        })
    }
}

pub(super) fn leading(f: &mut fmt::Formatter<'_>, coverage: &Coverage) -> fmt::Result {
    let Some((run, alone)) = coverage.leading() else {
        return Ok(());
    };
    let share = run.ratio().map_or_else(|| "-".to_owned(), percent);
    let all = run.callback_bytes.saturating_add(run.past_bytes());
    let whose = match alone {
        true => "the driver alone",
        false => "the driver and the loader",
    };
    writeln!(
        f,
        "callback coverage: {share} of the requested bytes of {whose}: {} of {} (below)",
        bytes(run.callback_bytes),
        bytes(all)
    )
}

fn one_run(f: &mut fmt::Formatter<'_>, name: &str, run: &CoverageRun) -> fmt::Result {
    let ratio = run.ratio().map_or_else(|| "-".to_owned(), percent);
    write!(
        f,
        "  {name:<18}{ratio:>9}  {} through callbacks in {} calls\n{:31}",
        bytes(run.callback_bytes),
        run.callback_calls,
        ""
    )?;
    let past_calls = run.in_command_calls.saturating_add(run.never_issued_calls);
    let [past, within, own] = [run.past_bytes(), run.in_command_bytes, run.never_issued_bytes].map(bytes);
    writeln!(f, "{past} past them in {past_calls} calls: {within} in commands, {own} in its own threads")?;
    if run.opening_calls == 0 && run.opening_mapped_bytes == 0 {
        return Ok(());
    }
    let [opening, mapped] = [run.opening_bytes, run.opening_mapped_bytes].map(bytes);
    writeln!(
        f,
        "{:31}{opening} in {} calls while its library was opened, and {mapped} mapped: in neither",
        "", run.opening_calls
    )
}

#[cfg(test)]
mod tests {
    use super::{Coverage, CoverageRun, FindingRow, KnownFindings, Report};
    use crate::report::{CheckLimits, Leaks, ProgramAccounts};

    #[test]
    fn callback_coverage_says_why_a_run_is_missing_and_fits_the_terminal() {
        let coverage = Coverage {
            with_loader: Some(CoverageRun::default()),
            absent: Some("it has\nno manifest".into()),
            ..Coverage::default()
        };
        let text = coverage.to_string();
        assert!(text.contains("\n  without the loader        -  it has no manifest\n"), "{text}");
        let most = CoverageRun {
            callback_bytes: u64::MAX,
            callback_calls: u64::MAX,
            in_command_bytes: u64::MAX,
            in_command_calls: 999_999_999,
            never_issued_bytes: 1024,
            never_issued_calls: 999_999_999,
            ..CoverageRun::default()
        };
        let text = (Coverage { with_loader: Some(most), ..Coverage::default() }).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn known_ones_unknown_ones_and_notes_of_a_program() {
        let row = |rule: &str, level: &str, known: Option<&str>| FindingRow {
            rule: rule.to_owned(),
            level: level.to_owned(),
            kind: "K".to_owned(),
            sentence: format!("{rule} is broken"),
            known: known.map(str::to_owned),
            ..FindingRow::default()
        };
        let mut report = Report {
            findings: vec![
                row("V41", FindingRow::NOTE, None),
                row("V29", "suspect", None),
                row("V7", "violation", Some("a cause")),
            ],
            known_findings: Some(KnownFindings { expectations: "lavapipe-22.3".to_owned(), known: 1, unknown: 1 }),
            program: Some(ProgramAccounts { check: Some(CheckLimits::default()), ..ProgramAccounts::default() }),
            ..Report::of_stacks(7, 9, &Leaks::default())
        };
        let short = "
findings: 1 violation, 1 suspect, 1 of them not known of lavapipe 22.3 (--findings lists them)
  suspect   V29 V29 is broken
notes: 1, legal (--findings lists them)
";
        let text = report.text(false).to_string();
        assert!(text.ends_with(short), "{text}");
        let long = "
findings: 1 violation, 1 suspect, 1 of them not known of lavapipe 22.3
  violation V7  V7 is broken
                known of the driver: a cause
  suspect   V29 V29 is broken
notes: 1, legal
  note      V41 V41 is broken
";
        let text = report.text(true).to_string();
        assert!(text.ends_with(long), "{text}");
        report.findings.remove(1);
        report.known_findings.as_mut().expect("set").unknown = 0;
        let text = report.text(false).to_string();
        let known = "\nfindings: 1 violation, known of lavapipe 22.3, the driver's and not your program's (--findings lists them)\nnotes:";
        assert!(text.contains(known), "{text}");
        report.findings.clear();
        assert!(report.to_string().ends_with("\nfindings: none\n"));
        report.program = Some(ProgramAccounts::default());
        let text = report.to_string();
        assert!(text.ends_with("\nfindings: not checked\n"), "{text}");
    }
}
