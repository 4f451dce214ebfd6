//! Lines of format 1: `op,id,new_id,size,align,scope,thread,phase`.

#![forbid(unsafe_code)]

use alloc_core::NoticeEvent;

use super::error::{TraceError, TraceFault};
use super::event::{Caller, Request, TraceEvent};
use super::fields::{Fields, TraceLine, block};

/// The beginning of the first line.
pub(super) const HEADER: &str = "# host-allocation trace";

/// The event and the phase of a line.
pub(super) fn event(line: TraceLine<'_>) -> Result<(TraceEvent<'_>, &str), TraceError> {
    let mut fields = Fields::new(line);
    let op = fields.word("op")?;
    let id = fields.number("id")?;
    let new_id = fields.number("new_id")?;
    // Every line has the columns size, align and scope; a free leaves them 0.
    let asked = fields.request()?;
    let by = Caller {
        thread: fields.number("thread")?,
        owner: 0,
    };
    let event = match op {
        "a" => TraceEvent::Allocate {
            by,
            block: block(id),
            asked,
        },
        "r" => TraceEvent::Reallocate {
            by,
            old: block(id),
            new: block(new_id),
            asked,
        },
        "f" => TraceEvent::Free {
            by,
            block: block(id),
        },
        "i" => notice(&fields, by, NoticeEvent::Allocated, asked)?,
        "j" => notice(&fields, by, NoticeEvent::Freed, asked)?,
        _ => return Err(fields.error(TraceFault::UnknownOperation)),
    };
    Ok((event, fields.name("phase")?))
}

/// In the lines of notifications the column `align` holds the type.
fn notice<'t>(
    fields: &Fields<'t>,
    by: Caller,
    event: NoticeEvent,
    asked: Request,
) -> Result<TraceEvent<'t>, TraceError> {
    let kind =
        i32::try_from(asked.align).map_err(|_| fields.error(TraceFault::BadNumber("align")))?;
    Ok(TraceEvent::Notice {
        by,
        event,
        size: asked.size,
        kind,
        scope: asked.scope,
    })
}
