//! The reports that the processes of a run have left.

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

/// One of each form a process, in the order of the files' names.
pub(super) struct Reports {
    pub(super) texts: Vec<String>,
    pub(super) json: Vec<String>,
    /// What each process was refused on purpose, of those that wrote no report too.
    pub(super) refusals: Vec<RefusalLog>,
}

impl Reports {
    /// What lies in the run's folder.
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

    /// Puts what is alive behind the text of each process, with the names of functions; and the names into the JSON.
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

    /// Adds a report for each process that has written none for its last commands.
    pub(super) fn add_states(&mut self, folder: &Path, child: u32, status: ExitStatus) {
        for state in state_report::of_folder(folder, child, status) {
            self.texts.push(state.text);
            self.json.push(state.json);
        }
    }

    /// Each report of a process that can be read.
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

/// What the layer wrote, with the members that a report of the program has. A report from a state has them.
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
