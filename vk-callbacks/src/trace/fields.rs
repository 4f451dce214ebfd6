#![forbid(unsafe_code)]

use alloc_core::NoticeEvent;

use super::event::{Caller, Pointer, Request, Sighting, TraceError, TraceEvent, TraceFault};

pub(super) const MAX_NAME: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'t> {
    rest: &'t str,
    number: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TraceLine<'t> {
    pub(super) number: u64,
    pub(super) text: &'t str,
    /// False for the last line if no line feed follows.
    pub(super) whole: bool,
}

impl<'t> Lines<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { rest: text, number: 0 }
    }

    pub(super) const fn taken(&self) -> u64 {
        self.number
    }
}

impl<'t> Iterator for Lines<'t> {
    type Item = TraceLine<'t>;

    fn next(&mut self) -> Option<TraceLine<'t>> {
        if self.rest.is_empty() {
            return None;
        }
        let (text, rest, whole) = match self.rest.split_once('\n') {
            Some((text, rest)) => (text, rest, true),
            None => (self.rest, "", false),
        };
        self.rest = rest;
        self.number = self.number.saturating_add(1);
        // A checkout may have added carriage returns.
        Some(TraceLine { number: self.number, text: text.strip_suffix('\r').unwrap_or(text), whole })
    }
}

#[derive(Clone, Copy, Debug)]
struct Fields<'t> {
    line: u64,
    rest: Option<&'t str>,
}

impl<'t> Fields<'t> {
    pub(super) const fn new(line: TraceLine<'t>) -> Self {
        Self { line: line.number, rest: Some(line.text) }
    }

    const fn error(&self, fault: TraceFault) -> TraceError {
        TraceError { line: self.line, fault }
    }

    fn word(&mut self, field: &'static str) -> Result<&'t str, TraceError> {
        let rest = self.rest.ok_or(self.error(TraceFault::MissingField(field)))?;
        match rest.split_once(',') {
            Some((word, rest)) => {
                self.rest = Some(rest);
                Ok(word)
            }
            None => {
                self.rest = None;
                Ok(rest)
            }
        }
    }

    /// The rest of the line, commas included: a name at the end of its line needs no escapes.
    pub(super) fn name(&mut self, field: &'static str) -> Result<&'t str, TraceError> {
        self.rest.take().ok_or(self.error(TraceFault::MissingField(field)))
    }

    /// As [`name`](Self::name), for names that are compared often: limited to [`MAX_NAME`].
    fn short_name(&mut self, field: &'static str) -> Result<&'t str, TraceError> {
        let name = self.name(field)?;
        if name.len() > MAX_NAME { Err(self.error(TraceFault::TooLong(field))) } else { Ok(name) }
    }

    pub(super) fn number(&mut self, field: &'static str) -> Result<u64, TraceError> {
        let word = self.word(field)?;
        digits(word).ok_or(self.error(TraceFault::BadNumber(field)))
    }

    fn signed(&mut self, field: &'static str) -> Result<i32, TraceError> {
        let word = self.word(field)?;
        let (negative, word) = word.strip_prefix('-').map_or((false, word), |word| (true, word));
        let magnitude = digits(word).and_then(|n| i64::try_from(n).ok());
        let signed = magnitude.map(|n| if negative { n.saturating_neg() } else { n });
        signed.and_then(|n| i32::try_from(n).ok()).ok_or(self.error(TraceFault::BadNumber(field)))
    }

    fn pointer(&mut self, field: &'static str) -> Result<Pointer, TraceError> {
        let word = self.word(field)?;
        let pointer = match word.strip_prefix('?') {
            Some(unknown) => digits(unknown).map(Pointer::Unknown),
            None => digits(word).map(block),
        };
        pointer.ok_or(self.error(TraceFault::BadNumber(field)))
    }

    fn caller(&mut self) -> Result<Caller, TraceError> {
        Ok(Caller { thread: self.number("thread")?, owner: self.number("owner")? })
    }

    pub(super) fn request(&mut self) -> Result<Request, TraceError> {
        Ok(Request { size: self.number("size")?, align: self.number("align")?, scope: self.signed("scope")? })
    }

    pub(super) fn end(&self) -> Result<(), TraceError> {
        match self.rest {
            None => Ok(()),
            Some(_) => Err(self.error(TraceFault::ExtraField)),
        }
    }
}

const fn block(id: u64) -> Pointer {
    match id {
        0 => Pointer::Null,
        id => Pointer::Block(id),
    }
}

/// Decimal digits only: `str::parse` would accept a sign.
fn digits(word: &str) -> Option<u64> {
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    word.parse().ok()
}

pub(super) const HEADER: &str = "# steward host trace ";
pub(super) const VERSION: &str = "2";

pub(super) enum Parsed<'t> {
    TraceEvent(TraceEvent<'t>),
    /// The end marker, with its number of lines.
    End(u64),
}

pub(super) fn parse(line: TraceLine<'_>) -> Result<Parsed<'_>, TraceError> {
    let mut fields = Fields::new(line);
    let op = fields.word("op")?;
    let event = match op {
        "a" => TraceEvent::Allocate { by: fields.caller()?, block: fields.pointer("block")?, asked: fields.request()? },
        "b" => TraceEvent::ReallocateBegin { by: fields.caller()?, old: fields.pointer("old")? },
        "r" => TraceEvent::Reallocate {
            by: fields.caller()?,
            old: fields.pointer("old")?,
            new: fields.pointer("new")?,
            asked: fields.request()?,
        },
        "f" => TraceEvent::Free { by: fields.caller()?, block: fields.pointer("block")? },
        "i" => notice(&mut fields, NoticeEvent::Allocated)?,
        "j" => notice(&mut fields, NoticeEvent::Freed)?,
        "e" => TraceEvent::Enter { by: fields.caller()?, command: fields.short_name("command")? },
        "l" => TraceEvent::Leave {
            by: Caller { thread: fields.number("thread")?, owner: 0 },
            result: fields.signed("result")?,
        },
        "o" => TraceEvent::Owner {
            owner: fields.number("owner")?,
            parent: fields.number("parent")?,
            kind: fields.short_name("kind")?,
        },
        "p" => TraceEvent::Phase { name: fields.name("phase")? },
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
            let (by, block, word) = (fields.caller()?, fields.pointer("block")?, fields.word("what")?);
            let what = Sighting::ALL.into_iter().find(|what| what.word() == word);
            TraceEvent::Seen { by, block, what: what.ok_or(fields.error(TraceFault::BadWord("what")))? }
        }
        "x" => TraceEvent::Lost { events: fields.number("events")? },
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
