use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use vk_report::report::origins::{EventLog, SiteRecorder};
use vk_report::report::{self, Report};

use super::terminal::Terminal;
use super::{ProgramError, files};
use crate::cli::Output;
use crate::profile::{ProfileFormat, ProfileInput, profile};
use crate::symbols::Symbols;
use crate::workload_child::Stacks;

/// Prints the text even if a file cannot be written, and writes files even if the output is closed.
pub(super) fn write(
    output: &Output,
    text: &dyn Display,
    json: &impl Serialize,
    page: impl FnOnce() -> Result<String, ProgramError>,
    out: &mut dyn Write,
) -> Result<(), ProgramError> {
    let printed = if is_for_programs(output) {
        Ok(())
    } else {
        let text = Terminal::of_standard_output().rendered(&text.to_string());
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    let mut written = Ok(());
    if let Some(file) = &output.json {
        let json = report::json(json).map_err(|error| files::unwritable(file, error.into()))?;
        written = put(file, json, out);
    }
    if let Some(file) = &output.html {
        written = written.and(page().and_then(|page| put(file, page, out)));
    }
    written.and(printed.map_err(ProgramError::from))
}

pub(super) fn write_data(
    json: &Option<PathBuf>,
    text: &dyn Display,
    data: &impl Serialize,
    out: &mut dyn Write,
) -> Result<(), ProgramError> {
    let output = Output { json: json.clone(), ..Output::default() };
    write(&output, text, data, || Ok(String::new()), out)
}

pub(super) fn recorder(output: &Output) -> SiteRecorder {
    let format = output.profile.as_deref().map(ProfileFormat::of);
    let recorder = SiteRecorder::default();
    if format == Some(ProfileFormat::Firefox) { recorder.with_events() } else { recorder }
}

pub(super) fn stacks(output: &Output) -> Stacks {
    match output.profile.as_deref().map(ProfileFormat::of) {
        Some(ProfileFormat::Firefox) => Stacks::Events,
        _ => Stacks::Blocks,
    }
}

pub(super) fn write_profile(
    output: &Output,
    reports: &[Report],
    events: Option<&EventLog>,
    out: &mut dyn Write,
) -> Result<(), ProgramError> {
    let Some(file) = &output.profile else {
        return Ok(());
    };
    let input = ProfileInput { reports, events };
    let text = profile(input, ProfileFormat::of(file)).map_err(|error| files::unwritable(file, error.into()))?;
    put(file, text, out)
}

pub(super) fn name_sites(report: &mut Report) {
    if let Some(sites) = &mut report.call_sites {
        Symbols::default().name_call_sites(sites);
    }
}

fn files(output: &Output) -> impl Iterator<Item = &PathBuf> {
    [&output.json, &output.html, &output.profile].into_iter().flatten()
}

pub(super) fn has_files(output: &Output) -> bool {
    files(output).next().is_some()
}

pub(super) fn is_for_programs(output: &Output) -> bool {
    files(output).any(|file| is_standard(file))
}

pub(super) fn put(file: &Path, text: String, out: &mut dyn Write) -> Result<(), ProgramError> {
    if is_standard(file) {
        return Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?);
    }
    files::write_and_say(file, text.as_bytes())
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}
