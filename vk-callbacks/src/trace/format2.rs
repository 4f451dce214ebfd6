//! Lines of format 2: an operation letter, then the fields that the table in `TRACE-FORMAT.md` gives it.

#![forbid(unsafe_code)]

use alloc_core::NoticeEvent;

use super::error::{TraceError, TraceFault};
use super::event::{Caller, Sighting, TraceEvent};
use super::fields::{Fields, TraceLine};

/// The beginning of the first line; the version follows.
pub(super) const HEADER: &str = "# steward host trace ";
/// The version that is read and written.
pub(super) const VERSION: &str = "2";

/// A parsed line.
pub(super) enum Parsed<'t> {
    TraceEvent(TraceEvent<'t>),
    /// The end marker, with its number of lines.
    End(u64),
}

pub(super) fn parse(line: TraceLine<'_>) -> Result<Parsed<'_>, TraceError> {
    let mut fields = Fields::new(line);
    let op = fields.word("op")?;
    let event = match op {
        "a" => TraceEvent::Allocate {
            by: fields.caller()?,
            block: fields.pointer("block")?,
            asked: fields.request()?,
        },
        "b" => TraceEvent::ReallocateBegin {
            by: fields.caller()?,
            old: fields.pointer("old")?,
        },
        "r" => TraceEvent::Reallocate {
            by: fields.caller()?,
            old: fields.pointer("old")?,
            new: fields.pointer("new")?,
            asked: fields.request()?,
        },
        "f" => TraceEvent::Free {
            by: fields.caller()?,
            block: fields.pointer("block")?,
        },
        "i" => notice(&mut fields, NoticeEvent::Allocated)?,
        "j" => notice(&mut fields, NoticeEvent::Freed)?,
        "e" => TraceEvent::Enter {
            by: fields.caller()?,
            command: fields.short_name("command")?,
        },
        "l" => TraceEvent::Leave {
            by: Caller {
                thread: fields.number("thread")?,
                owner: 0,
            },
            result: fields.signed("result")?,
        },
        "o" => TraceEvent::Owner {
            owner: fields.number("owner")?,
            parent: fields.number("parent")?,
            kind: fields.short_name("kind")?,
        },
        "p" => TraceEvent::Phase {
            name: fields.name("phase")?,
        },
        "c" => TraceEvent::Created {
            by: fields.caller()?,
            handle: fields.number("handle")?,
            kind: fields.short_name("kind")?,
        },
        "d" => TraceEvent::Destroyed {
            by: fields.caller()?,
            handle: fields.number("handle")?,
            kind: fields.short_name("kind")?,
        },
        "s" => {
            let (by, block, word) = (
                fields.caller()?,
                fields.pointer("block")?,
                fields.word("what")?,
            );
            let what = Sighting::ALL.into_iter().find(|what| what.word() == word);
            TraceEvent::Seen {
                by,
                block,
                what: what.ok_or(fields.error(TraceFault::BadWord("what")))?,
            }
        }
        "x" => TraceEvent::Lost {
            events: fields.number("events")?,
        },
        "z" => {
            let lines = fields.number("lines")?;
            fields.end()?;
            return Ok(Parsed::End(lines));
        }
        _ => return Err(fields.error(TraceFault::UnknownOperation)),
    };
    fields.end()?;
    Ok(Parsed::TraceEvent(event))
}

fn notice<'t>(fields: &mut Fields<'t>, event: NoticeEvent) -> Result<TraceEvent<'t>, TraceError> {
    Ok(TraceEvent::Notice {
        by: fields.caller()?,
        event,
        size: fields.number("size")?,
        kind: fields.signed("type")?,
        scope: fields.signed("scope")?,
    })
}
