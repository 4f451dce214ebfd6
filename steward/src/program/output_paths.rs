//! Checks the files of a command line: each may be named once, so that no result overwrites another one or an input.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

use super::{ProgramError, files};
use crate::cli::{Cli, Command};

/// The standard output, or input.
const STANDARD: &str = "-";

/// A file and the option that names it.
struct OutputPaths<'c> {
    by: &'static str,
    file: &'c Path,
    written: bool,
}

/// Checks before any run that all outputs can be written, and are no inputs.
pub(super) fn check(cli: &Cli) -> Result<(), ProgramError> {
    let all = all(cli);
    for (at, one) in all.iter().enumerate() {
        for other in all.iter().take(at) {
            if one.clashes(other) {
                let [first, second] = [other.by, one.by].map(str::to_owned);
                return Err(ProgramError::SameFile {
                    first,
                    second,
                    file: one.file.display().to_string(),
                });
            }
        }
        if one.is_standard() && matches!(one.by, "--record" | "--write-expect" | "--text") {
            return Err(ProgramError::NoFile {
                by: one.by.to_owned(),
            });
        }
    }
    let read = all
        .iter()
        .filter(|named| !named.written && named.is_standard());
    if read.count() > 1 {
        return Err(ProgramError::ReadTwice);
    }
    all.iter()
        .filter(|named| named.written && !named.is_standard())
        .try_for_each(|named| files::check(named.file))
}

/// All files, inputs first: errors name them first.
fn all<'c>(cli: &'c Cli) -> Vec<OutputPaths<'c>> {
    let mut all = Vec::new();
    let mut add = |by, written, file: Option<&'c Path>| {
        all.extend(file.map(|file| OutputPaths { by, file, written }))
    };
    fn path(text: &str) -> Option<&Path> {
        Some(Path::new(text))
    }
    match &cli.command {
        Some(Command::Replay(options)) => add("the trace", false, path(&options.file)),
        Some(Command::Symbols(options)) => add("the reports", false, path(&options.file)),
        Some(Command::Diff(options)) => {
            add("the report before", false, path(&options.before));
            add("the report after", false, path(&options.after));
        }
        Some(Command::Check(options)) => {
            add("--driver", false, manifest(options.driver.as_deref()));
            add("--trace", false, options.trace.as_deref().and_then(path));
            add("--expect", false, options.expect.as_deref().and_then(path));
            add("--write-expect", true, options.write_expect.as_deref());
        }
        Some(Command::Drive(options)) => {
            add("--driver", false, manifest(options.driver.as_deref()));
            add("--record", true, options.record.as_deref());
        }
        Some(Command::Run(options)) => {
            add("--expect", false, options.expect.as_deref().and_then(path));
            add("--write-expect", true, options.write_expect.as_deref());
            add("--text", true, options.text.as_deref());
            add("--record", true, options.record.as_deref());
        }
        _ => {}
    }
    add("--json", true, cli.output.json.as_deref());
    add("--html", true, cli.output.html.as_deref());
    add("--profile", true, cli.output.profile.as_deref());
    all
}

/// A driver that is named by the path of its manifest.
fn manifest(driver: Option<&str>) -> Option<&Path> {
    driver.filter(|driver| driver.contains('/')).map(Path::new)
}

impl OutputPaths<'_> {
    fn is_standard(&self) -> bool {
        self.file == Path::new(STANDARD)
    }

    /// Whether writing one file would destroy the other.
    fn clashes(&self, other: &Self) -> bool {
        match (self.written, other.written) {
            (false, false) => false,
            (true, true) if self.file == other.file => self.file != Path::new("/dev/null"),
            // The standard input and output are different streams.
            _ if self.is_standard() || other.is_standard() => false,
            _ => {
                matches!((place(self.file), place(other.file)), (Some(one), Some(other)) if one == other)
            }
        }
    }
}

/// The real path of a file, also before it exists; none for a terminal or a pipe.
fn place(file: &Path) -> Option<PathBuf> {
    match fs::canonicalize(file) {
        Ok(there) => there.is_file().then_some(there),
        Err(_) => {
            let folder = file
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            Some(fs::canonicalize(folder).ok()?.join(file.file_name()?))
        }
    }
}
