//! Reports as JSON.

#![forbid(unsafe_code)]

use serde::Serialize;

/// The text of a file for programs: `value`, a report or a list of them, with indents, and a line feed at the end.
///
/// # Errors
/// A value that JSON cannot express; a report never is.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| text + "\n")
}
