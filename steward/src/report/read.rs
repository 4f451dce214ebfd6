#![forbid(unsafe_code)]

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use vk_report::report::{Leaks, Report};

use crate::expectations::CheckSummary;
use crate::input;

/// One driver's part of a file; `--driver all` writes a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ReportOrList {
    /// The driver ran.
    Report(Box<Report>),
    /// The driver could not be run.
    Failed(Failed),
}

/// A driver that could not be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// [`Report::FORMAT`].
    pub format: String,
    /// The driver's name.
    pub driver: String,
    /// Why, in one sentence.
    pub error: String,
    /// What was alive when a program ended without a report, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaks: Option<Leaks>,
}

/// A driver that was checked, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDriver {
    /// The driver's report or failure.
    pub report: ReportOrList,
    /// The result; none without a report.
    pub check: Option<CheckSummary>,
}

impl CheckedDriver {
    /// A driver that could not be run, as data of this format says it.
    #[must_use]
    pub fn failed(format: &str, driver: &str, error: &str) -> Self {
        Self {
            report: ReportOrList::Failed(Failed {
                format: format.to_owned(),
                driver: driver.to_owned(),
                error: error.to_owned(),
                leaks: None,
            }),
            check: None,
        }
    }
}

/// Why a report could not be read: one sentence with the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is missing or unreadable.
    #[error("{file} cannot be read ({reason}): name a file that `--json` wrote")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The file is no JSON, is cut off, or has something unexpected.
    #[error("{file}, line {line}, column {column}{}: {reason}: name a whole file that `--json` wrote", Field(path))]
    Malformed {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1 where there is one.
        column: usize,
        /// The path of the field, such as `phases[3].live_bytes`; empty if the text is no JSON.
        path: String,
        /// The error.
        reason: String,
    },
    /// The file is other JSON.
    #[error(
        "{file}{} is {found}, and `{}` is what can be read: write it again with `--json` of this program",
        Field(path),
        Report::FORMAT
    )]
    OtherFormat {
        /// The file.
        file: String,
        /// The entry of a list, such as `[2]`.
        path: String,
        /// The format that it declares.
        found: String,
    },
}

struct Field<'p>(&'p str);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ", {}", self.0) }
    }
}

impl ReportOrList {
    /// Reads a file: one report, or a list of them. `-` is the standard input.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(file: &str) -> Result<Vec<Self>, ReadError> {
        let (name, bytes) = input::read(file);
        Self::parse(name, &bytes.map_err(|reason| ReadError::Unreadable { file: name.to_owned(), reason })?)
    }

    /// As [`ReportOrList::read`], from the bytes of `file`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Vec<Self>, ReadError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let (before, _) = bytes.split_at(error.valid_up_to());
            let Place { line, column } = Place::FIRST.after(before);
            ReadError::Malformed {
                file: file.to_owned(),
                line,
                column,
                path: String::new(),
                reason: "this is no UTF-8".into(),
            }
        })?;
        let no_json = |error| malformed(file, Place::FIRST, "", error);
        let (mut at, mut passed) = (Place::FIRST, 0);
        // Parts come in order, so each stretch of the text is read once.
        let mut one = |part: &RawValue, path: &str| {
            let begin = part.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
            at = at.after(text.as_bytes().get(passed..begin).unwrap_or_default());
            passed = begin;
            one(file, part, at, path)
        };
        if text.trim_start().starts_with('[') {
            let parts: Vec<&RawValue> = serde_json::from_str(text).map_err(no_json)?;
            return parts.iter().enumerate().map(|(nth, part)| one(part, &format!("[{nth}]"))).collect();
        }
        let part: &RawValue = serde_json::from_str(text).map_err(no_json)?;
        Ok(vec![one(part, "")?])
    }
}

#[derive(Deserialize)]
struct Probe {
    format: Option<String>,
    error: Option<String>,
}

fn one(file: &str, part: &RawValue, at: Place, path: &str) -> Result<ReportOrList, ReadError> {
    let part = part.get();
    let other =
        |found: &str| ReadError::OtherFormat { file: file.to_owned(), path: path.to_owned(), found: found.to_owned() };
    if !part.starts_with('{') {
        return Err(other("no object"));
    }
    let probe: Probe = typed(file, part, at, path)?;
    match probe.format.as_deref() {
        Some(Report::FORMAT) if probe.error.is_some() => Ok(ReportOrList::Failed(typed(file, part, at, path)?)),
        Some(Report::FORMAT) => Ok(ReportOrList::Report(typed(file, part, at, path)?)),
        Some(format) => Err(other(&format!("{format:?}"))),
        None => Err(other("without a `format`")),
    }
}

fn typed<'t, T: Deserialize<'t>>(file: &str, part: &'t str, at: Place, path: &str) -> Result<T, ReadError> {
    let mut json = serde_json::Deserializer::from_str(part);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let inner = error.path().to_string();
        let path = match (path, inner.as_str()) {
            (_, ".") => path.to_owned(),
            ("", _) => inner,
            _ => format!("{path}.{inner}"),
        };
        malformed(file, at, &path, error.into_inner())
    })
}

/// The place of an error in the whole file, from its place in a part that begins at `at`.
fn malformed(file: &str, at: Place, path: &str, error: serde_json::Error) -> ReadError {
    let Place { line, column } = at;
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    let column = if error.line() <= 1 { (column + error.column()).saturating_sub(1) } else { error.column() };
    ReadError::Malformed {
        file: file.to_owned(),
        line: line + error.line().saturating_sub(1),
        column,
        path: path.to_owned(),
        reason,
    }
}

#[derive(Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    const FIRST: Self = Self { line: 1, column: 1 };

    fn after(self, text: &[u8]) -> Self {
        let feeds = text.iter().filter(|byte| **byte == b'\n').count();
        let last = text.iter().rev().take_while(|byte| **byte != b'\n').count();
        Self { line: self.line + feeds, column: if feeds == 0 { self.column + last } else { last + 1 } }
    }
}
