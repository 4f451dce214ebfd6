//! A trace in place of a driver: the same accounts, the same report.

mod owners;

use std::io::Read as _;
use std::path::Path;

use alloc_core::{Context, ContextOptions, HostAllocator, HostError, Scope};
use vk_callbacks::{CallbackError, Replay, TraceReader};

use crate::bundled::{self, BundledTrace};
use crate::report::{Report, Source};
use owners::OwnerContexts;

/// Why a trace could not be replayed. Each says in one sentence what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read, and no bundled trace has that name.
    #[error("{file} cannot be read ({reason}): name a trace file, or one of the bundled traces: {}", bundled_names())]
    Unreadable {
        /// What was asked for.
        file: String,
        /// What the operating system said.
        reason: std::io::Error,
    },
    /// A line is not what the format says.
    #[error("{file}, {error}")]
    Malformed {
        /// What was asked for.
        file: String,
        /// The line, and what was expected there.
        error: CallbackError,
    },
    /// No memory for the accounts.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The text of a trace, and what to call it.
#[derive(Clone, Debug)]
pub struct TraceFile {
    /// How reports call it.
    pub name: String,
    /// Its bytes, decompressed.
    pub bytes: Vec<u8>,
}

impl TraceFile {
    /// Reads a file, gzip-compressed or not; where there is none, a bundled trace of that name.
    ///
    /// # Errors
    /// [`ReplayError::Unreadable`].
    pub fn open(name: &str) -> Result<Self, ReplayError> {
        let unreadable = |reason| ReplayError::Unreadable { file: name.to_owned(), reason };
        match std::fs::read(Path::new(name)) {
            Ok(bytes) => Ok(Self { name: name.to_owned(), bytes: decompress(bytes).map_err(unreadable)? }),
            Err(reason) => bundled::find(name).map(Self::bundled).unwrap_or_else(|| Err(unreadable(reason))),
        }
    }

    /// A trace of the program's own.
    ///
    /// # Errors
    /// [`ReplayError::Unreadable`], if the program was built from a damaged file.
    pub fn bundled(trace: &BundledTrace) -> Result<Self, ReplayError> {
        let name = format!("{} (bundled)", trace.name);
        let bytes = decompress(trace.compressed.to_vec())
            .map_err(|reason| ReplayError::Unreadable { file: name.clone(), reason })?;
        Ok(Self { name, bytes })
    }
}

/// Replays a trace into contexts over `backing` and reports as a live run does. `no_driver` is why no driver was run.
///
/// # Errors
/// [`ReplayError::Malformed`] names the line.
pub fn replay<A: HostAllocator + Sync>(backing: &A, trace: &TraceFile, no_driver: Option<String>) -> Result<Report, ReplayError> {
    let malformed = |error| ReplayError::Malformed { file: trace.name.clone(), error };
    let reader = TraceReader::from_bytes(&trace.bytes).map_err(|error| malformed(error.into()))?;
    let (format, driver) = (reader.format(), reader.driver().to_owned());

    // SAFETY: the backing outlives this function; whatever could not be closed is abandoned below.
    let root = unsafe { Context::root(backing, ContextOptions::new("steward").scope(Scope::Instance)) }?;
    let records = root.child("records of the replay")?;
    let replayed = root.child("trace")?;
    let mut owners = OwnerContexts::new(replayed, &records)?;
    let mut replay = Replay::new(&records);
    let totals = replay.run(reader, &mut owners).map_err(malformed)?;
    drop(replay);

    let (contexts, fullest_phase) = owners.rows(&records)?;
    Ok(Report {
        format: Report::FORMAT,
        source: Source::Trace { file: trace.name.clone(), driver, no_driver, lines: count_lines(&trace.bytes) },
        phases: owners.phases(),
        contexts,
        fullest_phase,
        peak_bytes: totals.all().peak_bytes,
        peak_slack: 0,
        leftovers: owners.leftovers(),
        findings: owners.findings(),
        limits: format.limits().iter().map(|limit| format!("{format}: {limit}")).collect(),
    })
}

fn decompress(bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut text)?;
    Ok(text)
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn bundled_names() -> String {
    bundled::TRACES.map(|trace| trace.name).join(", ")
}
