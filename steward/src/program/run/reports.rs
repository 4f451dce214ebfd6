#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use vk_report::guard_run::refused::RefusalLog;
use vk_report::report::{self, Report, Source};

use super::complain;
use super::environment::REPORTS;
use super::state_report::{StateEntry, StateReport};
use crate::cli::Output;
use crate::expectations::{self, KnownOfDrivers};
use crate::program::{ProgramError, outputs};
use crate::report::{ReportOrList, html};
use crate::symbols::Symbols;

#[derive(Default)]
pub(super) struct Reports {
    pub(super) processes: Vec<ProcessReport>,
    /// Processes without a report have refusals, too.
    pub(super) refusals: Vec<RefusalLog>,
    /// Each sentence is about a process that wrote no report of its last commands.
    pub(super) states: Vec<String>,
    /// A sentence for each report of another version, which was said already.
    pub(super) unreadable: Vec<String>,
    pub(super) known: Option<KnownOfDrivers>,
    pub(super) of_states: Vec<Report>,
    pub(super) symbols: Symbols,
}

pub(super) enum ProcessReport {
    /// The second report is the data for a text, where that differs.
    Layer(Box<Report>, Option<Box<Report>>),
    State(Box<StateEntry>, String),
}

impl Serialize for ProcessReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Layer(report, _) => report.serialize(to),
            Self::State(entry, _) => entry.serialize(to),
        }
    }
}

impl Reports {
    pub(super) fn read(folder: &Path) -> Self {
        let mut reports = Self {
            refusals: paths_with_extension(folder, "refusals")
                .iter()
                .filter_map(|path| RefusalLog::read(path).ok())
                .collect(),
            ..Self::default()
        };
        for path in paths_with_extension(folder, "json") {
            if let Ok(json) = fs::read_to_string(path) {
                reports.add(&json);
            }
        }
        reports
    }

    #[cfg(test)]
    pub(super) fn of(all: Vec<Report>) -> Self {
        let written = all.into_iter().map(|report| ProcessReport::Layer(report.into(), None));
        Self { processes: written.collect(), ..Self::default() }
    }

    pub(super) fn of_layer(&self) -> impl Iterator<Item = &Report> {
        self.processes.iter().filter_map(|process| match process {
            ProcessReport::Layer(report, _) => Some(&**report),
            ProcessReport::State(..) => None,
        })
    }

    pub(super) fn of_layer_mut(&mut self) -> impl Iterator<Item = &mut Report> {
        self.processes.iter_mut().filter_map(|process| match process {
            ProcessReport::Layer(report, _) => Some(&mut **report),
            ProcessReport::State(..) => None,
        })
    }

    /// Without `all_findings`, notes and what is known of the drivers are left out.
    pub(super) fn text(&self, all_findings: bool, columns: usize) -> String {
        let text = |process: &ProcessReport| match process {
            ProcessReport::Layer(report, shown) => {
                let shown = shown.as_ref().unwrap_or(report);
                shown.text(all_findings).width(columns).to_string()
            }
            ProcessReport::State(_, text) => text.clone(),
        };
        let texts: Vec<_> = self.processes.iter().map(text).collect();
        texts.join("\n")
    }

    pub(super) fn has_findings(&self) -> bool {
        self.of_layer().any(Report::has_unknown_findings)
    }

    pub(super) fn drivers(&self) -> Vec<String> {
        let of_report = |report: &Report| match &report.source {
            Source::Program { drivers, .. } => drivers.clone(),
            _ => Vec::new(),
        };
        let mut drivers: Vec<_> = self.of_layer().flat_map(of_report).collect();
        drivers.sort();
        drivers.dedup();
        drivers
    }

    pub(super) fn known(&self) -> Option<KnownOfDrivers> {
        self.known.clone().or_else(|| KnownOfDrivers::of_drivers(&self.drivers()))
    }

    pub(super) fn compare_findings(&mut self) {
        let known = self.known.take();
        for report in self.of_layer_mut() {
            match &known {
                Some(known) => known.name(report),
                None => expectations::name_known(report),
            }
        }
        self.known = known;
    }

    /// The text leaves out the frames of languages' runtimes.
    pub(super) fn name_functions(&mut self) {
        for process in &mut self.processes {
            let ProcessReport::Layer(report, shown) = process else {
                continue;
            };
            if let Some(guard) = &mut report.guard {
                self.symbols.annotate_run(guard);
            }
            if let Some(leaks) = &mut report.leaks {
                leaks.merge();
                let named = self.symbols.name_leaks(leaks);
                *shown = Some(Box::new(Report { leaks: Some(named), ..(**report).clone() }));
            }
        }
    }

    /// A report of another version is noted, and left out.
    pub(super) fn add(&mut self, json: &str) {
        let parsed = serde_json::from_str::<Box<Report>>(json);
        let parsed = parsed.map_err(|error| error.to_string());
        let parsed = parsed.and_then(|report| match report.format.as_str() {
            Report::FORMAT => Ok(report),
            other => Err(format!("{other:?} instead of {:?}", Report::FORMAT)),
        });
        match parsed {
            Ok(report) => self.processes.push(ProcessReport::Layer(report, None)),
            Err(error) => {
                let line = format!("a report cannot be read ({error}): the layer is another version's");
                complain(&line);
                self.unreadable.push(line);
            }
        }
    }

    pub(super) fn write_files(&self, output: &Output, out: &mut dyn Write) -> Result<(), ProgramError> {
        let has_data = !self.processes.is_empty();
        if let Some(file) = output.html.as_ref().filter(|_| has_data) {
            let entries: Vec<_> = self.processes.iter().map(ProcessReport::entry).collect();
            outputs::put(file, html(&entries)?, out)?;
        }
        if output.profile.is_some() && has_data {
            let all = self.of_layer().chain(&self.of_states);
            let all: Vec<_> = all.cloned().collect();
            if all.iter().any(|report| report.leaks.is_some()) {
                outputs::write_profile(output, &all, None, out)?;
            } else {
                complain("no profile: no report has call stacks");
            }
        }
        if let Some(file) = &output.json {
            // Without a report an empty list, lest an older file passes for this run's.
            let json = self.to_json().map_err(io::Error::from)?;
            outputs::put(file, json, out)?;
        }
        Ok(())
    }

    pub(super) fn add_states(&mut self, states: Vec<StateReport>) {
        for state in states {
            self.processes.push(state.written);
            self.states.push(state.sentence);
            self.of_states.extend(state.report);
        }
    }

    fn to_json(&self) -> serde_json::Result<String> {
        match self.processes.as_slice() {
            [one] => report::json(one),
            several => report::json(&several),
        }
    }
}

impl ProcessReport {
    fn entry(&self) -> ReportOrList {
        match self {
            Self::Layer(report, _) => ReportOrList::Report(report.clone()),
            Self::State(state, _) => ReportOrList::Failed(state.failed.clone()),
        }
    }
}

/// The files are in the order of their names.
pub(super) fn paths_with_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(REPORTS)).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension() == Some(OsStr::new(extension)));
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use vk_report::report::{FindingRow, Leaks};

    use super::*;

    #[test]
    fn ly43_a_report_of_another_version_is_said_and_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let reports = folder.path().join(REPORTS);
        fs::create_dir(&reports).expect("a folder");
        let json = |number: u32| {
            let row = FindingRow {
                rule: "V29".to_owned(),
                level: FindingRow::NOTE.to_owned(),
                sentence: number.to_string(),
                ..FindingRow::default()
            };
            let report = Report { findings: vec![row], ..Report::of_stacks(number.into(), 0, &Leaks::default()) };
            report::json(&report).expect("JSON")
        };
        for (file, content) in
            [("11.json", json(11)), ("12.json", json(12)), ("13.json", "{\"layer_format\":1}".to_owned())]
        {
            fs::write(reports.join(file), content).expect("a file");
        }
        let mut read = Reports::read(folder.path());
        assert_eq!((read.processes.len(), read.of_layer().count()), (2, 2));
        assert_eq!(read.unreadable.len(), 1, "of another version");
        read.compare_findings();
        let text = read.text(false, usize::MAX);
        assert_eq!(text.matches("notes: 1, legal (--findings").count(), 2);
        assert!(text.contains("process 12"), "{text}");
    }
}
