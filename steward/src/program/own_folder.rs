//! Folders of this program for temporary files. The folder of a process that was killed is removed by a later one.
//!
//! A folder is removed only where its process has provably ended: `os::own_folder` says how that is known.

#![forbid(unsafe_code)]

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

use super::run::place;
use crate::os::own_folder::{hold, remove_if_stale};
pub(crate) use crate::os::run_folder::{REPORTS, RUN};

pub(crate) const DRIVE: &str = "steward-drive-";
pub(crate) const METER: &str = "steward-meter-";
const PREFIXES: [&str; 3] = [RUN, DRIVE, METER];

/// Hold the signals as long as this folder: one that ends this process would leave the folder.
pub(crate) struct OwnFolder {
    /// Locked while this process needs the folder. Dropped first: Windows removes no folder with an open file.
    _held: File,
    folder: TempDir,
}

impl OwnFolder {
    /// Other users cannot read the folder. Those of processes that were killed are removed.
    pub(crate) fn new(prefix: &str) -> io::Result<Self> {
        let (temporary, fallback) = (env::temp_dir(), Path::new(place::FALLBACK));
        remove_stale(&temporary);
        remove_stale(fallback);
        Self::new_in(prefix, &temporary).or_else(|error| {
            // One that is full, is not there or may not be written to.
            Self::new_in(prefix, fallback).map_err(|_| error)
        })
    }

    fn new_in(prefix: &str, parent: &Path) -> io::Result<Self> {
        let folder = place::new_folder(prefix, parent)?;
        let _held = hold(folder.path())?;
        Ok(Self { _held, folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_named = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if PREFIXES.into_iter().any(is_named) {
            remove_if_stale(&entry.path());
        }
    }
}
