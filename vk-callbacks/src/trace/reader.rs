#![forbid(unsafe_code)]

use core::iter::FusedIterator;

use super::event::{TraceError, TraceEvent, TraceFault};
use super::fields as format2;
use super::fields::{Lines, MAX_NAME, TraceLine};

/// Reads a trace: an iterator of events, each with the number of its line (from 1).
///
/// Only the form is checked, not the meaning: [`Judge`](crate::Judge) finds a second free. After an error the iterator
/// ends.
///
/// ```
/// use vk_callbacks::{TraceEvent, TraceReader};
/// use vk_callbacks::trace::Pointer;
///
/// let trace = "# steward host trace 2\n# driver: example\nf,1,0,?1\nz,3\n";
/// let mut reader = TraceReader::new(trace)?;
/// assert_eq!(reader.driver(), "example");
/// let (line, event) = reader.next().ok_or("an event")??;
/// assert!(matches!((line, event), (3, TraceEvent::Free { block: Pointer::Unknown(1), .. })));
/// assert!(reader.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TraceReader<'t> {
    lines: Lines<'t>,
    driver: &'t str,
    over: bool,
}

impl<'t> TraceReader<'t> {
    /// The maximum bytes of the name of a command or of a kind of object.
    pub const MAX_NAME: usize = MAX_NAME;

    /// Reads the header.
    ///
    /// # Errors
    /// The first line is no header, or that of another version.
    pub fn new(text: &'t str) -> Result<Self, TraceError> {
        let mut lines = Lines::new(text);
        let head = lines.next().unwrap_or(TraceLine { number: 1, text: "", whole: false });
        let error = |fault| Err(TraceError { line: 1, fault });
        match head.text.strip_prefix(format2::HEADER) {
            Some(format2::VERSION) => {}
            Some(_) => return error(TraceFault::UnknownVersion),
            None => return error(TraceFault::NotATrace),
        }
        if !head.whole {
            return error(TraceFault::CutOff);
        }
        let driver = lines
            .map_while(|line| line.text.strip_prefix("# "))
            .find_map(|header| header.strip_prefix("driver: "))
            .unwrap_or("");
        Ok(Self { lines, driver, over: false })
    }

    /// As [`TraceReader::new`], for bytes that may not be text.
    ///
    /// # Errors
    /// As there; and [`TraceFault::NotText`], with the line.
    pub fn from_bytes(bytes: &'t [u8]) -> Result<Self, TraceError> {
        match core::str::from_utf8(bytes) {
            Ok(text) => Self::new(text),
            Err(error) => {
                let before = bytes.iter().take(error.valid_up_to());
                let feeds = before.filter(|byte| **byte == b'\n').count() as u64;
                Err(TraceError { line: feeds.saturating_add(1), fault: TraceFault::NotText })
            }
        }
    }

    /// The driver's name from the header; empty if missing.
    #[must_use]
    pub const fn driver(&self) -> &'t str {
        self.driver
    }

    fn line(&mut self) -> Result<Option<TraceLine<'t>>, TraceError> {
        loop {
            let Some(line) = self.lines.next() else {
                return Ok(None);
            };
            // A marker that lost only its line feed still counts every line before it.
            let marker = line.text.starts_with("z,");
            if !line.whole && !marker {
                return Err(TraceError { line: line.number, fault: TraceFault::CutOff });
            }
            if !line.text.starts_with('#') {
                return Ok(Some(line));
            }
        }
    }

    fn event(&mut self) -> Result<Option<(u64, TraceEvent<'t>)>, TraceError> {
        let Some(line) = self.line()? else {
            return Err(TraceError { line: self.lines.taken().saturating_add(1), fault: TraceFault::NoEnd });
        };
        match format2::parse(line)? {
            format2::Parsed::TraceEvent(event) => Ok(Some((line.number, event))),
            format2::Parsed::End(said) if said.checked_add(1) != Some(line.number) => {
                Err(TraceError { line: line.number, fault: TraceFault::WrongCount { said } })
            }
            format2::Parsed::End(_) => match self.lines.next() {
                Some(behind) => Err(TraceError { line: behind.number, fault: TraceFault::BehindEnd }),
                None => Ok(None),
            },
        }
    }
}

impl<'t> Iterator for TraceReader<'t> {
    type Item = Result<(u64, TraceEvent<'t>), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.event();
        self.over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

impl FusedIterator for TraceReader<'_> {}
