//! JSON written without memory of its own: for signal handlers and reports about exhausted memory.

#![forbid(unsafe_code)]

use core::fmt::{Display, Result, Write};

/// Writes a value and sets the commas. Objects and lists nest sixty deep. Only the sink fails.
pub struct Json<'w> {
    sink: &'w mut dyn Write,
    /// A bit a level, the innermost lowest: it has a value already.
    filled: u64,
}

impl core::fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> Result {
        f.debug_struct("Json").finish_non_exhaustive()
    }
}

impl<'w> Json<'w> {
    /// Writes one value to `sink`.
    pub fn new(sink: &'w mut dyn Write) -> Self {
        Self { sink, filled: 0 }
    }

    /// An object, in a list or as the whole.
    pub fn object(&mut self, content: impl FnOnce(&mut Self) -> Result) -> Result {
        self.separate()?;
        self.nested('{', '}', content)
    }

    /// An object, as a member.
    pub fn object_at(&mut self, key: impl Display, content: impl FnOnce(&mut Self) -> Result) -> Result {
        self.key(key)?;
        self.nested('{', '}', content)
    }

    /// A list, as a member.
    pub fn list_at(&mut self, key: impl Display, content: impl FnOnce(&mut Self) -> Result) -> Result {
        self.key(key)?;
        self.nested('[', ']', content)
    }

    /// A list, in a list or as the whole.
    pub fn list(&mut self, content: impl FnOnce(&mut Self) -> Result) -> Result {
        self.separate()?;
        self.nested('[', ']', content)
    }

    /// A number, or `true` or `false`, as a member.
    pub fn plain(&mut self, key: impl Display, value: impl Display) -> Result {
        self.key(key)?;
        write!(self.sink, "{value}")
    }

    /// The same, or null.
    pub fn plain_or_null(&mut self, key: impl Display, value: Option<impl Display>) -> Result {
        match value {
            Some(value) => self.plain(key, value),
            None => self.plain(key, "null"),
        }
    }

    /// A text, as a member.
    pub fn string(&mut self, key: impl Display, value: impl Display) -> Result {
        self.key(key)?;
        self.quoted(value)
    }

    /// The same, or null.
    pub fn string_or_null(&mut self, key: impl Display, value: Option<impl Display>) -> Result {
        match value {
            Some(value) => self.string(key, value),
            None => self.plain(key, "null"),
        }
    }

    /// A text, in a list or as the whole.
    pub fn text(&mut self, text: impl Display) -> Result {
        self.separate()?;
        self.quoted(text)
    }

    fn key(&mut self, key: impl Display) -> Result {
        self.text(key)?;
        self.sink.write_char(':')
    }

    fn quoted(&mut self, text: impl Display) -> Result {
        self.sink.write_char('"')?;
        write!(EscapedJson(self.sink), "{text}")?;
        self.sink.write_char('"')
    }

    fn separate(&mut self) -> Result {
        if self.filled & 1 == 1 {
            self.sink.write_char(',')?;
        }
        self.filled |= 1;
        Ok(())
    }

    fn nested(&mut self, open: char, close: char, content: impl FnOnce(&mut Self) -> Result) -> Result {
        let outer = self.filled;
        self.filled = outer << 1;
        self.sink.write_char(open)?;
        content(self)?;
        self.filled = outer;
        self.sink.write_char(close)
    }
}

struct EscapedJson<'w>(&'w mut dyn Write);

impl Write for EscapedJson<'_> {
    fn write_str(&mut self, text: &str) -> Result {
        text.chars().try_for_each(|c| match c {
            '"' | '\\' => {
                self.0.write_char('\\')?;
                self.0.write_char(c)
            }
            // Control characters, and the two line ends that JSON allows and line readers do not.
            '\0'..' ' | '\x7f' | '\u{2028}' | '\u{2029}' => {
                write!(self.0, "\\u{:04x}", u32::from(c))
            }
            _ => self.0.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use core::fmt;

    use super::*;

    #[test]
    fn commas_stand_between_values_and_nowhere_else() {
        let mut out = String::new();
        let written = Json::new(&mut out).object(|json| {
            json.plain("a", 1)?;
            json.list_at("list", |json| {
                json.object(|_| Ok(()))?;
                json.list(|_| Ok(()))?;
                json.text("x")
            })?;
            json.object_at("empty", |_| Ok(()))?;
            json.plain_or_null("none", None::<u8>)?;
            json.string_or_null("b", Some("c"))
        });
        assert_eq!(written, Ok(()));
        assert_eq!(out, r#"{"a":1,"list":[{},[],"x"],"empty":{},"none":null,"b":"c"}"#);
    }

    #[test]
    fn text_is_escaped() {
        let mut out = String::new();
        assert_eq!(Json::new(&mut out).text("a\"b\\c\n\u{7}\u{2028}é"), Ok(()));
        assert_eq!(out, "\"a\\\"b\\\\c\\u000a\\u0007\\u2028é\"");
    }

    #[test]
    fn a_sink_that_is_full_is_said() {
        struct Full(usize);
        impl Write for Full {
            fn write_str(&mut self, text: &str) -> Result {
                self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
                Ok(())
            }
        }
        let write = |room| Json::new(&mut Full(room)).object(|json| json.plain("a", 1));
        assert_eq!(write(7), Ok(()));
        (0..7).for_each(|room| assert_eq!(write(room), Err(fmt::Error), "{room}"));
    }
}
