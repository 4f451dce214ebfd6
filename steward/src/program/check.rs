//! `steward check`: a run, or a trace, against what is known of the driver.

use std::collections::HashSet;
use std::io::{ErrorKind, Write};
use std::path::Path;

use vk_callbacks::check::Opened;

use super::drive::{self, Driven, title};
use super::files::write_and_say;
use super::{Outcome, ProgramError, SYSTEM, all_drivers, child_run, is_all, outputs};
use crate::cli::{Check, Drive, Output};
use crate::drivers::{self, Selected};
use crate::expectations::{self, Checked, Expectations, compare, fit};
use crate::input;
use crate::replay::{self, TraceFile};
use crate::report::{CheckedDriver, ReportOrList, html_of_checks};
use vk_accounts::guard_run::Guarding;
use vk_accounts::report::origins::EventLog;
use vk_accounts::report::{self, FindingRow, Report, Source};

/// A file is written from runs of no round, of 1, .. to so many: how often something happens shows only then.
const FITTED_ROUNDS: u32 = 4;

/// What was checked, and whether its rounds are known.
struct Run {
    driver: String,
    how: String,
    rounds: Option<u32>,
    report: Report,
    events: EventLog,
}

/// Checks what was asked for.
///
/// # Safety
/// As for [`drivers::select`].
pub(super) unsafe fn check(
    check: &Check,
    guarding: &Guarding,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    // Before several runs are made for it.
    check
        .write_expect
        .as_deref()
        .map_or(Ok(None), written_before)?;
    if let Some(file) = &check.trace {
        return trace(file, check, output, out);
    }
    if check.driver.as_deref().is_some_and(is_all) {
        if check.expect.is_some() || check.write_expect.is_some() {
            return Err(ProgramError::ExpectAll);
        }
        // SAFETY: forwarded.
        return unsafe { all_drivers::check(check, guarding, output, out) };
    }
    if child_run::is_wanted(guarding) {
        return child_run::run(guarding, Checked::FORMAT, output, out);
    }
    // SAFETY: forwarded.
    let mut selected = unsafe { drivers::select(check.driver.as_deref()) }?;
    if check.direct {
        // SAFETY: the loader has just run the library that this manifest names.
        selected = unsafe { drivers::directly(selected.info().clone()) }?;
    }
    driver(&selected, check, guarding, output, out)
}

/// Checks one driver.
fn driver(
    selected: &Selected,
    check: &Check,
    guarding: &Guarding,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let run = |rounds| {
        let options = Drive {
            seed: check.seed,
            rounds,
            no_coverage: true,
            ..Drive::default()
        };
        let opened = if check.direct || drivers::is_reference(selected.info()) {
            Opened::Directly
        } else {
            Opened::ThroughLoader
        };
        let recorder = outputs::recorder(output);
        drive::drive(selected, &options, guarding, opened, recorder)
            .map(|driven| Run::of(driven, title(selected)))
    };
    if let Some(file) = &check.write_expect {
        let runs: Vec<_> = (0..=FITTED_ROUNDS).map(run).collect::<Result<_, _>>()?;
        return write(&title(selected), &runs, (file, check.direct), out);
    }
    report_step(run(check.rounds)?, check, output, out)
}

/// Checks a trace.
fn trace(
    file: &str,
    check: &Check,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let recorder = outputs::recorder(output);
    let (report, events) = replay::replay_into(&SYSTEM, &TraceFile::open(file)?, recorder)?;
    let driver = match &report.source {
        Source::Trace { driver: name, .. }
        | Source::Driver { name, .. }
        | Source::Program {
            executable: name, ..
        } => name.clone(),
    };
    let run = Run::of(Driven { report, events }, driver);
    match &check.write_expect {
        Some(file) => write(&run.driver.clone(), &[run], (file, false), out),
        None => report_step(run, check, output, out),
    }
}

impl Run {
    fn of(Driven { report, events }: Driven, driver: String) -> Self {
        let (how, rounds) = match &report.source {
            Source::Driver {
                seed,
                rounds,
                commands,
                ..
            } => {
                let s = if *rounds == 1 { "" } else { "s" };
                let how = format!("{rounds} round{s} with seed {seed}, {commands} commands");
                // A run that ended early shows less than whole rounds.
                (how, report.fail.is_none().then_some(*rounds))
            }
            Source::Trace { file, lines, .. } => (format!("the trace {file}, {lines} lines"), None),
            Source::Program { commands, .. } => (format!("a program, {commands} commands"), None),
        };
        Self {
            driver,
            how,
            rounds,
            report,
            events,
        }
    }

    /// What two contexts showed that is not known of the driver, and that the workload did not show: then it is told of that. Whose
    /// callbacks it was says nothing here: a context has one set for all.
    fn faults_of_contexts(&self, known: &Expectations) -> Vec<String> {
        let key = |rule: &str, kind: &str, command: &str, scope: &str| {
            [rule, kind, command, scope].map(str::to_owned)
        };
        let of_row = |row: &FindingRow| key(&row.rule, &row.kind, &row.command, &row.scope);
        let mut told: HashSet<_> = known
            .findings
            .iter()
            .map(|one| key(&one.rule, &one.kind, &one.command, &one.scope))
            .collect();
        told.extend(self.report.findings.iter().map(of_row));
        let shared = self.report.shared_contexts.as_ref();
        let new = shared
            .into_iter()
            .flat_map(|shared| &shared.findings)
            .filter(|row| row.level != FindingRow::NOTE && !told.contains(&of_row(row)));
        let new = new.map(|row| format!("two contexts: {}: {}", row.rule, row.sentence));
        new.chain(
            shared
                .and_then(|shared| shared.unjudged.as_ref())
                .map(|unjudged| format!("two contexts: {unjudged}")),
        )
        .collect()
    }
}

fn report_step(
    mut run: Run,
    check: &Check,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let known = expected_of(&run.driver, check.expect.as_deref())?;
    let (name, known) = known.map_or((None, Expectations::default()), |(name, known)| {
        (Some(name), known)
    });
    let known = if check.direct {
        known.without_loader()
    } else {
        known
    };
    outputs::name_sites(output, &mut run.report);
    let report = &run.report;
    let faults = [report.faults(), run.faults_of_contexts(&known)].concat();
    let leaks = report.leaks.as_ref();
    let checked = Checked {
        driver: &run.driver,
        how: &run.how,
        expectations: name.as_deref(),
        limits: &report.limits,
        leaks: leaks.filter(|leaks| !leaks.stacks.is_empty()),
        guard: report.guard.as_ref(),
        fail: report.fail.as_ref(),
        faults: &faults,
        verdict: compare(&known, (&report.findings, report.unjudged), run.rounds),
    };
    let page = || {
        let driver = CheckedDriver {
            report: ReportOrList::Report(Box::new(report.clone())),
            check: Some(checked.summary()),
        };
        Ok(html_of_checks(&[driver])?)
    };
    if let Some(file) = &check.page_part {
        let part = (report, checked.summary());
        std::fs::write(file, report::json(&part).map_err(std::io::Error::from)?)?;
    }
    let reports = std::slice::from_ref(report);
    let profiled = outputs::write_profile(output, reports, Some(&run.events), out);
    let written = outputs::write(output, &checked, &checked.to_json(), page, out).and(profiled);
    // A reader that has had enough does not change what was found.
    written.or_else(|error| {
        if error.is_closed_pipe() {
            Ok(())
        } else {
            Err(error)
        }
    })?;
    Ok(if checked.is_as_expected() {
        Outcome::Done
    } else {
        Outcome::Unexpected
    })
}

fn write(
    driver: &str,
    runs: &[Run],
    (file, direct): (&Path, bool),
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let before = match written_before(file)? {
        Some(known) if !known.is_about(driver) => {
            let file = file.display().to_string();
            return Err(ProgramError::OtherDriver {
                file,
                about: known.driver,
                driver: driver.to_owned(),
            });
        }
        Some(known) => known,
        None => expected_of(driver, None)?
            .map(|(_, known)| known)
            .unwrap_or_default(),
    };
    let findings: Vec<_> = runs.iter().map(|run| run.report.findings.clone()).collect();
    let causes = if direct {
        before.clone().without_loader()
    } else {
        before.clone()
    };
    let fitted = fit(driver, &findings, &causes).with_loader_of(&before);
    let text = fitted.to_text().map_err(|error| ProgramError::Unwritable {
        file: file.display().to_string(),
        reason: std::io::Error::other(error),
    })?;
    let head = "# What this driver is known to do wrong, as `steward check --write-expect` saw it.\n\
                # driver: * stands for any text. per_round, per_run: exactly so often; not compared when absent. from_round: the\n\
                # first round that shows it. sometimes = true: a run may lack it. loader = true: the loader's doing, not expected with\n\
                # --direct. cause: why, for people.\n";
    writeln!(out, "driver: {driver}")?;
    // A file from runs that were not judged whole would not say what the driver does, and lack causes that the old one has.
    if let Some(unjudged) = runs.iter().find_map(|run| run.report.unjudged) {
        writeln!(out, "note: {unjudged}\n{} was not written", file.display())?;
        return Ok(Outcome::Unexpected);
    }
    write_and_say(file, format!("{head}{text}").as_bytes())?;
    let unexplained = fitted
        .findings
        .iter()
        .filter(|one| one.cause.is_empty())
        .count();
    writeln!(
        out,
        "{}: {} findings, {unexplained} without a cause",
        file.display(),
        fitted.findings.len()
    )?;
    Ok(Outcome::Done)
}

/// What a file that is to be written holds already, so that what somebody found out about causes stays. A file of any other kind
/// is refused: it was named by mistake, and would be lost.
fn written_before(file: &Path) -> Result<Option<Expectations>, ProgramError> {
    // A pipe would wait for its writer here.
    if std::fs::metadata(file).is_ok_and(|there| !there.is_file()) {
        return Ok(None);
    }
    let other = |reason: String| ProgramError::NotExpectations {
        file: file.display().to_string(),
        reason,
    };
    match input::text(file) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Expectations::parse(&text)
            .map(Some)
            .map_err(|fault| other(fault.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(other(error.to_string())),
    }
}

/// What is expected of the driver, and where that stands: in the file or the bundled one that is named, or in the bundled one
/// that is about it.
fn expected_of(
    driver: &str,
    named: Option<&str>,
) -> Result<Option<(String, Expectations)>, ProgramError> {
    let Some(name) = named else {
        let bundled = expectations::of_driver(driver)
            .map_err(|fault| wrong("the bundled expectations", &fault))?;
        return Ok(bundled.map(|(bundled, known)| (format!("{} (bundled)", bundled.name), known)));
    };
    let (name, known) = expectations_named(name)?;
    if !known.is_about(driver) {
        return Err(ProgramError::OtherDriver {
            file: name,
            about: known.driver,
            driver: driver.to_owned(),
        });
    }
    Ok(Some((name, known)))
}

/// The file of that name, or the bundled one, and what it is called in reports.
pub(super) fn expectations_named(name: &str) -> Result<(String, Expectations), ProgramError> {
    let (name, text) = match input::text(Path::new(name)) {
        Ok(text) => (name.to_owned(), text),
        Err(reason) => match expectations::named(name) {
            Some(bundled) => (format!("{name} (bundled)"), bundled.text.to_owned()),
            None => {
                return Err(ProgramError::NoExpectations {
                    file: name.to_owned(),
                    reason,
                });
            }
        },
    };
    let known = parse(&name, &text)?;
    Ok((name, known))
}

fn parse(file: &str, text: &str) -> Result<Expectations, ProgramError> {
    Expectations::parse(text).map_err(|fault| wrong(file, &fault))
}

fn wrong(file: &str, fault: &expectations::FileFault) -> ProgramError {
    ProgramError::Expectations {
        file: file.to_owned(),
        fault: fault.clone(),
    }
}
