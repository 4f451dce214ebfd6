//! The system's text: units of 16 bits.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};

/// With the 0 at its end.
pub(super) fn to_wide(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain([0]).collect()
}

/// Up to the first 0.
pub(super) fn from_wide(units: &[u16]) -> OsString {
    let end = units.iter().position(|unit| *unit == 0);
    OsString::from_wide(units.get(..end.unwrap_or(units.len())).unwrap_or_default())
}
