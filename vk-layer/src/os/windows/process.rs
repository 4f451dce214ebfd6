use std::ptr;

use alloc_core::{HostError, TryVec};

use windows_sys::Win32::Storage::FileSystem::WriteFile;
use windows_sys::Win32::System::Console::{GetStdHandle, STD_ERROR_HANDLE};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::SystemInformation::GetTickCount64;
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::modules::{file_name, path_of_module};
use crate::record::{Own, own};

/// A longer path is not known.
pub(crate) const MAX_PATH: usize = 4096;

/// The answer has no folders, and is empty where the name is unknown.
pub(crate) fn executable(buffer: &mut [u8; MAX_PATH]) -> &[u8] {
    let name = path_of_module(ptr::null_mut(), |path| {
        let mut length = 0;
        for character in char::decode_utf16(path.iter().copied()) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            let end = length + character.len_utf8();
            character.encode_utf8(buffer.get_mut(length..end)?);
            length = end;
        }
        let path = str::from_utf8(buffer.get(..length)?).ok()?;
        Some(file_name(path).as_bytes())
    });
    name.unwrap_or_default()
}

/// A 0 ends each argument.
pub(crate) fn command_line() -> Result<TryVec<u8, Own>, HostError> {
    let mut line = TryVec::new_in(own());
    for argument in std::env::args_os() {
        line.try_extend_from_slice(argument.as_encoded_bytes())?;
        line.try_extend_from_slice(b"\0")?;
    }
    Ok(line)
}

/// An error is ignored: it cannot be reported.
pub(crate) fn write_to_error_output(text: &[u8]) {
    // SAFETY: asks for a handle.
    let output = unsafe { GetStdHandle(STD_ERROR_HANDLE) };
    let mut rest = text;
    while !rest.is_empty() {
        let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let mut written = 0;
        // SAFETY: `count` bytes that may be read; what is no file is answered.
        let done = unsafe { WriteFile(output, rest.as_ptr(), count, &raw mut written, ptr::null_mut()) };
        if done == 0 || written == 0 {
            return;
        }
        rest = rest.get(written as usize..).unwrap_or_default();
    }
}

/// Returns whether the call will be made when the process exits.
pub(crate) fn at_exit(call: extern "C" fn()) -> bool {
    unsafe extern "C" {
        fn atexit(call: extern "C" fn()) -> i32;
    }
    // SAFETY: the library is never unloaded.
    unsafe { atexit(call) == 0 }
}

/// What this process has of the system's memory and page files, for itself alone.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    let room = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    let mut counters = PROCESS_MEMORY_COUNTERS { cb: room, ..Default::default() };
    // SAFETY: asks for a constant that stands for this process.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: so much room.
    let known = unsafe { K32GetProcessMemoryInfo(process, &raw mut counters, room) };
    (known != 0).then_some(counters.PagefileUsage as u64)
}

pub(crate) fn coarse_nanoseconds() -> u64 {
    // SAFETY: asks for a number.
    unsafe { GetTickCount64() }.saturating_mul(1_000_000)
}
