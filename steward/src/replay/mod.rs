//! A trace in place of a driver: the same accounts, the same report.

pub mod bundled;
mod limits;
mod owners;
mod sink;
mod sites;

use std::io::Read as _;

use alloc_core::{Context, ContextOptions, HostAllocator, HostError, Scope};
use vk_callbacks::{
    CallbackError, CheckFinding, CheckOptions, Judge, Replay, TraceEvent, TraceReader,
};

use crate::input;
use bundled::BundledTrace;
use limits::TraceLimits;
use owners::OwnerContexts;
use sites::TraceSites;
use vk_report::report::origins::{EventLog, SiteRecorder};
use vk_report::report::{FindingRow, Report, Source, Unjudged};

/// The phase of requests before a trace's first phase.
const UNNAMED_PHASE: &str = "(no phase)";

/// Why a trace could not be replayed. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read, and no bundled trace has that name.
    #[error(
        "{file} cannot be read ({reason}): name a trace file, or one of the bundled traces: {}",
        bundled_names()
    )]
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
    #[error(
        "{file}, line {line}: it has more than {most} {what}, the most that are read: record less at once"
    )]
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
    #[error(
        "{file} holds no call, so there is nothing to replay or check: record one with `steward drive --record`"
    )]
    NoCalls {
        /// The requested name.
        file: String,
    },
    /// No memory for the accounts.
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
    /// [`ReplayError::Unreadable`], [`ReplayError::Compressed`], [`ReplayError::UnpacksTooLarge`].
    pub fn open(name: &str) -> Result<Self, ReplayError> {
        let (title, bytes) = input::read(name);
        match (bytes, bundled::find(name)) {
            (Ok(bytes), _) => Ok(Self {
                name: title.to_owned(),
                bytes: decompress(title, bytes)?,
            }),
            (Err(_), Some(trace)) => Self::bundled(trace),
            (Err(reason), None) => Err(ReplayError::Unreadable {
                file: title.to_owned(),
                reason,
            }),
        }
    }

    /// A bundled trace; [`ReplayError::Compressed`] if the program was built from a damaged file.
    fn bundled(trace: &BundledTrace) -> Result<Self, ReplayError> {
        let name = format!("{} (bundled)", trace.name);
        let bytes = decompress(&name, trace.compressed.to_vec())?;
        Ok(Self { name, bytes })
    }
}

/// Replays a trace into contexts over `backing` and reports as a live run does.
///
/// # Errors
/// [`ReplayError::Malformed`] names the line.
pub fn replay<A: HostAllocator + Sync>(
    backing: &A,
    trace: &TraceFile,
) -> Result<Report, ReplayError> {
    replay_into(backing, trace, SiteRecorder::default()).map(|(report, _)| report)
}

/// As [`replay`], with a recorder of call sites. Also returns the recorder's events in the order of lines, a microsecond each.
///
/// # Errors
/// As [`replay`].
pub fn replay_into<A: HostAllocator + Sync>(
    backing: &A,
    trace: &TraceFile,
    recorder: SiteRecorder,
) -> Result<(Report, EventLog), ReplayError> {
    let malformed = |error| ReplayError::Malformed {
        file: trace.name.clone(),
        error,
    };
    let reader = TraceReader::from_bytes(&trace.bytes).map_err(|error| malformed(error.into()))?;
    let driver = reader.driver().to_owned();

    // SAFETY: the backing is borrowed until this function returns. The tree is gone by then, even after an error or a panic: contexts,
    // handles, blocks and snapshots are in the locals below, which are dropped before `root`; the report holds numbers and names.
    let root = unsafe {
        Context::root(
            backing,
            ContextOptions::new("steward").scope(Scope::Instance),
        )
    }?;
    let records = root.child("records of the replay")?;
    let replayed = root.child("trace")?;
    let mut owners = OwnerContexts::new(replayed)?;
    let mut replay = Replay::new(&records);
    // A trace does not say whether it has all commands.
    let mut judge = Judge::new(&records, CheckOptions::default());
    let mut sites = TraceSites::new(recorder);
    let (mut phased, mut lost, mut lines) = (false, 0_u64, 0_u64);
    let mut limits = TraceLimits::default();
    for item in reader {
        let (line, event) = item.map_err(|error| malformed(error.into()))?;
        limits
            .admit(&event)
            .map_err(|(what, most)| ReplayError::TooMany {
                file: trace.name.clone(),
                line,
                what,
                most,
            })?;
        // Reports include what precedes the first phase.
        if !phased && !matches!(event, TraceEvent::Owner { .. }) {
            phased = true;
            if !matches!(event, TraceEvent::Phase { .. }) {
                replay.step(
                    line,
                    TraceEvent::Phase {
                        name: UNNAMED_PHASE,
                    },
                    &mut owners,
                )?;
            }
        }
        if let TraceEvent::Lost { events } = event {
            lost = lost.saturating_add(events);
        }
        judge.step(line, event)?;
        sites.step(line, &event);
        let before = owners.ended_phases();
        replay.step(line, event, &mut owners)?;
        sites.end_phase(line, before, owners.ended_phases());
        lines = line;
        if phased {
            owners.look(line, replay.totals());
        }
    }
    let before = owners.ended_phases();
    let totals = replay.finish(&mut owners)?;
    sites.end_phase(lines.saturating_add(1), before, owners.ended_phases());
    drop(replay);
    judge.finish();

    let source = Source::Trace {
        file: trace.name.clone(),
        driver,
        no_driver: None,
        lines: count_lines(&trace.bytes),
    };
    let mut report = Report::of_trace(source, owners.phases(), totals.all().peak_bytes);
    (report.contexts, report.fullest_phase) = owners.rows(&records, report.peak_bytes)?;
    report.timeline = owners.timeline();
    report.leftovers = owners.leftovers();
    report.leaks = Some(sites.leaks(&report.phases));
    report.call_sites = Some(sites.recorder.sites());
    report.findings = judge.findings(&records)?.iter().map(judged).collect();
    report.findings.extend(owners.findings());
    if let Some(leaks) = &mut report.leaks {
        leaks.name_rules(&report.findings);
    }
    report.unjudged = Unjudged::of_trace(judge.lost(), lost);
    report.limits = judge
        .limits()
        .map(|limit| format!("the trace: {limit}"))
        .collect();
    Ok((report, sites.recorder.drain_events()))
}

/// The judge's findings with the trace's line.
fn judged(found: &CheckFinding<'_>) -> FindingRow {
    let row = FindingRow::from(found);
    let first = if row.count > 1 {
        "first in line"
    } else {
        "line"
    };
    let sentence = format!("{}; {first} {}", row.sentence, row.first_serial);
    if row.first_serial == 0 {
        row
    } else {
        FindingRow { sentence, ..row }
    }
}

/// The bytes, decompressed as far as possible.
fn decompress(file: &str, bytes: Vec<u8>) -> Result<Vec<u8>, ReplayError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut text = Vec::new();
    let most = TraceFile::MAX_UNPACKED_BYTES;
    match flate2::read::MultiGzDecoder::new(bytes.as_slice())
        .take(most as u64 + 1)
        .read_to_end(&mut text)
    {
        Ok(length) if length > most => Err(ReplayError::UnpacksTooLarge {
            file: file.to_owned(),
        }),
        Ok(_) => Ok(text),
        Err(reason) => Err(ReplayError::Compressed {
            file: file.to_owned(),
            line: line_feeds(&text) + 1,
            reason,
        }),
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Lines; the last one may lack a line feed.
fn count_lines(bytes: &[u8]) -> u64 {
    line_feeds(bytes) + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

fn bundled_names() -> String {
    bundled::TRACES.map(|trace| trace.name).join(", ")
}
