//! The files that a command line names as outputs, and their errors. `vk_report::files` has the rules.

#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use vk_report::files::{self, PRIVATE, Written};

use super::ProgramError;
use crate::input::PIPE_WAIT;

/// Leaves no file behind. Call it before long work.
pub(super) fn check(file: &Path) -> Result<(), ProgramError> {
    let checked = files::check(file).map(drop);
    checked.map_err(|reason| unwritable(file, reason))
}

pub(super) fn write_and_say(file: &Path, bytes: &[u8]) -> Result<(), ProgramError> {
    let written = write_to_reader(file, bytes).map_err(|reason| unwritable(file, reason))?;
    // The reader of a pipe or a terminal needs no message.
    if written == Written::File {
        let _ = writeln!(io::stderr(), "wrote {}", file.display());
    }
    Ok(())
}

pub(super) fn write_trace(file: &Path, trace: &[u8]) -> Result<(), ProgramError> {
    if file.extension().is_none_or(|ending| ending != "gz") {
        return write_and_say(file, trace);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packed.write_all(trace).and_then(|()| packed.finish());
    write_and_say(file, &packed.map_err(|reason| unwritable(file, reason))?)
}

/// The reader of a pipe may be about to start: the wait has a limit.
fn write_to_reader(file: &Path, bytes: &[u8]) -> io::Result<Written> {
    const PAUSE: Duration = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    loop {
        match files::write(file, bytes, PRIVATE) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected && waited < PIPE_WAIT => {
                thread::sleep(PAUSE);
                waited += PAUSE;
            }
            written => return written,
        }
    }
}

pub(super) fn unwritable(file: &Path, reason: io::Error) -> ProgramError {
    ProgramError::Unwritable { file: file.display().to_string(), reason }
}
