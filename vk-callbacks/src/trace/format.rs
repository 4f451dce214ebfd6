//! The two formats, and what a trace in each can and cannot tell.

#![forbid(unsafe_code)]

use core::fmt;

/// Which format a trace is in. `TRACE-FORMAT.md` describes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceFormat {
    /// The older one: blocks, threads and phases alone. Read, never written.
    One,
    /// Commands, owners, NULL answers, unknown pointers, lost events, an end marker.
    Two,
}

/// What a trace of a format can be judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Says which command of which thread asked.
    pub commands: bool,
    /// Says through whose callbacks a request came.
    pub owners: bool,
    /// Says when a request was refused.
    pub null_answers: bool,
    /// Keeps apart pointers that were never given and blocks that were.
    pub unknown_pointers: bool,
    /// Says how many events the recorder had no memory for.
    pub lost_events: bool,
    /// Ends with a marker, so that a trace that was cut at a line's end is found out.
    pub truncation: bool,
}

impl TraceFormat {
    /// What a trace of this format can be judged by.
    #[must_use]
    pub const fn capabilities(self) -> Capabilities {
        let all = matches!(self, Self::Two);
        Capabilities {
            commands: all,
            owners: all,
            null_answers: all,
            unknown_pointers: all,
            lost_events: all,
            truncation: all,
        }
    }

    /// What cannot be judged, one sentence each; empty when everything can.
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
