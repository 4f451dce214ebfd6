//! The meter's library, which the program carries with it: written to a file for as long as children need it.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use tempfile::{Builder, TempPath};

use super::{CoverageError, unwritable};

/// What `build.rs` made, or why it made nothing.
const LIBRARY: Result<&[u8], &str> = include!(concat!(env!("OUT_DIR"), "/meter.rs"));

/// Names libraries that the dynamic linker is to load before all others, separated by colons or blanks.
const VARIABLE: &str = "LD_PRELOAD";

/// A file with the meter's library; it goes when this is dropped.
#[derive(Debug)]
pub struct Preload(TempPath);

impl Preload {
    /// Writes the library to the folder for temporary files.
    ///
    /// # Errors
    /// [`CoverageError`]: there is no meter for this platform, or the folder does not do.
    pub fn new() -> Result<Self, CoverageError> {
        let library = LIBRARY.map_err(|reason| CoverageError::NotBuilt {
            reason: reason.to_owned(),
        })?;
        let mut file = Builder::new()
            .prefix("steward-meter-")
            .suffix(".so")
            .tempfile()
            .map_err(unwritable)?;
        file.write_all(library).map_err(unwritable)?;
        // Closed: a file that is open for writing cannot be loaded everywhere.
        let path = file.into_temp_path();
        if path.to_string_lossy().contains([':', ' ', '\t', '\n', '$']) {
            let reason = format!("{} has blanks or colons in its name", path.display());
            return Err(unwritable(reason));
        }
        Ok(Self(path))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the child load the meter, and nothing else first: another allocator that is preloaded would be given blocks to free
    /// that are not its own.
    pub fn load_into<'c>(&self, child: &'c mut Command) -> &'c mut Command {
        child.env(VARIABLE, OsString::from(self.path()))
    }
}
