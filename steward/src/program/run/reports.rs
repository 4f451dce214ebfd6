//! The reports of the processes of a run.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde_json::Value;
use vk_accounts::guard_run::refused::RefusalLog;
use vk_accounts::report::Report;

use super::environment::REPORTS;
use super::{leaks, state_report};
use crate::symbols::Symbols;

/// Text and JSON of each process, in the order of the files' names.
pub(super) struct Reports {
    pub(super) texts: Vec<String>,
    pub(super) json: Vec<String>,
    /// The planned refusals of each process, also of those without a report.
    pub(super) refusals: Vec<RefusalLog>,
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
        }
    }

    /// Appends the list of live objects and blocks, with names of functions, to each text, and adds the names to the JSON.
    pub(super) fn name_functions(&mut self) {
        let mut symbols = Symbols::default();
        for (text, json) in self.texts.iter_mut().zip(&mut self.json) {
            let Ok(mut report) = serde_json::from_str(json) else {
                continue;
            };
            text.push_str(&leaks::name(&mut report, &mut symbols));
            *json = format!("{report}\n");
        }
    }

    /// Adds a report for each process without a report of its last commands.
    pub(super) fn add_states(&mut self, folder: &Path, child: u32, status: ExitStatus) {
        for state in state_report::of_folder(folder, child, status) {
            self.texts.push(state.text);
            self.json.push(state.json);
        }
    }

    /// The reports that can be parsed.
    pub(super) fn parsed(&self) -> Vec<Report> {
        let reports = self.json.iter().map(|json| Report::of_program(json));
        reports.filter_map(Result::ok).collect()
    }

    /// Reports of the program's format: one as it is, several as an array.
    pub(super) fn to_json(&self) -> String {
        let reports: Vec<_> = self
            .json
            .iter()
            .map(|json| with_program_format(json))
            .collect();
        match reports.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]\n", several.join(",")),
        }
    }
}

/// The layer's report with the members of a report of the program. A report from a state already has them.
fn with_program_format(json: &str) -> String {
    let report = Report::of_program(json).and_then(serde_json::to_value);
    let (Ok(Value::Object(report)), Ok(Value::Object(mut layer))) =
        (report, serde_json::from_str(json))
    else {
        return json.to_owned();
    };
    layer.extend(report);
    format!("{}\n", Value::Object(layer))
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
