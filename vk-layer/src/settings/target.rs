#![forbid(unsafe_code)]

use alloc_core::TryString;

use super::table::InvalidValue;
use crate::file_name;
use crate::record::Own;

pub(crate) enum Target {
    ErrorOutput,
    Nowhere,
    File(TryString<Own>),
}

impl Target {
    /// `-` is the error output, and `none` overrides what a later source says.
    pub(crate) fn new(name: &str) -> Result<Self, InvalidValue> {
        match name {
            "-" => Ok(Self::ErrorOutput),
            "none" => Ok(Self::Nowhere),
            _ => file_name::pattern(name).map(Self::File),
        }
    }
}
