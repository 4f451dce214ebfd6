//! The planted driver's shared library, which cargo has built beside these tests, and a manifest that names it.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

/// A manifest of the driver, in a folder of its own.
pub(crate) struct Manifest {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Manifest {
    pub(crate) fn new() -> Self {
        let test = std::env::current_exe().expect("a path");
        let library = test.with_file_name("libplanted_driver.so");
        assert!(library.exists(), "cargo builds it for these tests");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("reference_icd.json");
        let icd = serde_json::json!({ "library_path": library, "api_version": "1.1.0" });
        let text = serde_json::json!({ "file_format_version": "1.0.0", "ICD": icd });
        fs::write(&path, text.to_string()).expect("room");
        Self { _folder: folder, path }
    }
}
