//! Whether a crate's table of operations is complete, and whether its bodies do what it names.

use std::collections::BTreeSet;
use std::path::Path;

use crate::fixture::MemoryUse;
use crate::public_api::{const_api, public_api};
use crate::sweep::Swept;

/// Holds the table of the crate at `manifest` to its public functions, in both directions. A `const fn` asks no
/// allocator: it need not be named.
///
/// # Panics
/// When a public function has no operation, or a name is no public function (any more).
pub fn assert_every_function_is_named<'n>(manifest: &Path, names: impl IntoIterator<Item = &'n str>) {
    let named: BTreeSet<&str> = names.into_iter().collect();
    let offered = public_api(&manifest.join("src"));
    let offered: BTreeSet<&str> = offered.iter().map(String::as_str).collect();
    let constant = const_api(&manifest.join("src"));
    let missing: Vec<_> = (offered.difference(&named)).filter(|name| !constant.contains(**name)).collect();
    let gone: Vec<_> = named.difference(&offered).collect();
    assert!(missing.is_empty(), "public functions that no operation runs: {missing:?}");
    assert!(gone.is_empty(), "names that are no public function any more: {gone:?}");
}

/// Looks for each function as a word of code below `tests/it/operations`: a name in the table is no proof that its body
/// calls it.
///
/// # Panics
/// When a name stands in the table alone.
pub fn assert_bodies_call<'n>(manifest: &Path, names: impl IntoIterator<Item = &'n str>) {
    let directory = manifest.join("tests/it/operations");
    let mut words = BTreeSet::new();
    for file in directory.read_dir().expect("the table's directory") {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("a text");
        // Every second piece lies between quotes: names and messages.
        let code = text.split('"').step_by(2);
        words.extend(code.flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_')).map(str::to_owned));
    }
    for name in names {
        let function = name.rsplit("::").next().unwrap_or(name);
        assert!(words.contains(function), "{name} is in the table, and no body calls it");
    }
}

impl MemoryUse {
    /// Holds an operation to its word after each of its requests was refused alone.
    ///
    /// # Panics
    /// When it asked for less or more than it said, or got over refusals that it said to report.
    pub fn judge_each_alone(self, name: &str, swept: Swept) {
        let Swept { requests, failed, survived } = swept;
        match self {
            Self::Memory | Self::MemoryButKeeps(_) => {
                assert!(requests > 0 && survived == 0 && failed >= requests, "{name}: {swept:?}");
            }
            Self::MemoryOrLess(_) => assert!(requests > 0 && survived > 0, "{name}: {swept:?}"),
            Self::Nothing(why) => assert_eq!(requests, 0, "{name} was to take nothing: {why}"),
        }
    }

    /// Holds an operation to its word after each of its requests was refused together with all that follow.
    ///
    /// # Panics
    /// As [`MemoryUse::judge_each_alone`].
    pub fn judge_all_after(self, name: &str, swept: Swept) {
        match self {
            Self::Memory => assert!(swept.requests > 0 && swept.survived == 0, "{name}: {swept:?}"),
            Self::MemoryOrLess(_) | Self::MemoryButKeeps(_) => {
                assert!(swept.failed > 0, "{name}: {swept:?}");
            }
            Self::Nothing(why) => {
                assert_eq!(swept.requests, 0, "{name} was to take nothing: {why}");
            }
        }
    }
}
