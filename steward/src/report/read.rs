#![forbid(unsafe_code)]

use std::fmt;
use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    #[error("{file}{}: {reason}: name a whole file that `--json` wrote", Field(path))]
    Malformed {
        /// The file.
        file: String,
        /// The path of the field, such as `phases[3].live_bytes`; empty if the text is no JSON.
        path: String,
        /// The error, of a text that is no JSON with its line and column.
        reason: serde_json::Error,
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
        let no_json = |reason| ReadError::Malformed { file: file.to_owned(), path: String::new(), reason };
        match serde_json::from_slice(bytes).map_err(no_json)? {
            Value::Array(parts) => (0..).zip(parts).map(|(nth, part)| one(file, part, &format!("[{nth}]"))).collect(),
            part => Ok(vec![one(file, part, "")?]),
        }
    }
}

fn one(file: &str, part: Value, path: &str) -> Result<ReportOrList, ReadError> {
    let found = match (&part["format"], &part) {
        (Value::String(format), _) if format == Report::FORMAT && !part["error"].is_null() => {
            return typed(file, part, path).map(ReportOrList::Failed);
        }
        (Value::String(format), _) if format == Report::FORMAT => {
            return typed(file, part, path).map(ReportOrList::Report);
        }
        (Value::Null, Value::Object(_)) => "without a `format`".to_owned(),
        (_, Value::Object(_)) => part["format"].to_string(),
        _ => "no object".to_owned(),
    };
    Err(ReadError::OtherFormat { file: file.to_owned(), path: path.to_owned(), found })
}

fn typed<T: DeserializeOwned>(file: &str, part: Value, path: &str) -> Result<T, ReadError> {
    serde_path_to_error::deserialize(part).map_err(|error| {
        let inner = error.path().to_string();
        let parts = [path, if inner == "." { "" } else { &inner }];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        ReadError::Malformed { file: file.to_owned(), path: parts.join("."), reason: error.into_inner() }
    })
}
