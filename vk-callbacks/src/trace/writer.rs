#![forbid(unsafe_code)]

use core::fmt::{self, Write};

use alloc_core::NoticeEvent;
use alloc_core::support::floor_char_boundary;

use super::event::{Caller, Request, TraceEvent};
use super::fields as format2;
use super::fields::MAX_NAME;

/// A writer of a trace of format 2, event by event. Allocates nothing.
///
/// A trace that was not [`finish`](TraceWriter::finish)ed reads as cut off.
#[derive(Debug)]
pub struct TraceWriter<'w, W: Write + ?Sized> {
    out: &'w mut W,
    lines: u64,
}

impl<'w, W: Write + ?Sized> TraceWriter<'w, W> {
    /// Writes the header. `driver` is free text; line breaks in it become spaces.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: &'w mut W, driver: &str) -> Result<Self, fmt::Error> {
        writeln!(out, "{}{}", format2::HEADER, format2::VERSION)?;
        writeln!(out, "# driver: {}", OneLine(driver))?;
        Ok(Self { out, lines: 2 })
    }

    /// Writes one line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn event(&mut self, event: &TraceEvent<'_>) -> fmt::Result {
        let out = &mut *self.out;
        match *event {
            TraceEvent::Owner { owner, parent, kind } => writeln!(out, "o,{owner},{parent},{}", Short(kind)),
            TraceEvent::Phase { name } => writeln!(out, "p,{}", OneLine(name)),
            TraceEvent::Enter { by, command } => writeln!(out, "e,{},{}", By(by), Short(command)),
            TraceEvent::Leave { by, result } => writeln!(out, "l,{},{result}", by.thread),
            TraceEvent::Allocate { by, block, asked } => {
                writeln!(out, "a,{},{block},{}", By(by), RequestFields(asked))
            }
            TraceEvent::ReallocateBegin { by, old } => writeln!(out, "b,{},{old}", By(by)),
            TraceEvent::Reallocate { by, old, new, asked } => {
                writeln!(out, "r,{},{old},{new},{}", By(by), RequestFields(asked))
            }
            TraceEvent::Free { by, block } => writeln!(out, "f,{},{block}", By(by)),
            TraceEvent::Notice { by, event, size, kind, scope } => {
                let op = match event {
                    NoticeEvent::Allocated => 'i',
                    NoticeEvent::Freed => 'j',
                };
                writeln!(out, "{op},{},{size},{kind},{scope}", By(by))
            }
            TraceEvent::Created { by, handle, kind } => {
                writeln!(out, "c,{},{handle},{}", By(by), Short(kind))
            }
            TraceEvent::Destroyed { by, handle, kind } => {
                writeln!(out, "d,{},{handle},{}", By(by), Short(kind))
            }
            TraceEvent::Seen { by, block, what } => {
                writeln!(out, "s,{},{block},{}", By(by), what.word())
            }
            TraceEvent::Lost { events } => writeln!(out, "x,{events}"),
        }?;
        self.lines = self.lines.saturating_add(1);
        Ok(())
    }

    /// Writes the end marker. Returns the number of lines, marker included.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(self) -> Result<u64, fmt::Error> {
        writeln!(self.out, "z,{}", self.lines)?;
        Ok(self.lines.saturating_add(1))
    }
}

struct By(Caller);

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0.thread, self.0.owner)
    }
}

struct RequestFields(Request);

impl fmt::Display for RequestFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.0.size, self.0.align, self.0.scope)
    }
}

struct Short<'a>(&'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = floor_char_boundary(self.0, MAX_NAME);
        OneLine(self.0.get(..end).unwrap_or_default()).fmt(f)
    }
}

/// A text with each control character, line feeds among them, replaced by a space.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.split(char::is_control).enumerate() {
            if index > 0 {
                f.write_char(' ')?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}
