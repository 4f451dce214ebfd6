#![forbid(unsafe_code)]

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::plural;

/// The number of events and observations that were not judged: an empty list of findings then proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unjudged {
    /// Events that the trace lacks, because its recorder had no memory for them.
    pub events: u64,
    /// Observations that were left out: there was no room for them, or missing events made them doubtful.
    pub observations: u64,
}

impl Unjudged {
    /// Observations that a checker lost; `None` for 0.
    #[must_use]
    pub fn live(lost: u64) -> Option<Self> {
        Self::of_trace(lost, 0)
    }

    /// Observations that the log checker lost, `events` of them because the trace lacks events; `None` for 0.
    #[must_use]
    pub fn of_trace(lost: u64, events: u64) -> Option<Self> {
        let unjudged = Self { events, observations: lost.saturating_sub(events) };
        (unjudged != Self::default()).then_some(unjudged)
    }
}

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, observations } = *self;
        f.write_str("not all was judged: ")?;
        if events > 0 {
            write!(f, "the trace lacks {events} event{}, for which its recorder had no memory", plural(events))?;
        }
        if events > 0 && observations > 0 {
            f.write_str("; ")?;
        }
        if observations > 0 {
            write!(f, "{observations} observation{} left out, ", if observations == 1 { " was" } else { "s were" })?;
            f.write_str(match events {
                0 => "because the table of findings was full or its memory was refused",
                _ => "because without those events they prove nothing, or there was no room for them",
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_what_is_missing_and_why() {
        assert_eq!((Unjudged::live(0), Unjudged::of_trace(0, 0)), (None, None));
        let words = |unjudged: Option<Unjudged>| unjudged.expect("something was lost").to_string();
        assert_eq!(
            words(Unjudged::live(1)),
            "not all was judged: 1 observation was left out, because the table of findings was full or its memory was refused"
        );
        assert_eq!(
            words(Unjudged::of_trace(3, 3)),
            "not all was judged: the trace lacks 3 events, for which its recorder had no memory"
        );
        let both = words(Unjudged::of_trace(5, 3));
        assert!(
            both.contains("lacks 3 events, ") && both.contains("; 2 observations were left out, because without"),
            "{both}"
        );
    }
}
