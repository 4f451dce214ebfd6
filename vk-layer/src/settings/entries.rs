#![forbid(unsafe_code)]

use alloc_core::{HostError, TryString, TryVec};

use super::table::{ENVIRONMENT_PREFIX, FILE_PREFIX};
use crate::record::{Own, own};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    CreateInfo,
    Environment,
    File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Boolean,
    Number,
    Fault,
}

pub(super) struct Entry {
    pub(super) source: Source,
    pub(super) name: TryString<Own>,
    pub(super) form: Form,
    pub(super) value: TryString<Own>,
}

/// Of two entries with one name the first is used.
pub(super) type Entries = TryVec<Entry, Own>;

/// A blank value sets nothing.
pub(super) fn push(
    entries: &mut Entries,
    source: Source,
    name: &str,
    form: Form,
    value: &str,
) -> Result<(), HostError> {
    let mut small = TryString::new_in(own());
    for letter in name.chars() {
        small.try_push(letter.to_ascii_lowercase())?;
    }
    let entry = Entry { source, name: small, form, value: TryString::try_from_str_in(value.trim(), own())? };
    entries.try_push(entry).map_err(|refused| refused.error)
}

pub(super) fn push_variable(entries: &mut Entries, variable: &str) -> Result<(), HostError> {
    let Some((name, value)) = variable.split_once('=') else {
        return Ok(());
    };
    match name.strip_prefix(ENVIRONMENT_PREFIX) {
        Some(name) => push(entries, Source::Environment, name, Form::Text, value),
        None => Ok(()),
    }
}

/// Lines are `steward_memory.name = value`, and `#` begins a comment. Other lines, and those that are not UTF-8, are
/// ignored.
pub(super) fn push_file(entries: &mut Entries, file: &[u8]) -> Result<(), HostError> {
    for line in file.split(|byte| *byte == b'\n') {
        let Ok(line) = str::from_utf8(line) else {
            continue;
        };
        let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
        let Some(line) = line.strip_prefix(FILE_PREFIX) else {
            continue;
        };
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        push(entries, Source::File, name.trim(), Form::Text, value)?;
    }
    Ok(())
}

pub(super) fn full_name(entry: &Entry) -> Result<TryString<Own>, HostError> {
    let mut name = TryString::new_in(own());
    if entry.source == Source::Environment {
        name.try_push_str(ENVIRONMENT_PREFIX)?;
        for letter in entry.name.chars() {
            name.try_push(letter.to_ascii_uppercase())?;
        }
    } else {
        name.try_write_fmt(format_args!("{FILE_PREFIX}{}", entry.name.as_str()))?;
    }
    Ok(name)
}
