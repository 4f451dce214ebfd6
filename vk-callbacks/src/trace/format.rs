//! The two trace formats, and what each cannot show.

#![forbid(unsafe_code)]

use core::fmt;

/// The format of a trace. `TRACE-FORMAT.md` describes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceFormat {
    /// The older one: blocks, threads and phases only. Read, never written.
    One,
    /// Commands, owners, NULL answers, unknown pointers, lost events, an end marker.
    Two,
}

impl TraceFormat {
    /// What a trace of this format cannot show, one sentence each; empty if it shows everything.
    #[must_use]
    pub const fn limits(self) -> &'static [&'static str] {
        match self {
            Self::One => &[
                "it names no commands: which command asked, and what it returned, cannot be said",
                "it names no owners: all requests are put to one account",
                "it has no NULL answers: whether a request was refused cannot be said",
                "it does not keep strange pointers apart: whether one that is freed was ever given cannot be said",
                "it does not mark its end: a trace cut at the end of a line looks complete",
            ],
            Self::Two => &[],
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "host trace format 1",
            Self::Two => "host trace format 2",
        })
    }
}
