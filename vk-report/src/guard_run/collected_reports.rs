//! Reports of a guard, kept until the run is over. A report may come from a signal handler, so that it is only written
//! to files.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use debug_guard::{Actor, Report};

use crate::report::GuardReport;

/// The most reports kept; all are counted, and written to the error output.
const MAX_REPORTS: usize = 100;
const PART: char = '\u{1f}';
const END: char = '\u{1e}';

pub(super) struct CollectedReports {
    files: &'static ReportFiles,
    slot: usize,
}

struct ReportFiles {
    kept: File,
    /// A descriptor of its own: the standard library's has a lock, which the reporting thread may hold.
    shown: Option<File>,
}

/// The most guarded runs of one process at once.
pub(super) const MAX_GUARDS: usize = 8;

static COLLECTORS: [AtomicPtr<ReportFiles>; MAX_GUARDS] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_GUARDS];

/// A guard's function gets only the report, so that the function itself must say which collector is meant.
const FUNCTIONS: [fn(&Report<'_>); MAX_GUARDS] =
    [collect::<0>, collect::<1>, collect::<2>, collect::<3>, collect::<4>, collect::<5>, collect::<6>, collect::<7>];

fn collect<const SLOT: usize>(report: &Report<'_>) {
    if let Some(collector) = COLLECTORS.get(SLOT) {
        CollectedReports::collect(collector, report);
    }
}

impl CollectedReports {
    pub(super) fn new() -> io::Result<Option<Self>> {
        let own = Box::into_raw(Box::new(ReportFiles { kept: tempfile::tempfile()?, shown: error_output() }));
        let claim = |slot: &AtomicPtr<ReportFiles>| {
            let claimed = slot.compare_exchange(ptr::null_mut(), own, SeqCst, SeqCst);
            claimed.is_ok()
        };
        let Some(slot) = COLLECTORS.iter().position(claim) else {
            // SAFETY: made above, and in no slot.
            drop(unsafe { Box::from_raw(own) });
            return Ok(None);
        };
        // SAFETY: made above; what was in a slot stays for the rest of the process.
        Ok(Some(Self { files: unsafe { &*own }, slot }))
    }

    pub(super) fn function(&self) -> fn(&Report<'_>) {
        FUNCTIONS.get(self.slot).copied().unwrap_or(collect::<0>)
    }

    fn collect(collector: &AtomicPtr<ReportFiles>, report: &Report<'_>) {
        // SAFETY: null, or files that stay for the rest of the process.
        let Some(files) = (unsafe { collector.load(SeqCst).as_ref() }) else {
            return;
        };
        // Errors cannot be reported here.
        let _ = files.shown.as_ref().map(|file| PlainReport::new(file).write_fmt(format_args!("{report}\n")));
        let _ = keep(report, &mut PlainReport::new(&files.kept));
    }

    pub(super) fn read(&self) -> Vec<GuardReport> {
        let mut text = Vec::new();
        let mut file = &self.files.kept;
        let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
        if read.is_err() {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(&text);
        text.split_terminator(END).take(MAX_REPORTS).map(parse).collect()
    }
}

impl Drop for CollectedReports {
    fn drop(&mut self) {
        if let Some(collector) = COLLECTORS.get(self.slot) {
            collector.store(ptr::null_mut(), SeqCst);
        }
    }
}

fn keep(report: &Report<'_>, out: &mut PlainReport<'_>) -> fmt::Result {
    let allocated = report.block.map(|block| block.allocated);
    let command = |actor: Option<Actor<'_>>| actor.and_then(|actor| actor.command).unwrap_or("");
    write!(out, "{}{PART}", report.kind.name())?;
    write!(out, "{}{PART}", allocated.map_or("", |allocated| allocated.owner))?;
    write!(out, "{}{PART}", report.block.map_or("", |block| block.scope.name()))?;
    write!(out, "{}{PART}{}{PART}", command(allocated), command(Some(report.by)))?;
    write!(out, "{report}{END}")?;
    out.flush()
}

fn parse(text: &str) -> GuardReport {
    let mut parts = text.split(PART).map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    GuardReport { kind: part(), owner: part(), scope: part(), command: part(), found_in: part(), text: part() }
}

struct PlainReport<'f> {
    file: &'f File,
    buffer: [u8; 512],
    used: usize,
}

impl<'f> PlainReport<'f> {
    const fn new(file: &'f File) -> Self {
        Self { file, buffer: [0; 512], used: 0 }
    }

    fn flush(&mut self) -> fmt::Result {
        let written = self.file.write_all(self.buffer.get(..self.used).unwrap_or_default());
        self.used = 0;
        written.map_err(|_| fmt::Error)
    }
}

impl fmt::Write for PlainReport<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.used == self.buffer.len() {
                self.flush()?;
            }
            let mut room = self.buffer.get_mut(self.used..).unwrap_or_default();
            let copied = room.write(rest).map_err(|_| fmt::Error)?;
            self.used += copied;
            rest = rest.get(copied..).unwrap_or_default();
        }
        Ok(())
    }
}

impl Drop for PlainReport<'_> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// `None` where the system has no second descriptor.
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
        write!(PlainReport::new(&file), "{text}").expect("written");
        let mut read = String::new();
        (&file).rewind().and_then(|()| (&file).read_to_string(&mut read)).expect("read");
        assert_eq!(read, text);
    }

    #[test]
    fn parts_come_back_in_their_places() {
        let text =
            ["kind", "VkBuffer", "object", "vkCreateBuffer", "vkDestroyBuffer", "all\nof it"].join(&PART.to_string());
        let parsed = parse(&text);
        let GuardReport { kind, owner, scope, command, found_in, text } = parsed;
        assert_eq!(
            [kind, owner, scope, command, found_in],
            ["kind", "VkBuffer", "object", "vkCreateBuffer", "vkDestroyBuffer"]
        );
        assert_eq!(text, "all\nof it");
    }
}
