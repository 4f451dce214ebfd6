//! Other processes as `/proc` shows them, and the files that the layer writes in them.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use vk_report::state_file::{self, EscapedName};

use super::layer_place::LIBRARY;
use crate::os::variable;

const SETTING: &str = "VK_STEWARD_MEMORY_";
/// The unit is the same on all of Linux.
const TICKS_A_SECOND: u64 = 100;
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process counts if it has the layer mapped; `None` selects all.
pub(crate) fn with_layer(named: Option<&str>) -> Vec<u32> {
    let is_named =
        |process: &u32| named.is_none_or(|name| name.parse() == Ok(*process) || names(*process).any(|it| it == name));
    // As code: a linker may write the library.
    let is_layer = |line: &str| line.contains(LIBRARY) && line.contains(" r-xp ");
    let has_layer = |process: &u32| text_of(*process, "maps").lines().any(is_layer);
    let mut found: Vec<_> = processes().filter(is_named).filter(has_layer).collect();
    found.sort_unstable();
    found
}

/// Returns an empty text if the file cannot be read. Names in it may be no UTF-8.
pub(crate) fn text_of(process: u32, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn listed(processes: &[u32]) -> String {
    let all: Vec<_> = processes.iter().map(|process| shown(*process)).collect();
    all.join(", ")
}

pub(crate) fn shown(process: u32) -> String {
    // What another user's executable is may not be read, nor that of a process that has ended and is not waited for.
    let name = Some(executable(process)).filter(|name| !name.is_empty());
    match name.or_else(|| thread_name(process)) {
        Some(name) => format!("{process} ({name})"),
        None => process.to_string(),
    }
}

fn thread_name(process: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{process}/comm")).ok()?;
    Some(EscapedName(name.trim_ascii_end()).to_string())
}

/// A user may know a process by the name of its executable, by that of its main thread, and by the one it was started
/// by.
fn names(process: u32) -> impl Iterator<Item = String> {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let first = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
    let started_by = Path::new(OsStr::from_bytes(first)).file_name().unwrap_or_default();
    let names =
        [executable(process), thread_name(process).unwrap_or_default(), EscapedName(started_by.as_bytes()).to_string()];
    names.into_iter().filter(|name| !name.is_empty())
}

pub(crate) fn executable(process: u32) -> String {
    let path = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().as_bytes();
    EscapedName(name.strip_suffix(b" (deleted)").unwrap_or(name)).to_string()
}

/// A process's own number: that in the innermost PID namespace.
pub(crate) fn own_number(process: u32) -> u64 {
    let status = text_of(process, "status");
    innermost(&status).unwrap_or(process.into())
}

fn innermost(status: &str) -> Option<u64> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

pub(crate) fn started(process: u32) -> Option<SystemTime> {
    let stat = text_of(process, "stat");
    // The name is in brackets and may have any character; the state is the third field.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let all = fs::read_to_string("/proc/stat").ok()?;
    let boot = all.lines().find_map(|line| line.strip_prefix("btime "))?;
    let since_boot = Duration::from_secs(ticks / TICKS_A_SECOND);
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(boot.trim().parse().ok()?) + since_boot)
}

pub(crate) fn is_stopped(process: u32) -> bool {
    state_letter(process) == Some('T')
}

pub(crate) fn is_there(process: u64) -> bool {
    fs::exists(format!("/proc/{process}")).unwrap_or(false)
}

/// Whether no process is outside of this PID namespace.
pub(crate) fn sees_all() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    namespace.as_os_str() == FIRST_NAMESPACE
}

/// A process that nobody has waited for has ended as well.
pub(crate) fn is_running(process: u32) -> bool {
    state_letter(process).is_some_and(|state| !['Z', 'X'].contains(&state))
}

fn state_letter(process: u32) -> Option<char> {
    let status = text_of(process, "status");
    let state = status.lines().find_map(|line| line.strip_prefix("State:"))?;
    state.trim_start().chars().next()
}

fn setting(process: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| {
        let value = variable.strip_prefix(SETTING.as_bytes())?;
        value.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
    })?;
    let value = str::from_utf8(value).ok()?;
    (!value.is_empty()).then(|| value.to_owned())
}

pub(crate) fn named_file(process: u32, name: &str, number: u64) -> Option<PathBuf> {
    let pattern = setting(process, name).filter(|pattern| pattern != "-" && pattern != "none")?;
    let mut file = String::new();
    let mut rest = pattern.as_str();
    while let Some((before, escape)) = rest.split_once('%') {
        file += before;
        let mut characters = escape.chars();
        match characters.next() {
            Some('p') => file += &own_number(process).to_string(),
            Some('e') => file += &executable(process),
            Some('n') => file += &number.to_string(),
            // Only the process knows it.
            Some('t') => return None,
            _ => file.push('%'),
        }
        rest = characters.as_str();
    }
    file += rest;
    // An absolute name is unchanged.
    Some(PathBuf::from(format!("/proc/{process}/cwd")).join(file))
}

/// A file that the process has mapped comes first: programs that change their title, such as chromium, overwrite the
/// environment that others see, and a file that an earlier process with the number has left is mapped by nobody.
pub(crate) fn state_of(process: u32) -> Option<PathBuf> {
    let mapped = mapped(process);
    let folder = default_folder().into_iter();
    let names = mapped.iter().map(|file| file.path.clone());
    let mut files =
        names.chain(folder.map(|folder| folder.join(process.to_string()))).chain(named_file(process, "STATE", 1));
    files.find(|file| {
        // Devices are mapped as well, and opening one may do something.
        let is_mapped = |found: Metadata| found.is_file() && mapped.iter().any(|file| file.inode == found.ino());
        fs::metadata(file).is_ok_and(is_mapped)
            && state_file::read(file).is_ok_and(|state| state.process == own_number(process))
    })
}

pub(crate) fn all_states() -> Vec<(u32, PathBuf)> {
    let state = |process| Some((process, state_of(process)?));
    processes().filter_map(state).collect()
}

pub(crate) struct MappedFile {
    inode: u64,
    pub(crate) path: PathBuf,
}

pub(crate) fn mapped(process: u32) -> Vec<MappedFile> {
    let maps = text_of(process, "maps");
    let shared = maps.lines().filter(|line| line.contains(" rw-s "));
    let files = shared.filter_map(|line| {
        Some(MappedFile { inode: line.split_whitespace().nth(4)?.parse().ok()?, path: line[line.find('/')?..].into() })
    });
    files.collect()
}

fn default_folder() -> Option<PathBuf> {
    let runtime = variable("XDG_RUNTIME_DIR")?;
    Some(Path::new(&runtime).join("steward"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, SystemTime};

    use super::{executable, innermost, is_running, listed, names, own_number, started};

    #[test]
    fn ly71_a_process_that_has_ended_is_not_running_and_has_a_name_until_it_is_gone() {
        let own = std::process::id();
        assert!(is_running(own));
        let mut child = Command::new("true").spawn().expect("a program");
        let number = child.id();
        while is_running(number) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(listed(&[number]), format!("{number} (true)"));
        child.wait().expect("its end");
        // Its number may be another process's by now.
        let shown = listed(&[number]);
        assert!(!shown.contains("()") && !is_running(number) || shown != number.to_string());
        assert!(!shown.contains("()"), "{shown}");
    }

    #[test]
    fn the_innermost_number_is_a_process_s_own() {
        let status = "Name:\tclient\nNSpid:\t4711\t12\t1\nNSpgid:\t4711\n";
        assert_eq!(innermost(status), Some(1));
        let own = std::process::id();
        assert_eq!(own_number(own), u64::from(own));
    }

    #[test]
    fn a_process_has_a_start_and_names() {
        let own = std::process::id();
        let age = SystemTime::now().duration_since(started(own).expect("a time"));
        // `/proc` counts whole seconds.
        assert!(!age.is_ok_and(|age| age > Duration::from_secs(600)));
        let executable = executable(own);
        assert!(!executable.is_empty() && names(own).any(|name| name == executable));
    }
}
