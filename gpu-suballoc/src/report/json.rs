//! JSON written piece by piece into a sink, taking no memory.

#![forbid(unsafe_code)]

use core::fmt::{self, Display, Write};

/// Writes one document. Commas and colons come by themselves; objects and lists nest up to 64 deep.
pub(super) struct Json<'w, W: Write + ?Sized> {
    sink: &'w mut W,
    /// One bit a level, the innermost lowest: something stands in it already.
    filled: u64,
}

impl<'w, W: Write + ?Sized> Json<'w, W> {
    pub(super) fn new(sink: &'w mut W) -> Self {
        Self { sink, filled: 0 }
    }

    /// `{ .. }`, with what `content` writes.
    pub(super) fn object(&mut self, content: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        self.nested('{', '}', content)
    }

    /// `[ .. ]`, with what `content` writes: each value behind [`Json::item`].
    pub(super) fn list(&mut self, content: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        self.nested('[', ']', content)
    }

    /// Before each value of a list.
    pub(super) fn item(&mut self) -> fmt::Result {
        if self.filled & 1 == 1 {
            self.sink.write_char(',')?;
        }
        self.filled |= 1;
        Ok(())
    }

    /// Before each value of an object.
    pub(super) fn key(&mut self, key: impl Display) -> fmt::Result {
        self.item()?;
        self.text(key)?;
        self.sink.write_char(':')
    }

    /// A key and a number.
    pub(super) fn number(&mut self, key: &str, value: u64) -> fmt::Result {
        self.key(key)?;
        write!(self.sink, "{value}")
    }

    /// A key and a text.
    pub(super) fn string(&mut self, key: &str, value: impl Display) -> fmt::Result {
        self.key(key)?;
        self.text(value)
    }

    /// A text of its own: RFC 8259, section 7.
    pub(super) fn text(&mut self, text: impl Display) -> fmt::Result {
        self.sink.write_char('"')?;
        write!(Escaped(self.sink), "{text}")?;
        self.sink.write_char('"')
    }

    fn nested(
        &mut self,
        open: char,
        close: char,
        content: impl FnOnce(&mut Self) -> fmt::Result,
    ) -> fmt::Result {
        let outer = self.filled;
        self.filled = outer << 1;
        self.sink.write_char(open)?;
        content(self)?;
        self.filled = outer;
        self.sink.write_char(close)
    }
}

struct Escaped<'w, W: Write + ?Sized>(&'w mut W);

impl<W: Write + ?Sized> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            '"' => self.0.write_str("\\\""),
            '\\' => self.0.write_str("\\\\"),
            c if u32::from(c) < 0x20 => write!(self.0, "\\u{:04x}", u32::from(c)),
            c => self.0.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;

    #[test]
    fn commas_stand_between_values_and_nowhere_else() {
        let mut out = String::new();
        let written = Json::new(&mut out).object(|json| {
            json.number("a", 1)?;
            json.key("list")?;
            json.list(|json| {
                json.item()?;
                json.object(|_| Ok(()))?;
                json.item()?;
                json.text("x")
            })?;
            json.string("b", "c")
        });
        assert_eq!(written, Ok(()));
        assert_eq!(out, r#"{"a":1,"list":[{},"x"],"b":"c"}"#);
    }

    #[test]
    fn text_is_escaped() {
        let mut out = String::new();
        assert_eq!(Json::new(&mut out).text("a\"b\\c\n\u{7}é"), Ok(()));
        assert_eq!(out, "\"a\\\"b\\\\c\\u000a\\u0007é\"");
    }

    #[test]
    fn a_sink_that_is_full_is_said() {
        struct Full(usize);
        impl Write for Full {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
                Ok(())
            }
        }
        let write = |room| Json::new(&mut Full(room)).object(|json| json.number("a", 1));
        assert_eq!(write(7), Ok(()));
        (0..7).for_each(|room| assert_eq!(write(room), Err(fmt::Error), "{room}"));
    }
}
