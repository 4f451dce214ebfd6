//! The reports of the processes of a run.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use vk_accounts::guard_run::refused::RefusalLog;
use vk_accounts::report::{FindingRow, Report};

use super::environment::REPORTS;
use super::state_report::StateReport;
use super::{complain, leaks};
use crate::cli::Output;
use crate::expectations::{self, KnownOfDrivers};
use crate::program::requests::Answer;
use crate::program::{ProgramError, outputs};
use crate::report::{ReportOrList, html_knowing};
use crate::symbols::Symbols;

/// Text and JSON of each process, in the order of the files' names.
#[derive(Default)]
pub(super) struct Reports {
    pub(super) texts: Vec<String>,
    pub(super) json: Vec<String>,
    /// The planned refusals of each process, also of those without a report.
    pub(super) refusals: Vec<RefusalLog>,
    /// How each process ended that wrote no report of its last commands, in a sentence.
    pub(super) states: Vec<String>,
    /// What may be found, if `--expect` names it.
    pub(super) known: Option<KnownOfDrivers>,
    /// The stacks of processes without a report.
    pub(super) of_states: Vec<Report>,
    pub(super) symbols: Symbols,
}

/// The part of a layer's report that the program itself uses.
#[derive(Deserialize)]
pub(super) struct LayerReport {
    #[serde(default)]
    instances: Vec<LayerInstance>,
    #[serde(default)]
    drivers: Vec<String>,
    pub(super) check: Option<LayerCheck>,
}

#[derive(Deserialize)]
pub(super) struct LayerCheck {
    pub(super) findings: Vec<FindingRow>,
    pub(super) lost: u64,
}

#[derive(Deserialize)]
struct LayerInstance {
    kinds: Vec<LayerKind>,
    devices: Vec<LayerDevice>,
}

#[derive(Deserialize)]
struct LayerDevice {
    kinds: Vec<LayerKind>,
    heaps: Vec<LayerHeap>,
    description: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct LayerKind {
    pub(super) kind: String,
    pub(super) objects_alive: u64,
    pub(super) live_blocks: u64,
}

#[derive(Deserialize)]
struct LayerHeap {
    live_bytes: u64,
}

impl LayerReport {
    /// `None` for a report of a state, or of another version.
    pub(super) fn read(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The rows of all instances and devices.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &LayerKind> {
        self.instances.iter().flat_map(|instance| {
            let of_devices = instance.devices.iter().flat_map(|device| &device.kinds);
            instance.kinds.iter().chain(of_devices)
        })
    }

    pub(super) fn live_device_memory(&self) -> u64 {
        let devices = self.instances.iter().flat_map(|instance| &instance.devices);
        let heaps = devices.flat_map(|device| &device.heaps);
        heaps
            .map(|heap| heap.live_bytes)
            .fold(0, u64::saturating_add)
    }

    /// The descriptions of its devices.
    pub(super) fn devices(&self) -> Vec<&str> {
        let devices = self.instances.iter().flat_map(|instance| &instance.devices);
        devices
            .filter_map(|device| device.description.as_deref())
            .collect()
    }

    /// The drivers of these devices, if they were noted.
    pub(super) fn drivers(&self) -> &[String] {
        &self.drivers
    }

    pub(super) fn findings(&self) -> &[FindingRow] {
        self.check.as_ref().map_or(&[], |check| &check.findings)
    }
}

impl Reports {
    /// Reads the run's folder.
    pub(super) fn read(folder: &Path) -> Self {
        Self {
            texts: with_extension(folder, "txt"),
            json: with_extension(folder, "json"),
            refusals: paths_with_extension(folder, "refusals")
                .iter()
                .filter_map(|path| RefusalLog::read(path).ok())
                .collect(),
            ..Self::default()
        }
    }

    /// Changes the JSON of each report that can be read.
    pub(super) fn change(&mut self, change: impl Fn(&LayerReport, &mut Value)) {
        for json in &mut self.json {
            if let (Some(report), Ok(mut value)) =
                (LayerReport::read(json), serde_json::from_str(json))
            {
                change(&report, &mut value);
                *json = format!("{value}\n");
            }
        }
    }

    /// Whether a report has a violation or suspect.
    pub(super) fn has_findings(&self) -> bool {
        let reports = self.json.iter().filter_map(|json| LayerReport::read(json));
        reports.into_iter().any(|report| {
            report
                .findings()
                .iter()
                .any(|row| row.level != FindingRow::NOTE)
        })
    }

    /// The drivers of all reports, each once.
    pub(super) fn drivers(&self) -> Vec<String> {
        let reports = self.json.iter().filter_map(|json| LayerReport::read(json));
        let mut drivers: Vec<_> = reports
            .flat_map(|report| report.drivers().to_vec())
            .collect();
        drivers.sort();
        drivers.dedup();
        drivers
    }

    /// What may be found: what `--expect` names, or else what is known of the drivers.
    pub(super) fn known(&self) -> Option<KnownOfDrivers> {
        self.known
            .clone()
            .or_else(|| KnownOfDrivers::of_drivers(&self.drivers()))
    }

    /// See [`known::shorten`](super::known::shorten).
    pub(super) fn shorten_findings(&mut self, all: bool) {
        let known = self.known();
        for (text, json) in self.texts.iter_mut().zip(&self.json) {
            if let Some(report) = LayerReport::read(json) {
                super::known::shorten(text, &report, known.as_ref(), all);
            }
        }
    }

    /// Appends the list of live objects and blocks, with names of functions, to each text, and adds the names to the JSON.
    pub(super) fn name_functions(&mut self) {
        for (text, json) in self.texts.iter_mut().zip(&mut self.json) {
            let Ok(mut report) = serde_json::from_str(json) else {
                continue;
            };
            text.push_str(&leaks::name(&mut report, &mut self.symbols));
            *json = format!("{report}\n");
        }
    }

    /// Adds the report that a process has written on request.
    pub(super) fn add(&mut self, answer: Answer) {
        let from_json = |json: &str| {
            let report = Report::of_program(json).ok();
            report.map(|report| report.text(false).to_string())
        };
        let text = answer
            .text
            .or_else(|| answer.json.as_deref().and_then(from_json));
        self.texts.push(text.unwrap_or_default());
        self.json.push(answer.json.unwrap_or_default());
    }

    /// Writes page, profile and JSON where the options name them.
    pub(super) fn write_files(
        &self,
        output: &Output,
        out: &mut dyn Write,
    ) -> Result<(), ProgramError> {
        let json = self.to_json();
        if let Some(file) = output.html.as_ref().filter(|_| !self.json.is_empty()) {
            let entries = ReportOrList::parse("the layer's report", json.as_bytes())?;
            outputs::put(file, html_knowing(&entries, self.known.as_ref())?, out)?;
        }
        if output.profile.is_some() && !self.json.is_empty() {
            let parsed = self.parsed();
            if parsed.iter().any(|report| report.leaks.is_some()) {
                outputs::write_profile(output, &parsed, None, out)?;
            } else {
                complain("no profile: no report has call stacks");
            }
        }
        if let Some(file) = &output.json {
            // Without a report an empty list, lest an older file passes for this run's.
            outputs::put(file, json, out)?;
        }
        Ok(())
    }

    /// Adds the reports of processes without one of their last commands.
    pub(super) fn add_states(&mut self, states: Vec<StateReport>) {
        for state in states {
            self.texts.push(state.text);
            self.json.push(state.json);
            self.states.push(state.sentence);
            self.of_states.extend(state.report);
        }
    }

    /// The reports that can be parsed, and the stacks of processes without one.
    pub(super) fn parsed(&self) -> Vec<Report> {
        let reports = self.json.iter().map(|json| self.report(json));
        let reports = reports.filter_map(Result::ok);
        reports.chain(self.of_states.iter().cloned()).collect()
    }

    fn report(&self, json: &str) -> serde_json::Result<Report> {
        let mut report = Report::of_program(json)?;
        match &self.known {
            Some(known) => report.known_findings = Some(known.count(&report.findings)),
            None => expectations::name_known(&mut report),
        }
        Ok(report)
    }

    /// Reports of the program's format: one as it is, several or none as an array.
    pub(super) fn to_json(&self) -> String {
        let reports: Vec<_> = self
            .json
            .iter()
            .map(|json| self.with_program_format(json))
            .collect();
        match reports.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]\n", several.join(",")),
        }
    }

    /// The layer's report with the members of a report of the program. A report from a state already has them.
    fn with_program_format(&self, json: &str) -> String {
        let report = self.report(json).and_then(serde_json::to_value);
        let (Ok(Value::Object(report)), Ok(Value::Object(mut layer))) =
            (report, serde_json::from_str(json))
        else {
            return json.to_owned();
        };
        layer.remove("drivers");
        layer.extend(report);
        format!("{}\n", Value::Object(layer))
    }
}

fn with_extension(folder: &Path, extension: &str) -> Vec<String> {
    paths_with_extension(folder, extension)
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

/// The files of the run's reports with this extension, in the order of their names.
pub(super) fn paths_with_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(REPORTS))
        .into_iter()
        .flatten()
        .flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension() == Some(OsStr::new(extension)));
    paths.sort();
    paths
}
