//! What a guard reports, kept until the run is over. It may come from a signal handler: so nothing is done here then but writing.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use debug_guard::{Deed, Report};

use super::symbols::Symbols;
use crate::report::GuardReport;

/// So many reports are kept; all are counted, and written to the error output.
const MOST_REPORTS: usize = 100;
/// Stands between the parts of a report.
const PART: char = '\u{1f}';
/// Stands behind a report.
const END: char = '\u{1e}';

/// Where reports go while this is there. One at a time hears them: that of the process's guarded run.
pub(super) struct Told {
    places: Box<Places>,
}

struct Places {
    kept: File,
    /// A descriptor of its own: the standard library's has a lock, which the reporting thread may hold.
    shown: Option<File>,
}

static PLACES: AtomicPtr<Places> = AtomicPtr::new(ptr::null_mut());

impl Told {
    pub(super) fn new() -> io::Result<Self> {
        let mut places = Box::new(Places { kept: tempfile::tempfile()?, shown: error_output() });
        PLACES.store(&raw mut *places, SeqCst);
        Ok(Self { places })
    }

    /// Hears a report: the guard's [`OnReport::Call`](debug_guard::OnReport::Call).
    pub(super) fn hear(report: &Report<'_>) {
        // SAFETY: null, or the places of a `Told` that outlives its guard: see `Layers`.
        let Some(places) = (unsafe { PLACES.load(SeqCst).as_ref() }) else { return };
        // There is nobody to be told that it cannot be told.
        let _ = places.shown.as_ref().map(|file| Plain::new(file).write_fmt(format_args!("{report}\n")));
        let _ = keep(report, &mut Plain::new(&places.kept));
    }

    /// What was heard until now, with the functions in the stacks named: nobody is stopped in a signal handler any more.
    pub(super) fn read(&self) -> Vec<GuardReport> {
        let mut text = Vec::new();
        let mut file = &self.places.kept;
        let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
        if read.is_err() {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(&text);
        let mut symbols = Symbols::default();
        let named = |report: GuardReport| GuardReport { text: symbols.annotate(&report.text), ..report };
        text.split_terminator(END).take(MOST_REPORTS).map(parse).map(named).collect()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = PLACES.compare_exchange(&raw mut *self.places, ptr::null_mut(), SeqCst, SeqCst);
    }
}

/// The parts of a [`GuardReport`], in its order.
fn keep(report: &Report<'_>, out: &mut Plain<'_>) -> fmt::Result {
    let taken = report.block().map(|block| block.taken());
    let command = |deed: Option<Deed<'_>>| deed.and_then(|deed| deed.command()).unwrap_or("");
    write!(out, "{}{PART}", report.kind().name())?;
    write!(out, "{}{PART}", taken.map_or("", |taken| taken.owner()))?;
    write!(out, "{}{PART}", report.block().map_or("", |block| block.scope().name()))?;
    write!(out, "{}{PART}{}{PART}", command(taken), command(Some(report.by())))?;
    write!(out, "{report}{END}")?;
    out.flush()
}

fn parse(text: &str) -> GuardReport {
    let mut parts = text.split(PART).map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    GuardReport { kind: part(), owner: part(), scope: part(), command: part(), found_in: part(), text: part() }
}

/// Writes to a file with nothing between but a small buffer on the stack.
struct Plain<'f> {
    file: &'f File,
    buffer: [u8; 512],
    used: usize,
}

impl<'f> Plain<'f> {
    const fn new(file: &'f File) -> Self {
        Self { file, buffer: [0; 512], used: 0 }
    }

    fn flush(&mut self) -> fmt::Result {
        let written = self.file.write_all(&self.buffer[..self.used]);
        self.used = 0;
        written.map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Plain<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.used == self.buffer.len() {
                self.flush()?;
            }
            let room = &mut self.buffer[self.used..];
            let (now, later) = rest.split_at(rest.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.used += now.len();
            rest = later;
        }
        Ok(())
    }
}

impl Drop for Plain<'_> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// A second descriptor of the error output; none where the system has no such thing.
fn error_output() -> Option<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        io::stderr().as_fd().try_clone_to_owned().ok().map(File::from)
    }
    #[cfg(not(unix))]
    {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_the_buffer_arrives_whole() {
        let file = tempfile::tempfile().expect("a file");
        let text: String = (0..5_000).map(|n| format!("{n},")).collect();
        write!(Plain::new(&file), "{text}").expect("written");
        let mut read = String::new();
        (&file).rewind().and_then(|()| (&file).read_to_string(&mut read)).expect("read");
        assert_eq!(read, text);
    }

    #[test]
    fn parts_come_back_in_their_places() {
        let text = ["kind", "VkBuffer", "object", "vkCreateBuffer", "vkDestroyBuffer", "all\nof it"].join(&PART.to_string());
        let parsed = parse(&text);
        let GuardReport { kind, owner, scope, command, found_in, text } = parsed;
        assert_eq!([kind, owner, scope, command, found_in], ["kind", "VkBuffer", "object", "vkCreateBuffer", "vkDestroyBuffer"]);
        assert_eq!(text, "all\nof it");
    }
}
