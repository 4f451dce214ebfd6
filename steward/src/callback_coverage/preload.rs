use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use tempfile::{Builder, TempPath};

use super::{CoverageError, unwritable};

const LIBRARY: Result<&[u8], &str> = include!(concat!(env!("OUT_DIR"), "/meter.rs"));

const VARIABLE: &str = "LD_PRELOAD";

/// A file with the meter's library. It is deleted on drop.
#[derive(Debug)]
pub struct Preload(TempPath);

impl Preload {
    /// Writes the library to the folder for temporary files.
    ///
    /// # Errors
    /// [`CoverageError`]: there is no meter for this platform, or the folder is not usable.
    pub fn new() -> Result<Self, CoverageError> {
        Self::new_in(&env::temp_dir())
    }

    /// Writes the library to this folder.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn new_in(folder: &Path) -> Result<Self, CoverageError> {
        let library = LIBRARY.map_err(|reason| CoverageError::NotBuilt { reason: reason.to_owned() })?;
        let mut file = Builder::new().prefix("steward-meter-").suffix(".so").tempfile_in(folder).map_err(unwritable)?;
        file.write_all(library).map_err(unwritable)?;
        // The file is closed: some systems cannot load a file that is open for writing.
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

    /// Makes the child load the meter, and no other library first: another preloaded allocator would have to free
    /// blocks that are not its own.
    pub fn load_into<'c>(&self, child: &'c mut Command) -> &'c mut Command {
        child.env(VARIABLE, OsString::from(self.path()))
    }
}
