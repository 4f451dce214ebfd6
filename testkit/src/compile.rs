//! Programs in C that tests run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// By program: whether there was a `cc` for it. Held while `cc` works: tests of one process wait for the one that
/// compiles.
static COMPILED: Mutex<BTreeMap<PathBuf, bool>> = Mutex::new(BTreeMap::new());

/// Compiles `source` with `cc` into the folder, once in a process, and returns the program. `None` where there is no
/// `cc`.
///
/// # Panics
/// When the source does not compile without a warning.
#[must_use]
pub fn compile_c(source: &Path, folder: &Path) -> Option<PathBuf> {
    compiled(source, folder.join(source.file_stem()?), &[])
}

/// The same for a shared library, which has the file's name behind `lib`.
///
/// # Panics
/// As [`compile_c`].
#[must_use]
pub fn compile_c_library(source: &Path, folder: &Path) -> Option<PathBuf> {
    let name = format!("lib{}.so", source.file_stem()?.to_str()?);
    compiled(source, folder.join(name), &["-shared", "-fPIC"])
}

fn compiled(source: &Path, program: PathBuf, options: &[&str]) -> Option<PathBuf> {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let has_compiler =
        *compiled.entry(program.clone()).or_insert_with_key(|program| has_compiled(source, program, options));
    has_compiler.then_some(program)
}

/// False where there is no `cc`.
fn has_compiled(source: &Path, program: &Path, options: &[&str]) -> bool {
    // Another process may be running the program: it is replaced, not overwritten.
    let new = program.with_extension(std::process::id().to_string());
    let status = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .args([&new, source])
        .args(options)
        .args(["-ldl", "-lpthread"])
        .status();
    let Ok(status) = status else { return false };
    assert!(status.success(), "{} does not compile", source.display());
    std::fs::rename(&new, program).expect("the folder is ours");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_want_one_program_at_once_get_it_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("nothing.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").expect("the folder is ours");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    if let Some(program) = compile_c(&source, folder.path()) {
                        let status = Command::new(program).status().expect("it starts");
                        assert!(status.success());
                    }
                });
            }
        });
    }
}
