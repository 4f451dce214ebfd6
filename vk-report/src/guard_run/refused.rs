//! Refusals, written for the parent process as they happen, since a driver may crash its process after a refusal.
//!
//! A file of lines of JSON, one for each refusal.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use crate::report::Refusal;

pub(super) struct RefusalFile {
    file: Option<File>,
    first_only: bool,
}

impl RefusalFile {
    pub(super) const fn to(file: Option<File>, first_only: bool) -> Self {
        Self { file, first_only }
    }

    /// The request is about to be refused.
    pub(super) fn refused(&self, refusal: &Refusal, is_first: bool) {
        if is_first || !self.first_only {
            self.write_line(serde_json::to_string(refusal));
        }
    }

    fn write_line(&self, line: serde_json::Result<String>) {
        if let (Some(mut file), Ok(line)) = (self.file.as_ref(), line) {
            // One write for each line, since threads may refuse at once. An error is ignored: the parent then learns
            // less of a crash.
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// The contents of the file.
#[derive(Debug, Default)]
pub struct RefusalLog {
    /// The number of refused requests.
    pub refused: u64,
    /// The first of them.
    pub first: Option<Refusal>,
    /// The last of them.
    pub last: Option<Refusal>,
}

impl RefusalLog {
    /// Reads what a child wrote into `file`.
    ///
    /// # Errors
    /// The file cannot be read, or is no UTF-8.
    pub fn read(file: &Path) -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string(file)?))
    }

    /// Ignores a line that was cut off.
    fn parse(text: &str) -> Self {
        let mut log = Self::default();
        for line in text.lines() {
            if let Ok(refusal) = serde_json::from_str::<Refusal>(line) {
                log.refused += 1;
                log.first.get_or_insert_with(|| refusal.clone());
                log.last = Some(refusal);
            }
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_heard_up_to_where_it_was_cut_off() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let line = RefusalFile { file: Some(file.reopen().expect("the same file")), first_only: false };
        for serial in [3, 4] {
            let refusal = Refusal { command: "vkCreateBuffer".into(), serial, ..Refusal::default() };
            line.refused(&refusal, serial == 3);
        }
        let said = std::fs::read_to_string(file.path()).expect("text");
        let log = RefusalLog::parse(&format!("{said}{{\"command\": \"vkCr"));
        assert_eq!(log.refused, 2);
        let named = |refusal: Option<Refusal>| refusal.map(|one| (one.command, one.serial));
        assert_eq!(named(log.first), Some(("vkCreateBuffer".into(), 3)));
        assert_eq!(named(log.last), Some(("vkCreateBuffer".into(), 4)));
    }

    #[test]
    fn only_the_first_refusals_are_said_where_that_is_enough() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let line = RefusalFile::to(file.reopen().ok(), true);
        for serial in [1, 2, 3] {
            let refusal = Refusal { serial, ..Refusal::default() };
            line.refused(&refusal, serial < 3);
        }
        let log = RefusalLog::read(file.path()).expect("read");
        let last = log.last.map(|last| last.serial);
        assert_eq!((log.refused, last), (2, Some(2)));
    }
}
