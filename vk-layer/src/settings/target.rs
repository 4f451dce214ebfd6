//! Where a report goes.

#![forbid(unsafe_code)]

use alloc_core::TryString;

use super::table::InvalidValue;
use crate::file_name;
use crate::record::Own;

/// Where a report goes.
pub(crate) enum Target {
    ErrorOutput,
    /// A name, as [`file_name::expand`] takes it.
    File(TryString<Own>),
}

impl Target {
    /// `-` is the error output.
    pub(crate) fn new(name: &str) -> Result<Self, InvalidValue> {
        if name == "-" {
            return Ok(Self::ErrorOutput);
        }
        file_name::pattern(name).map(Self::File)
    }
}
