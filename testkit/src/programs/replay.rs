//! Runs committed seeds and fresh random programs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::programs::{Ran, Tried};
use crate::rng::Rng;

/// So many random cases, or as few as the environment variable `PROPTEST_CASES` allows: where a system is tested, and
/// not arithmetic.
#[must_use]
pub fn cases(most: u64) -> u64 {
    let allowed = std::env::var("PROPTEST_CASES").ok();
    let allowed = allowed.and_then(|allowed| allowed.parse().ok());
    allowed.map_or(most, |allowed: u64| allowed.min(most))
}

/// Runs `program` on every file under `testkit/seeds/<target>/`, then on `random` programs of up to 512 random bytes,
/// and checks that the random ones were worth it.
///
/// # Panics
/// When a program panics, after printing which; when there is no seed; when fewer than half of the operations took
/// effect.
pub fn replay(target: &str, random: u64, mut program: impl FnMut(&[u8]) -> Ran) -> Ran {
    replay_seeds(target, |bytes| {
        program(bytes);
    });
    let (mut all, random) = (Ran::default(), cases(random));
    for number in 0..random {
        let told = ReplayReport(format!("random program {number} of {target}"));
        let mut rng = Rng::new(number);
        let len = 16 + rng.below(497) as usize;
        all.add(program(&rng.bytes(len)));
        std::mem::forget(told);
    }
    println!("{target}: {random} random programs, {all:?}");
    all.assert_meaningful();
    all
}

/// Runs `program` on every file under `testkit/seeds/<target>/`.
///
/// # Panics
/// When a program panics, after printing which; when there is no seed.
pub fn replay_seeds(target: &str, mut program: impl FnMut(&[u8])) {
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "no seeds for {target}");
    for path in seeds {
        let told = ReplayReport(path.display().to_string());
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        program(&bytes);
        std::mem::forget(told);
    }
}

/// Runs `program` on the text of every file under `testkit/seeds/named/<target>/`.
///
/// # Panics
/// When a program panics, after printing which; when there is none.
pub fn replay_named(target: &str, mut program: impl FnMut(&str)) {
    replay_seeds(&format!("named/{target}"), |bytes| {
        program(std::str::from_utf8(bytes).expect("a named program is text"))
    });
}

/// Runs `program` on random programs of `len` bytes until at least `operations` were run, and checks that they were
/// worth it.
///
/// # Panics
/// As [`replay`]; without seeds.
pub fn random(target: &str, operations: u64, len: usize, mut program: impl FnMut(&[u8]) -> Ran) -> Ran {
    let mut all = Ran::default();
    let mut number = 0;
    while all.operations < operations {
        let told = ReplayReport(format!("random program {number} of {target}, {len} bytes"));
        all.add(program(&Rng::new(number).bytes(len)));
        number += 1;
        std::mem::forget(told);
    }
    println!("{target}: {number} random programs of {len} bytes, {all:?}");
    all.assert_meaningful();
    all
}

/// Runs `program` on random programs of each of `lens` bytes, `operations` of either length; with `STEWARD_LONG` (for
/// release builds) 250 times as many. Short programs meet what only beginnings have, long ones what is full.
///
/// What they met, and whether the run was long.
///
/// # Panics
/// As [`random`].
pub fn random_of_both(
    target: &str,
    lens: [usize; 2],
    operations: u64,
    mut program: impl FnMut(&[u8]) -> (Ran, Tried),
) -> (Tried, bool) {
    let long = std::env::var_os("STEWARD_LONG").is_some();
    let operations = if long { operations * 250 } else { operations };
    let mut tried = Tried::default();
    for len in lens {
        random(target, operations, len, |bytes| {
            let (ran, met) = program(bytes);
            tried.add(&met);
            ran
        });
    }
    (tried, long)
}

/// What the committed seeds meet. From there a fuzzer goes on.
///
/// # Panics
/// As [`replay_seeds`].
pub fn seeds_met(target: &str, mut program: impl FnMut(&[u8]) -> (Ran, Tried)) -> Tried {
    let mut tried = Tried::default();
    replay_seeds(target, |bytes| tried.add(&program(bytes).1));
    tried
}

fn seeds(target: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.sort();
    files
}

/// Says which program it was when one panics.
struct ReplayReport(String);

impl Drop for ReplayReport {
    fn drop(&mut self) {
        eprintln!("failed: {}", self.0);
    }
}
