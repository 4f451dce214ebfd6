//! Where a report goes.

#![forbid(unsafe_code)]

use alloc_core::TryString;

use super::table::InvalidValue;
use crate::file_name;
use crate::record::Own;

/// Where a report goes.
pub(crate) enum Target {
    ErrorOutput,
    /// A pattern for [`file_name::expand`].
    File(TryString<Own>),
}

impl Target {
    /// Parses a target; `-` is the error output.
    pub(crate) fn new(name: &str) -> Result<Self, InvalidValue> {
        if name == "-" {
            return Ok(Self::ErrorOutput);
        }
        file_name::pattern(name).map(Self::File)
    }
}
