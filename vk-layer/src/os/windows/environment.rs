//! The system's variables: the C runtime has a copy of its own, which a program's changes miss.

use std::ffi::CStr;
use std::ptr;

use alloc_core::{HostError, TryString, TryVec};

use windows_sys::Win32::System::Environment::{
    FreeEnvironmentStringsW, GetEnvironmentStringsW, GetEnvironmentVariableW,
};

use super::text::{from_wide, to_wide};
use crate::record::{Own, own};

struct Strings(*mut u16);

impl Drop for Strings {
    fn drop(&mut self) {
        // SAFETY: the system's list, which nothing refers to any more.
        unsafe { FreeEnvironmentStringsW(self.0) };
    }
}

/// Variables that are no text are left out.
pub(crate) fn each_variable(mut take: impl FnMut(&str) -> Result<(), HostError>) -> Result<(), HostError> {
    // SAFETY: a copy that is this function's alone.
    let strings = Strings(unsafe { GetEnvironmentStringsW() });
    let mut start = strings.0.cast_const();
    while !start.is_null() {
        let mut end = start;
        // SAFETY: a 0 ends each string, and an empty one the list: neither was passed.
        while unsafe { end.read() } != 0 {
            // SAFETY: behind a unit that is not 0 another one follows.
            end = unsafe { end.add(1) };
        }
        // SAFETY: both lie in the list, the end not before the start.
        let length = unsafe { end.offset_from_unsigned(start) };
        if length == 0 {
            break;
        }
        // SAFETY: the string's units, up to its 0.
        let variable = unsafe { std::slice::from_raw_parts(start, length) };
        if let Some(variable) = from_wide(variable)? {
            take(&variable)?;
        }
        // SAFETY: this string was not empty, so another one follows its 0.
        start = unsafe { end.add(1) };
    }
    Ok(())
}

pub(crate) fn variable(name: &CStr) -> Result<Option<TryString<Own>>, HostError> {
    let Ok(name) = name.to_str() else {
        return Ok(None);
    };
    let name = to_wide(name)?;
    let mut value: TryVec<u16, Own> = TryVec::new_in(own());
    loop {
        let room = u32::try_from(value.len()).unwrap_or(u32::MAX);
        let place = if room == 0 { ptr::null_mut() } else { value.as_mut_ptr() };
        // SAFETY: a 0 ends the name; `room` units that may be written.
        let length = unsafe { GetEnvironmentVariableW(name.as_ptr(), place, room) } as usize;
        // With its 0 where there was no room, and without where there was.
        if length < value.len() || length == 0 {
            let value = from_wide(value.get(..length).unwrap_or_default())?;
            return Ok(value.filter(|value| !value.is_empty()));
        }
        value.try_resize(length, 0)?;
    }
}
