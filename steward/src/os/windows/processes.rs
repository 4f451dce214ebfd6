//! Other processes as a snapshot shows them, and the files that the layer writes in them.

use std::fs;
use std::mem::MaybeUninit;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::path::PathBuf;
use std::{env, io};

use vk_report::state_file;
use windows_sys::Win32::Foundation::{ERROR_BAD_LENGTH, INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, MODULEENTRY32W, Module32FirstW, Module32NextW, PROCESSENTRY32W, Process32FirstW,
    Process32NextW, TH32CS_SNAPMODULE, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::Threading::{
    OpenProcess, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, TerminateProcess, WaitForSingleObject,
};

use super::files::FALLBACK_FOLDER;
use super::layer_place::LIBRARY;
use super::own_folder::states;
use super::text::from_wide;
use crate::os::run_folder::RUN;

const MAX_SNAPSHOTS: u32 = 100;

fn snapshot(of: u32, process: u32) -> io::Result<OwnedHandle> {
    let mut attempts = 0;
    loop {
        // SAFETY: numbers alone.
        let snapshot = unsafe { CreateToolhelp32Snapshot(of, process) };
        if snapshot != INVALID_HANDLE_VALUE {
            // SAFETY: a new handle, which nobody else closes.
            return Ok(unsafe { OwnedHandle::from_raw_handle(snapshot) });
        }
        let error = io::Error::last_os_error();
        attempts += 1;
        // So it answers while the process loads libraries.
        let is_loading = error.raw_os_error() == Some(ERROR_BAD_LENGTH.cast_signed());
        if !is_loading || attempts == MAX_SNAPSHOTS {
            return Err(error);
        }
    }
}

/// Numbers, and names of executables.
fn named_processes() -> Vec<(u32, String)> {
    let Ok(snapshot) = snapshot(TH32CS_SNAPPROCESS, 0) else {
        return Vec::new();
    };
    // SAFETY: a struct of numbers and units, of which all zeros are valid.
    let mut entry: PROCESSENTRY32W = unsafe { MaybeUninit::zeroed().assume_init() };
    entry.dwSize = size_of_val(&entry) as u32;
    let mut found = Vec::new();
    // SAFETY: an open snapshot of processes, and an entry that knows its size.
    let mut is_there = unsafe { Process32FirstW(snapshot.as_raw_handle(), &raw mut entry) };
    while is_there != 0 {
        let name = from_wide(&entry.szExeFile);
        // The idle one has number 0, which elsewhere stands for this process.
        if entry.th32ProcessID != 0 {
            found.push((entry.th32ProcessID, name.to_string_lossy().into_owned()));
        }
        // SAFETY: an open snapshot of processes, and an entry that knows its size.
        is_there = unsafe { Process32NextW(snapshot.as_raw_handle(), &raw mut entry) };
    }
    found
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    named_processes().into_iter().map(|(process, _)| process)
}

fn has_layer(process: u32) -> bool {
    let Ok(snapshot) = snapshot(TH32CS_SNAPMODULE, process) else {
        return false;
    };
    // SAFETY: a struct of numbers, addresses and units, of which all zeros are valid.
    let mut entry: MODULEENTRY32W = unsafe { MaybeUninit::zeroed().assume_init() };
    entry.dwSize = size_of_val(&entry) as u32;
    // SAFETY: an open snapshot of modules, and an entry that knows its size.
    let mut is_there = unsafe { Module32FirstW(snapshot.as_raw_handle(), &raw mut entry) };
    while is_there != 0 {
        if from_wide(&entry.szModule).eq_ignore_ascii_case(LIBRARY) {
            return true;
        }
        // SAFETY: an open snapshot of modules, and an entry that knows its size.
        is_there = unsafe { Module32NextW(snapshot.as_raw_handle(), &raw mut entry) };
    }
    false
}

/// A process counts if it has the layer loaded; `None` selects all.
pub(crate) fn with_layer(named: Option<&str>) -> Vec<u32> {
    let is_named = |process: u32, executable: &str| {
        named.is_none_or(|name| {
            let stem = executable.rsplit_once('.').map_or(executable, |it| it.0);
            name.parse() == Ok(process) || [executable, stem].iter().any(|it| it.eq_ignore_ascii_case(name))
        })
    };
    let named = named_processes().into_iter();
    let named = named.filter(|(process, executable)| is_named(*process, executable));
    let mut found: Vec<_> = named.map(|(process, _)| process).filter(|process| has_layer(*process)).collect();
    found.sort_unstable();
    found
}

pub(crate) fn listed(processes: &[u32]) -> String {
    let all: Vec<_> = processes.iter().map(|process| shown(*process)).collect();
    all.join(", ")
}

pub(crate) fn shown(process: u32) -> String {
    let mut named = named_processes().into_iter();
    match named.find(|(number, _)| *number == process) {
        Some((_, name)) => format!("{process} ({name})"),
        None => process.to_string(),
    }
}

/// Every process has one number.
pub(crate) fn own_number(process: u32) -> u64 {
    process.into()
}

/// Debuggers alone stop processes, and say so to nobody.
pub(crate) const fn is_stopped(_: u32) -> bool {
    false
}

pub(crate) fn is_running(process: u32) -> bool {
    // SAFETY: numbers alone.
    let opened = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, process) };
    if opened.is_null() {
        // Another user's, which is there.
        return io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied;
    }
    // SAFETY: a new handle, which nobody else closes.
    let opened = unsafe { OwnedHandle::from_raw_handle(opened) };
    // SAFETY: an open process, which is not waited for.
    unsafe { WaitForSingleObject(opened.as_raw_handle(), 0) == WAIT_TIMEOUT }
}

pub(crate) fn kill(process: u32) {
    // SAFETY: numbers alone.
    let opened = unsafe { OpenProcess(PROCESS_TERMINATE, 0, process) };
    if !opened.is_null() {
        // SAFETY: a new handle, which nobody else closes.
        let opened = unsafe { OwnedHandle::from_raw_handle(opened) };
        // SAFETY: an open process.
        unsafe { TerminateProcess(opened.as_raw_handle(), 1) };
    }
}

pub(crate) fn is_there(process: u64) -> bool {
    process.try_into().is_ok_and(is_running)
}

/// A snapshot has all processes.
pub(crate) const fn sees_all() -> bool {
    true
}

/// Another process's settings are not read.
pub(crate) const fn named_file(_: u32, _: &str, _: u64) -> Option<PathBuf> {
    None
}

/// That of `steward run`. Another process's settings are not read.
pub(crate) fn state_of(process: u32) -> Option<PathBuf> {
    let mut states = all_states().into_iter();
    states.find(|(of, _)| *of == process).map(|(_, file)| file)
}

/// One walk through the folders of all runs.
pub(crate) fn all_states() -> Vec<(u32, PathBuf)> {
    let places = [env::temp_dir(), FALLBACK_FOLDER.into()];
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok());
    let folders = entries.flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(RUN.as_bytes())
    });
    let states = folders.flat_map(|folder| states(&folder.path()));
    let is_told = |(of, file): &(u32, PathBuf)| is_running(*of) && state_file::read(file).is_ok();
    states.filter(is_told).collect()
}
