//! Where results go: text, JSON, a page; to files, or one of them to the standard output instead of the text.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use vk_accounts::report;

use super::{ProgramError, files};
use crate::cli::Output;

/// Writes the results: prints also where a file cannot be written, and writes files also where nobody reads on.
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
        write!(out, "{text}").and_then(|()| out.flush())
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

/// True where the standard output is for JSON, or a page, and so not for text.
pub(super) fn is_for_programs(output: &Output) -> bool {
    [&output.json, &output.html]
        .into_iter()
        .flatten()
        .any(|file| is_standard(file))
}

/// Where there is nothing to draw.
pub(super) fn no_page() -> Result<String, ProgramError> {
    Err(ProgramError::NoPage)
}

/// Writes to the file, or to the standard output where that is meant.
pub(super) fn put(file: &Path, text: String, out: &mut dyn Write) -> Result<(), ProgramError> {
    if is_standard(file) {
        return Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?);
    }
    files::write_whole(file, text.as_bytes())
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}
