//! The error of an unreadable trace, with its line.

#![forbid(unsafe_code)]

use core::fmt;

use super::fields::MAX_NAME;

/// An unreadable trace: the line, and the expectation there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, counted from 1. For a missing end, the line where it should stand.
    pub line: u64,
    /// What is wrong there.
    pub fault: TraceFault,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceFault {
    /// The first line is no header of a trace.
    NotATrace,
    /// The first line names a version that this reader does not know.
    UnknownVersion,
    /// The line is not UTF-8.
    NotText,
    /// The line begins with no operation of this format.
    UnknownOperation,
    /// The line ends before this field.
    MissingField(&'static str),
    /// This field is not a number in its range.
    BadNumber(&'static str),
    /// This field is not one of its words.
    BadWord(&'static str),
    /// This field is a name longer than [`TraceReader::MAX_NAME`](crate::TraceReader::MAX_NAME).
    TooLong(&'static str),
    /// The line has more fields.
    ExtraField,
    /// The text ends within the line: no line feed follows.
    CutOff,
    /// The text ends, and no end marker was seen.
    NoEnd,
    /// The end marker counts another number of lines than stand before it.
    WrongCount {
        /// What the marker says.
        said: u64,
    },
    /// A line follows the end marker.
    BehindEnd,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.fault {
            TraceFault::NotATrace => f.write_str(
                "expected `# steward host trace 2`: this is no host trace, give another file",
            ),
            TraceFault::UnknownVersion => f.write_str("expected host trace version 2: read this one with a newer program"),
            TraceFault::NotText => f.write_str("expected UTF-8 text: the file is damaged, or still compressed"),
            TraceFault::UnknownOperation => f.write_str("expected one of the format's operation letters: the file is damaged"),
            TraceFault::MissingField(field) => write!(f, "expected the field `{field}`, and the line ends: the file is damaged"),
            TraceFault::BadNumber(field) => write!(f, "expected a number in range for the field `{field}`: the file is damaged"),
            TraceFault::BadWord(field) => {
                write!(f, "expected a known word for the field `{field}`: the file is damaged, or newer")
            }
            TraceFault::TooLong(field) => {
                write!(f, "expected at most {MAX_NAME} bytes in the field `{field}`: the file is damaged")
            }
            TraceFault::ExtraField => f.write_str("expected the end of the line, and more fields follow: the file is damaged"),
            TraceFault::CutOff => f.write_str("expected a line feed, and the text ends: the trace was cut off, record it again"),
            TraceFault::NoEnd => {
                f.write_str("expected the end marker `z`, and the text ends: the trace was cut off, record it again")
            }
            TraceFault::WrongCount { said } => {
                write!(
                    f,
                    "expected {} lines before the end marker, which says {said}: lines are missing",
                    self.line.saturating_sub(1)
                )
            }
            TraceFault::BehindEnd => f.write_str("expected nothing behind the end marker: two traces were joined, split them"),
        }
    }
}

impl core::error::Error for TraceError {}
