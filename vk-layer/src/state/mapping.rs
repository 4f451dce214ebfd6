use std::fs::File;
use std::io::{self, Read as _};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use vk_report::state_file::{LENGTH, LENGTH_WITH_STACKS, WORDS};

use crate::os::{StateFile, admit_file_size};

pub(super) type Words = [AtomicU64; WORDS];

const BEGINNING: &[u8] = b"STEWARD";

#[derive(Clone, Copy, Debug)]
pub(super) struct MappedState {
    pub(super) words: NonNull<Words>,
    pub(super) length: usize,
}

/// Maps the file for as long as the process lives: with stacks, unless there is no room for them.
pub(super) fn create(name: &str, stacks: bool) -> io::Result<MappedState> {
    admit_file_size(LENGTH)?;
    let file = StateFile::create(name)?;
    let map = |length| {
        admit_file_size(length)?;
        let words = file.map(length)?.cast();
        Ok(MappedState { words, length })
    };
    let with_stacks = if stacks { map(LENGTH_WITH_STACKS) } else { Err(io::ErrorKind::Unsupported.into()) };
    let mapped = with_stacks.or_else(|_| map(LENGTH));
    if mapped.is_ok() {
        file.keep();
    } else {
        file.discard();
    }
    mapped
}

/// # Errors
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the file is no state file, nor empty.
pub(crate) fn admit_state_file(file: &mut File) -> io::Result<()> {
    if file.metadata()?.len() != 0 {
        let mut beginning = [0; BEGINNING.len()];
        let read = file.read_exact(&mut beginning);
        if read.is_err() || beginning != BEGINNING {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
    }
    Ok(())
}
