//! The reports of the processes of a run.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
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

/// The reports of a run's processes, in the order of the files' names.
#[derive(Default)]
pub(super) struct Reports {
    pub(super) processes: Vec<ProcessReport>,
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

/// The report of one process. Each part is empty if the process did not write it.
#[derive(Default)]
pub(super) struct ProcessReport {
    pub(super) text: String,
    pub(super) json: String,
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
            processes: of_processes(folder),
            refusals: paths_with_extension(folder, "refusals")
                .iter()
                .filter_map(|path| RefusalLog::read(path).ok())
                .collect(),
            ..Self::default()
        }
    }

    #[cfg(test)]
    pub(super) fn of_json(json: Vec<String>) -> Self {
        let written = json.into_iter().map(|json| ProcessReport {
            json,
            ..ProcessReport::default()
        });
        Self {
            processes: written.collect(),
            ..Self::default()
        }
    }

    /// The JSON of each process that wrote it.
    pub(super) fn json(&self) -> impl Iterator<Item = &str> {
        let all = self.processes.iter().map(|process| &*process.json);
        all.filter(|json| !json.is_empty())
    }

    pub(super) fn has_json(&self) -> bool {
        self.json().next().is_some()
    }

    /// All texts, one below the other.
    pub(super) fn text(&self) -> String {
        let texts = self.processes.iter().map(|process| &*process.text);
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Changes the JSON of each report that can be read.
    pub(super) fn change(&mut self, change: impl Fn(&LayerReport, &mut Value)) {
        for ProcessReport { json, .. } in &mut self.processes {
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
        let mut reports = self.json().filter_map(LayerReport::read);
        reports.any(|report| {
            report
                .findings()
                .iter()
                .any(|row| row.level != FindingRow::NOTE)
        })
    }

    /// The drivers of all reports, each once.
    pub(super) fn drivers(&self) -> Vec<String> {
        let reports = self.json().filter_map(LayerReport::read);
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
        for ProcessReport { text, json } in &mut self.processes {
            if let Some(report) = LayerReport::read(json) {
                super::known::shorten(text, &report, known.as_ref(), all);
            }
        }
    }

    /// Appends the list of live objects and blocks, with names of functions, to each text, and adds the names to the JSON.
    pub(super) fn name_functions(&mut self) {
        for ProcessReport { text, json } in &mut self.processes {
            let Ok(mut report) = serde_json::from_str(json) else {
                continue;
            };
            text.push_str(&leaks::name(&mut report, &mut self.symbols));
            *json = format!("{report}\n");
        }
    }

    /// Adds the report that a process has written on request.
    pub(super) fn add(&mut self, answer: Answer) {
        let json = answer.json.unwrap_or_default();
        self.processes.push(ProcessReport {
            text: answer.text.unwrap_or_else(|| text_of(&json)),
            json,
        });
    }

    /// Writes page, profile and JSON where the options name them.
    pub(super) fn write_files(
        &self,
        output: &Output,
        out: &mut dyn Write,
    ) -> Result<(), ProgramError> {
        let json = self.to_json();
        if let Some(file) = output.html.as_ref().filter(|_| self.has_json()) {
            let entries = ReportOrList::parse("the layer's report", json.as_bytes())?;
            outputs::put(file, html_knowing(&entries, self.known.as_ref())?, out)?;
        }
        if output.profile.is_some() && self.has_json() {
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
            self.processes.push(state.written);
            self.states.push(state.sentence);
            self.of_states.extend(state.report);
        }
    }

    /// The reports that can be parsed, and the stacks of processes without one.
    pub(super) fn parsed(&self) -> Vec<Report> {
        let reports = self.json().map(|json| self.report(json));
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
        let reports = self.json().map(|json| self.with_program_format(json));
        let reports: Vec<_> = reports.collect();
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

/// Text and JSON of one process are those with its number: one of them may be missing.
fn of_processes(folder: &Path) -> Vec<ProcessReport> {
    let mut processes = BTreeMap::<_, ProcessReport>::new();
    for extension in ["txt", "json"] {
        for path in paths_with_extension(folder, extension) {
            let (Some(name), Ok(read)) = (path.file_stem(), fs::read_to_string(&path)) else {
                continue;
            };
            let process = processes.entry(name.to_owned()).or_default();
            if extension == "txt" {
                process.text = read;
            } else {
                process.json = read;
            }
        }
    }
    let mut processes: Vec<_> = processes.into_values().collect();
    for process in processes.iter_mut().filter(|it| it.text.is_empty()) {
        process.text = text_of(&process.json);
    }
    processes
}

/// The text for a report of which there is JSON alone; empty where that cannot be read.
fn text_of(json: &str) -> String {
    let report = Report::of_program(json).ok();
    report.map_or_else(String::new, |report| report.text(false).to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ly43_text_and_json_of_a_process_belong_together_where_one_of_them_is_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let reports = folder.path().join(REPORTS);
        fs::create_dir(&reports).expect("a folder");
        let json = |number: u32| {
            let row = serde_json::json!({
                "rule": "V29", "kind": "CacheAsObject", "level": "note", "owner": "VkPipelineCache", "command": "vkCreatePipelineCache",
                "scope": "object", "sentence": format!("V29: {number}"), "count": 1, "bytes": 0, "first_serial": 1,
            });
            serde_json::json!({ "check": { "findings": [row], "lost": 0 } }).to_string()
        };
        let text = |number: u32| format!("{number}\n\nFindings: 1\n  note: V29: {number}\n");
        // The first wrote no JSON, the last one no text: a full disk, or a signal between the two.
        for (file, content) in [
            ("10.txt", text(10)),
            ("11.txt", text(11)),
            ("11.json", json(11)),
            ("12.json", json(12)),
        ] {
            fs::write(reports.join(file), content).expect("a file");
        }
        let mut read = Reports::read(folder.path());
        let count = |read: &Reports| (read.processes.len(), read.json().count());
        assert_eq!(count(&read), (3, 2));
        read.shorten_findings(false);
        let [first, both, last] = &*read.processes else {
            panic!("three processes");
        };
        assert_eq!(first.text, text(10));
        let shortened = "11\n\nFindings: 1 note, legal (--findings lists them)\n";
        assert_eq!(both.text, shortened);
        assert_eq!(last.text, "");
    }
}
