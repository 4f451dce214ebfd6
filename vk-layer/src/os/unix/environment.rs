use std::ffi::{CStr, c_char};

use alloc_core::{HostError, TryString};

use crate::record::{Own, own};
use crate::settings::{ENVIRONMENT_PREFIX, complain};

/// Variables that are not UTF-8 are left out.
pub(crate) fn each_variable(mut take: impl FnMut(&str) -> Result<(), HostError>) -> Result<(), HostError> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's list; Vulkan's loader reads it in the same command.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: the list ends with NULL, which was not reached yet.
        let variable = unsafe { *next };
        if variable.is_null() {
            break;
        }
        // SAFETY: each entry is a string that ends with 0.
        let variable = unsafe { CStr::from_ptr(variable) };
        match variable.to_str() {
            Ok(variable) => take(variable)?,
            Err(_) if variable.to_bytes().starts_with(ENVIRONMENT_PREFIX.as_bytes()) => {
                complain(format_args!("{} is left out: it is no UTF-8 text", variable.to_bytes().escape_ascii()));
            }
            Err(_) => {}
        }
        // SAFETY: this entry was not the last, NULL.
        next = unsafe { next.add(1) };
    }
    Ok(())
}

pub(crate) fn variable(name: &CStr) -> Result<Option<TryString<Own>>, HostError> {
    // SAFETY: the name ends with 0; Vulkan's loader reads the environment in the same command.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return Ok(None);
    }
    // SAFETY: a string, valid until the environment changes.
    let value = unsafe { CStr::from_ptr(value) };
    let value = value.to_str().ok().filter(|value| !value.is_empty());
    value.map(|value| TryString::try_from_str_in(value, own())).transpose()
}
