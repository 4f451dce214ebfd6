#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::environment::REPORTS;
use super::reports::{Reports, paths_with_extension};
use crate::program::ProgramError;
use crate::program::files::write_trace;

const EXTENSION: &str = "trace";

/// A trace is judged as a whole, so all commands are recorded.
pub(super) fn set_environment(command: &mut Command, folder: &Path) {
    let file = folder.join(REPORTS).join("%p-%t").with_extension(EXTENSION);
    command.env("VK_STEWARD_MEMORY_RECORD", file);
    command.env("VK_STEWARD_MEMORY_BRACKETS", "all");
}

/// Each trace is about the driver if there was one alone.
pub(super) fn read(folder: &Path, reports: &Reports) -> Vec<String> {
    let paths = paths_with_extension(folder, EXTENSION);
    let traces = paths.iter().filter_map(|path| fs::read_to_string(path).ok());
    let drivers = reports.drivers();
    traces
        .map(|trace| match &drivers[..] {
            [driver] => about(&trace, driver),
            _ => trace,
        })
        .collect()
}

fn about(trace: &str, driver: &str) -> String {
    const HEAD: &str = "# driver: ";
    let mut lines: Vec<_> = trace.split_inclusive('\n').collect();
    let line = format!("{HEAD}{driver}\n");
    if let Some(head) = lines.iter_mut().take(3).find(|line| line.starts_with(HEAD)) {
        *head = &line;
    }
    lines.concat()
}

/// The first trace goes to `file`, others to files with `.2`, `.3` and so on behind its name.
pub(super) fn write(traces: &[String], file: &Path) -> Result<Option<String>, ProgramError> {
    for (number, trace) in (1_u32..).zip(traces) {
        let file = match number {
            1 => file.to_owned(),
            number => numbered(file, number),
        };
        write_trace(&file, trace.as_bytes())?;
    }
    let none = || format!("no trace was written to {}: the program ended without a report", file.display());
    Ok(traces.is_empty().then(none))
}

/// `a.trace` and `a.trace.gz` become `a.2.trace` and `a.2.trace.gz`.
fn numbered(file: &Path, number: u32) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let (stem, endings) = name.split_once('.').unwrap_or((&name, ""));
    let dot = if endings.is_empty() { "" } else { "." };
    file.with_file_name(format!("{stem}.{number}{dot}{endings}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{about, numbered};

    #[test]
    fn ly84_a_trace_is_about_the_driver_and_each_process_has_its_own() {
        let trace = "# format: 2\n# driver: llvmpipe\nx\n# driver: y\n";
        assert_eq!(about(trace, "llvmpipe Mesa 22"), "# format: 2\n# driver: llvmpipe Mesa 22\nx\n# driver: y\n");
        for (file, expected) in [("/a/b.trace.gz", "/a/b.2.trace.gz"), ("b", "b.2"), ("./x.t", "./x.2.t")] {
            assert_eq!(numbered(Path::new(file), 2), Path::new(expected));
        }
    }
}
