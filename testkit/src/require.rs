//! Skips that say so, and that a continuous build can forbid; a driver that is named for the tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names, separated by commas, of what must be there: a test that would skip for the lack of one of them fails instead.
const REQUIRE: &str = "STEWARD_REQUIRE";

/// Names the manifest of a SwiftShader that the loader does not find by itself; relative to the repository.
const SWIFTSHADER: &str = "STEWARD_SWIFTSHADER";

/// The manifest that the environment variable `STEWARD_SWIFTSHADER` names, if it is set. Tests run in their package's
/// folder, whoever sets the variable stands in the repository's.
///
/// # Panics
/// When there is no such file: a test that was meant to run would be skipped.
#[must_use]
pub fn swiftshader() -> Option<PathBuf> {
    let named = std::env::var_os(SWIFTSHADER).filter(|named| !named.is_empty())?;
    Some(manifest(&named).unwrap_or_else(|reason| panic!("{reason}")))
}

fn manifest(named: &OsString) -> Result<PathBuf, String> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(""));
    let file = repository.join(named);
    match file.is_file() {
        true => Ok(file),
        false => Err(format!(
            "{SWIFTSHADER} names {}, which is no file: unset it, or name SwiftShader's manifest",
            file.display()
        )),
    }
}

/// Prints `SKIPPED <test>: <reason>`. The caller then returns.
///
/// # Panics
/// When the environment variable `STEWARD_REQUIRE` lists `what` (`lavapipe`, `swiftshader`, `uffd`, ..).
pub fn skip(what: &str, test: &str, reason: &str) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(!lists(&required, what), "{test} may not be skipped, {REQUIRE} lists {what}: {reason}");
    println!("SKIPPED {test}: {reason}");
}

fn lists(required: &str, what: &str) -> bool {
    required.split(',').any(|name| name.trim().eq_ignore_ascii_case(what))
}

#[cfg(test)]
mod tests {
    use super::{lists, manifest};

    #[test]
    fn whole_names_count() {
        assert!(lists("swiftshader, Lavapipe", "lavapipe"));
        assert!(!lists("lavapipe2,uffd", "lavapipe"));
        assert!(!lists("", "lavapipe"));
    }

    #[test]
    fn a_manifest_is_named_from_the_repository_and_is_there() {
        let there = manifest(&"testkit/Cargo.toml".into()).expect("a file");
        assert!(there.is_absolute() && there.ends_with("testkit/Cargo.toml"));
        assert_eq!(manifest(&there.clone().into()), Ok(there));
        for absent in ["nowhere.json", "/nonexistent.json", "testkit"] {
            assert!(
                manifest(&absent.into()).is_err_and(|reason| reason.contains(absent) && reason.contains("unset it")),
                "{absent}"
            );
        }
    }
}
