//! Programs in C that tests run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` with `cc` into the folder, and returns the program. `None` where there is no `cc`.
///
/// # Panics
/// When the source does not compile without a warning.
#[must_use]
pub fn compile_c(source: &Path, folder: &Path) -> Option<PathBuf> {
    let program = folder.join(source.file_stem()?);
    // Another test may be running the program: it is replaced, not overwritten.
    let new = program.with_extension(std::process::id().to_string());
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .args([&new, source])
        .args(["-ldl", "-lpthread"])
        .status()
        .ok()?;
    assert!(compiled.success(), "{} does not compile", source.display());
    std::fs::rename(&new, &program).expect("the folder is ours");
    Some(program)
}
