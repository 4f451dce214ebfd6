//! The system's text: units of 16 bits.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::windows::ffi::OsStringExt as _;

/// Up to the first 0.
pub(super) fn from_wide(units: &[u16]) -> OsString {
    let end = units.iter().position(|unit| *unit == 0);
    OsString::from_wide(units.get(..end.unwrap_or(units.len())).unwrap_or_default())
}
