//! The shader cache beside a list: random owners, compiles, holds, deletions and limits, host refusals among them.

mod program;

use crate::*;

use program::cache_ops;
use program::subject::{CacheSubject, TIMES};

/// What a program can meet.
const EVENTS: [&str; 18] = [
    "the last hold of one that was taken out",
    "driven out by a limit",
    "driven out as its hold went",
    "over a limit, and all are held",
    "the key of another device",
    "found, its own",
    "found, another owner's",
    "no host memory",
    "a compile that unwinds",
    "a compile that asks again",
    "a compile that fails",
    "made",
    "found without asking",
    "the end of an owner refused",
    "the end of an owner of held ones",
    "the end of an owner",
    "deleted while held",
    "all of a device released",
];

fn run(bytes: &[u8]) -> (Ran, Tried) {
    cache_ops(bytes, CacheSubject::new)
}

#[test]
fn the_seeds_meet_everything() {
    seeds_met("cache_ops", run).assert_at_least(1, 0..0, &EVENTS);
}

/// 4 * 10^4 operations; with `STEWARD_LONG` (for release builds) 10^7.
#[test]
fn h58_h61_h62_h63_h64_h66_h67_h71_h73_ge9_shaders_are_the_lists() {
    replay("cache_ops", 200, |bytes| run(bytes).0);
    let (tried, long) = random_of_both("cache_ops", [256, 16 << 10], 20_000, run);
    tried.assert_at_least(if long { 1000 } else { 50 }, 0..0, &EVENTS);
    let times = TIMES.load(Relaxed);
    assert!(times > 1000, "compilers and destructors called back {times} times");
}
