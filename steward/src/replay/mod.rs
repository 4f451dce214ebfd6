//! A trace in place of a driver: the same report.

mod accounts;
pub mod bundled;
mod limits;
mod sites;

use std::alloc::System;
use std::io::Read as _;

use alloc_core::{FromGlobalAlloc, HostError, Scope, Scoped};
use vk_callbacks::{CallbackError, CheckFinding, CheckOptions, Judge, TraceEvent, TraceReader};

use crate::input;
use bundled::BundledTrace;
use limits::TraceLimits;
use sites::TraceSites;
use vk_report::report::origins::{EventLog, SiteRecorder};
use vk_report::report::{FindingRow, Report, Source, Unjudged};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// Why a trace could not be replayed. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read, and no bundled trace has that name.
    #[error("{file} cannot be read ({reason}): name a trace file, or one of the bundled traces: {}", bundled_names())]
    Unreadable {
        /// The requested name.
        file: String,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// Compressed data is cut off or damaged.
    #[error(
        "{file}, line {line}: the compressed data cannot be read on ({reason}): the file was cut off or damaged, copy it again"
    )]
    Compressed {
        /// The requested name.
        file: String,
        /// The incomplete line.
        line: u64,
        /// The error.
        reason: std::io::Error,
    },
    /// Compressed data unpacks to more than [`TraceFile::MAX_UNPACKED_BYTES`].
    #[error(
        "{file} unpacks to more than {}: if you trust it, unpack it with `gzip -d` and name what comes of it",
        vk_report::units::bytes(TraceFile::MAX_UNPACKED_BYTES as u64)
    )]
    UnpacksTooLarge {
        /// The requested name.
        file: String,
    },
    /// More owners, phases or threads than a trace may have.
    #[error("{file}, line {line}: it has more than {most} {what}, the most that are read: record less at once")]
    TooMany {
        /// The requested name.
        file: String,
        /// The line that has one too many.
        line: u64,
        /// Of what there are too many.
        what: &'static str,
        /// The most that are read.
        most: usize,
    },
    /// A line breaks the format.
    #[error("{file}, {error}")]
    Malformed {
        /// The requested name.
        file: String,
        /// The line and what it should be.
        error: CallbackError,
    },
    /// No line is about a call.
    #[error("{file} holds no call, so there is nothing to replay or check: record one with `steward drive --record`")]
    NoCalls {
        /// The requested name.
        file: String,
    },
    /// No memory for the judge.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A trace's text and name.
#[derive(Clone, Debug)]
pub struct TraceFile {
    /// Its name in reports.
    pub name: String,
    /// Its bytes, decompressed.
    pub bytes: Vec<u8>,
}

impl TraceFile {
    /// The most bytes that a compressed trace may unpack to.
    pub const MAX_UNPACKED_BYTES: usize = 256 << 20;

    /// Reads a file, gzip-compressed or not, or else the bundled trace of that name. `-` is the standard input.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or unpacks to too much.
    pub fn open(name: &str) -> Result<Self, ReplayError> {
        let (title, bytes) = input::read(name);
        match (bytes, bundled::find(name)) {
            (Ok(bytes), _) => Ok(Self { name: title.to_owned(), bytes: decompress(title, bytes)? }),
            (Err(_), Some(trace)) => Self::bundled(trace),
            (Err(reason), None) => Err(ReplayError::Unreadable { file: title.to_owned(), reason }),
        }
    }

    /// A bundled trace; [`ReplayError::Compressed`] if the program was built from a damaged file.
    fn bundled(trace: &BundledTrace) -> Result<Self, ReplayError> {
        let name = format!("{} (bundled)", trace.name);
        let bytes = decompress(&name, trace.compressed.to_vec())?;
        Ok(Self { name, bytes })
    }
}

/// Reports on a trace as on a live run.
///
/// # Errors
/// [`ReplayError::Malformed`] names the line.
pub fn replay(trace: &TraceFile) -> Result<Report, ReplayError> {
    replay_into(trace, SiteRecorder::default()).map(|(report, _)| report)
}

/// As [`replay`], with a recorder of call sites. Also returns the recorder's events in the order of lines, a
/// microsecond each.
///
/// # Errors
/// As [`replay`].
pub fn replay_into(trace: &TraceFile, recorder: SiteRecorder) -> Result<(Report, EventLog), ReplayError> {
    let malformed = |error| ReplayError::Malformed { file: trace.name.clone(), error };
    let reader = TraceReader::from_bytes(&trace.bytes).map_err(|error| malformed(error.into()))?;
    let driver = reader.driver().to_owned();
    // A trace does not say whether it has all commands.
    let mut judge = Judge::new(&SYSTEM, CheckOptions::default());
    let mut sites = TraceSites::new(recorder);
    let (mut lost, mut lines) = (0_u64, 0_u64);
    let mut limits = TraceLimits::default();
    for item in reader {
        let (line, event) = item.map_err(|error| malformed(error.into()))?;
        limits.admit(&event).map_err(|(what, most)| ReplayError::TooMany {
            file: trace.name.clone(),
            line,
            what,
            most,
        })?;
        if let TraceEvent::Lost { events } = event {
            lost = lost.saturating_add(events);
        }
        judge.step(line, event)?;
        sites.step(line, &event);
        lines = line;
    }
    sites.end(lines.saturating_add(1));
    judge.finish();

    let source = Source::Trace { file: trace.name.clone(), driver, no_driver: None, lines: count_lines(&trace.bytes) };
    let accounts = &mut sites.accounts;
    let phases = std::mem::take(&mut accounts.phases);
    let mut report = Report::of_trace(source, phases, accounts.peak_bytes());
    (report.contexts, report.fullest_phase) = accounts.rows();
    report.timeline = accounts.timeline();
    report.leftovers = accounts.leftovers();
    report.leaks = Some(sites.leaks(&report.phases));
    report.call_sites = Some(sites.recorder.sites());
    let memory = Scoped::new(&SYSTEM, Scope::Command);
    report.findings = judge.findings(memory)?.iter().map(judged).collect();
    let events = sites.recorder.drain_events();
    report.findings.extend(sites.accounts.findings());
    if let Some(leaks) = &mut report.leaks {
        leaks.name_rules(&report.findings);
    }
    report.unjudged = Unjudged::of_trace(judge.lost(), lost);
    report.limits = judge.limits().map(|limit| format!("the trace: {limit}")).collect();
    Ok((report, events))
}

fn judged(found: &CheckFinding<'_>) -> FindingRow {
    let row = FindingRow::from(found);
    let first = if row.count > 1 { "first in line" } else { "line" };
    let sentence = format!("{}; {first} {}", row.sentence, row.first_serial);
    if row.first_serial == 0 { row } else { FindingRow { sentence, ..row } }
}

fn decompress(file: &str, bytes: Vec<u8>) -> Result<Vec<u8>, ReplayError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut text = Vec::new();
    let most = TraceFile::MAX_UNPACKED_BYTES;
    match flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(most as u64 + 1).read_to_end(&mut text) {
        Ok(length) if length > most => Err(ReplayError::UnpacksTooLarge { file: file.to_owned() }),
        Ok(_) => Ok(text),
        Err(reason) => Err(ReplayError::Compressed { file: file.to_owned(), line: line_feeds(&text) + 1, reason }),
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn count_lines(bytes: &[u8]) -> u64 {
    line_feeds(bytes) + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

fn bundled_names() -> String {
    bundled::TRACES.map(|trace| trace.name).join(", ")
}
