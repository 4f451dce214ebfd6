use std::io::{ErrorKind, Write};
use std::path::Path;

use super::all_drivers::{self, DriverResult, or_report};
use super::drive::{self, Driven};
use super::files::write_and_say;
use super::{Outcome, ProgramError, outputs, replayed, select};
use crate::cli::{Check, Drive, is_all};
use crate::drivers::Selected;
use crate::expectations::{self, Checked, Expectations, compare, fit};
use crate::input;
use crate::replay::TraceFile;
use crate::report::{CheckedDriver, ReportOrList};
use vk_report::guard_run::Guarding;
use vk_report::report::origins::EventLog;
use vk_report::report::{Report, Source};

/// A file is written from runs of 0, 1, .. to this number of rounds, which show how counts depend on rounds.
const FITTED_ROUNDS: u32 = 4;

struct Run {
    driver: String,
    how: String,
    rounds: Option<u32>,
    report: Report,
    events: EventLog,
}

pub(super) fn check(check: &Check, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    // Refuse an invalid file before the runs.
    check.write_expect.as_deref().map_or(Ok(None), written_before)?;
    if let Some(file) = &check.trace {
        return trace(file, check, out);
    }
    let guarding = Guarding::from(check.guarding);
    let run = |selected: &Selected, rounds| {
        let options = Drive { seed: check.seed, rounds, no_coverage: true, ..Drive::default() };
        drive::drive(selected, &options, &guarding, outputs::stacks(&check.output))
            .map(|driven| Run::of(driven, selected.title()))
    };
    if check.driver.as_deref().is_some_and(is_all) {
        let one = |selected: &Selected| judged(&mut run(selected, check.rounds)?, check);
        return all_drivers::each((check.direct, Checked::FORMAT), &one, &check.output, out);
    }
    let selected = select(check.driver.as_deref(), check.direct)?;
    let ended = match &check.write_expect {
        Some(file) => {
            let runs = (0..=FITTED_ROUNDS).map(|rounds| run(&selected, rounds));
            let runs = runs.collect::<Result<Vec<_>, _>>();
            runs.and_then(|runs| write(&selected.title(), &runs, (file, check.direct), out))
        }
        None => run(&selected, check.rounds).and_then(|run| report_step(run, check, out)),
    };
    or_report(ended, Checked::FORMAT, &check.output, out)
}

fn trace(file: &str, check: &Check, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let driven = replayed(&TraceFile::open(file)?, &check.output)?;
    let driver = match &driven.report.source {
        Source::Trace { driver: name, .. } | Source::Driver { name, .. } | Source::Program { executable: name, .. } => {
            name.clone()
        }
    };
    let run = Run::of(driven, driver);
    match &check.write_expect {
        Some(file) => write(&run.driver.clone(), &[run], (file, false), out),
        None => report_step(run, check, out),
    }
}

impl Run {
    fn of(Driven { report, events }: Driven, driver: String) -> Self {
        let (how, rounds) = match &report.source {
            Source::Driver { seed, rounds, commands, .. } => {
                let s = if *rounds == 1 { "" } else { "s" };
                let how = format!("{rounds} round{s} with seed {seed}, {commands} commands");
                // A run that ended early has no complete rounds.
                (how, report.fail.is_none().then_some(*rounds))
            }
            Source::Trace { file, lines, .. } => (format!("the trace {file}, {lines} lines"), None),
            Source::Program { commands, .. } => (format!("a program, {commands} commands"), None),
        };
        Self { driver, how, rounds, report, events }
    }
}

fn report_step(mut run: Run, check: &Check, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    judged(&mut run, check)?.write(Some(&run.events), &check.output, out)
}

fn judged(run: &mut Run, check: &Check) -> Result<DriverResult, ProgramError> {
    let (name, mut known) = expected_of(&run.driver, check.expect.as_deref())?.unzip();
    if check.direct {
        known = known.map(Expectations::without_loader);
    }
    let known = known.unwrap_or_default();
    if outputs::has_files(&check.output) {
        outputs::name_sites(&mut run.report);
    }
    let report = &run.report;
    let faults = report.faults();
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
    Ok(DriverResult {
        text: checked.to_string(),
        check: Some(checked.to_json()),
        page: CheckedDriver { report: ReportOrList::Report(Box::new(report.clone())), check: Some(checked.summary()) },
        outcome: Outcome::of(checked.is_as_expected()),
    })
}

fn write(
    driver: &str,
    runs: &[Run],
    (file, direct): (&Path, bool),
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let before = match written_before(file)? {
        Some(known) => about(driver, &file.display().to_string(), known)?,
        None => expected_of(driver, None)?.unzip().1.unwrap_or_default(),
    };
    let findings: Vec<_> = runs.iter().map(|run| run.report.findings.clone()).collect();
    let mut causes = before.clone();
    if direct {
        causes = causes.without_loader();
    }
    let fitted = fit(driver, &findings, &causes).with_unseen_of(&before);
    writeln!(out, "driver: {driver}")?;
    // A file from runs that were not completely judged would be incomplete, and lose causes of the old one.
    if let Some(unjudged) = runs.iter().find_map(|run| run.report.unjudged) {
        writeln!(out, "note: {unjudged}\n{} was not written", file.display())?;
        return Ok(Outcome::Unexpected);
    }
    writeln!(out, "{}", write_file(file, &fitted)?)?;
    Ok(Outcome::Done)
}

pub(super) fn write_file(file: &Path, fitted: &Expectations) -> Result<String, ProgramError> {
    let text = fitted.to_text().map_err(|error| ProgramError::Unwritable {
        file: file.display().to_string(),
        reason: std::io::Error::other(error),
    })?;
    let head = "# What this driver is known to do wrong, as --write-expect saw it.\n\
                # driver: * stands for any text. per_round, per_run: exactly so often; not compared when absent. from_round: the\n\
                # first round that shows it. sometimes = true: a run may lack it. loader = true: the loader's doing, not expected with\n\
                # --direct. cause: why, for people.\n";
    write_and_say(file, format!("{head}{text}").as_bytes())?;
    let findings = &fitted.findings;
    let unexplained = findings.iter().filter(|one| one.cause.is_empty()).count();
    Ok(format!("{}: {} findings, {unexplained} without a cause", file.display(), findings.len()))
}

/// The old expectations are read to keep their causes. A file of another kind is refused: it was probably named by
/// mistake, and would be lost.
pub(super) fn written_before(file: &Path) -> Result<Option<Expectations>, ProgramError> {
    // Reading a pipe would wait for its writer.
    if std::fs::metadata(file).is_ok_and(|there| !there.is_file()) {
        return Ok(None);
    }
    let other = |reason: String| ProgramError::NotExpectations { file: file.display().to_string(), reason };
    match input::text(file) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Expectations::parse(&text).map(Some).map_err(|fault| other(fault.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(other(error.to_string())),
    }
}

fn expected_of(driver: &str, named: Option<&str>) -> Result<Option<(String, Expectations)>, ProgramError> {
    let Some(name) = named else {
        let bundled = expectations::of_driver(driver).map_err(|fault| wrong("the bundled expectations", fault))?;
        return Ok(bundled.map(|(bundled, known)| (format!("{} (bundled)", bundled.name), known)));
    };
    let (name, known) = expectations_named(name)?;
    let known = about(driver, &name, known)?;
    Ok(Some((name, known)))
}

fn about(driver: &str, file: &str, known: Expectations) -> Result<Expectations, ProgramError> {
    if known.is_about(driver) {
        return Ok(known);
    }
    Err(ProgramError::OtherDriver { file: file.to_owned(), about: known.driver, driver: driver.to_owned() })
}

pub(super) fn expectations_named(name: &str) -> Result<(String, Expectations), ProgramError> {
    let (name, text) = match input::text(Path::new(name)) {
        Ok(text) => (name.to_owned(), text),
        Err(reason) => match expectations::named(name) {
            Some(bundled) => (format!("{name} (bundled)"), bundled.text.to_owned()),
            None => {
                return Err(ProgramError::NoExpectations { file: name.to_owned(), reason });
            }
        },
    };
    let known = Expectations::parse(&text).map_err(|fault| wrong(&name, fault))?;
    Ok((name, known))
}

fn wrong(file: &str, fault: expectations::FileFault) -> ProgramError {
    ProgramError::Expectations { file: file.to_owned(), fault }
}
