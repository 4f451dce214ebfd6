#![forbid(unsafe_code)]

use std::io;

use serde::Serialize;
use serde::ser::Error as _;

/// Writes the text of a file for programs: `value`, a report or a list of them, with indents, and a line feed at the
/// end. Each call of `writer` gets whole characters.
///
/// # Errors
/// The writer's; a value that JSON cannot express, which a report never is.
pub fn write_json(value: &impl Serialize, writer: &mut impl io::Write) -> serde_json::Result<()> {
    serde_json::to_writer_pretty(&mut *writer, value)?;
    writer.write_all(b"\n").map_err(serde_json::Error::io)
}

/// The text that [`write_json`] writes.
///
/// # Errors
/// As [`write_json`].
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    write_json(value, &mut text)?;
    String::from_utf8(text).map_err(serde_json::Error::custom)
}
