//! Names of files in settings: `%p` stands for the number of the process, `%t` for the time of its first such name,
//! `%e` for the name of its executable, `%n` for the number of the report, from 1, `%%` for `%`.

#![forbid(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use alloc_core::{HostError, TryString};
use vk_report::state_file::EscapedName;

use crate::os::{MAX_PATH, executable};
use crate::record::{Own, own};
use crate::remedy::remedy;
use crate::report::number_of_report;
use crate::settings::complain;
use crate::settings::table::InvalidValue;

static TIME: AtomicU64 = AtomicU64::new(0);

pub(crate) fn after_fork() {
    TIME.store(0, Ordering::Relaxed);
}

/// The same from the first call on, until the process executes another program.
fn time() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    let now = since.map_or(1, |since| since.as_nanos() as u64);
    match TIME.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => now,
        Err(first) => first,
    }
}

pub(crate) fn pattern(name: &str) -> Result<TryString<Own>, InvalidValue> {
    let mut rest = name;
    while let Some((_, escape)) = rest.split_once('%') {
        rest = escape.strip_prefix(['p', 't', 'e', 'n', '%']).ok_or(InvalidValue)?;
    }
    let mut pattern = TryString::new_in(own());
    pattern.try_push_str(name).map_err(|_| InvalidValue)?;
    Ok(pattern)
}

pub(crate) fn expand(pattern: &str) -> Result<TryString<Own>, HostError> {
    let mut name = TryString::new_in(own());
    let mut rest = pattern;
    while let Some((before, escape)) = rest.split_once('%') {
        name.try_push_str(before)?;
        let mut characters = escape.chars();
        match characters.next() {
            Some('p') => name.try_write_fmt(format_args!("{}", std::process::id()))?,
            Some('t') => name.try_write_fmt(format_args!("{:016x}", time()))?,
            Some('e') => name.try_write_fmt(format_args!("{}", EscapedName(executable(&mut [0; MAX_PATH]))))?,
            Some('n') => name.try_write_fmt(format_args!("{}", number_of_report()))?,
            _ => name.try_push('%')?,
        }
        rest = characters.as_str();
    }
    name.try_push_str(rest)?;
    Ok(name)
}

pub(crate) fn write_named<T>(what: &str, pattern: &str, write: impl FnOnce(&str) -> io::Result<T>) -> Option<T> {
    let Ok(name) = expand(pattern) else {
        complain(format_args!("no {what}: out of host memory"));
        return None;
    };
    let complain = |error| {
        complain(format_args!("{} cannot be written ({error}): {}", name.as_str(), remedy(&error)));
    };
    write(&name).map_err(complain).ok()
}

#[cfg(test)]
mod tests {
    use super::{expand, pattern};

    #[test]
    fn placeholders_are_replaced_and_no_other_is_taken() {
        let process = std::process::id();
        let path = std::env::current_exe().expect("a path");
        let executable = path.file_name().expect("a name").display().to_string();
        for (name, expected) in [
            ("a", "a".to_owned()),
            ("", String::new()),
            ("%p", process.to_string()),
            ("a%p.%e%%p", format!("a{process}.{executable}%p")),
            ("%t%n", format!("{:016x}1", super::time())),
            ("\u{e9}%e", format!("\u{e9}{executable}")),
        ] {
            let Ok(pattern) = pattern(name) else {
                panic!("{name} is refused");
            };
            assert_eq!(expand(&pattern).expect("memory").as_str(), expected);
        }
        for name in ["50%", "a%q", "%p%\u{e9}"] {
            assert!(pattern(name).is_err(), "{name}");
        }
    }
}
