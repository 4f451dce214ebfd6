//! Reports as JSON.

#![forbid(unsafe_code)]

use std::{fmt, io, str};

use serde::Serialize;

/// The text of a file for programs: `value`, a report or a list of them, with indents, and a line feed at the end.
///
/// # Errors
/// A value that JSON cannot express; a report never is.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| text + "\n")
}

/// A value as JSON in one line, written without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct CompactJson<'v, T>(pub &'v T);

impl<T: Serialize> fmt::Display for CompactJson<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Through `dyn`, so that each type is not compiled with all of the formatter's code.
        let output: &mut dyn io::Write = &mut Output(f);
        serde_json::to_writer(output, self.0).map_err(|_| fmt::Error)
    }
}

struct Output<'f, 'a>(&'f mut fmt::Formatter<'a>);

impl io::Write for Output<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        self.0.write_str(text).map_err(|_| io::ErrorKind::Other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::CompactJson;
    use crate::report::GuardReport;

    #[test]
    fn a_value_is_one_line_of_json_that_reads_back() {
        let report = GuardReport {
            owner: "a \"quote\", a line\nand ü".to_owned(),
            ..GuardReport::default()
        };
        let json = CompactJson(&report).to_string();
        assert_eq!(json, serde_json::to_string(&report).expect("JSON"));
        assert_eq!(
            serde_json::from_str::<GuardReport>(&json).expect("JSON"),
            report
        );
        assert_eq!(CompactJson(&None::<GuardReport>).to_string(), "null");
    }
}
