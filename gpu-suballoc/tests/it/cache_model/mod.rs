//! The shader cache beside a list: random owners, compiles, holds, deletions and limits, host refusals among them.

mod subject;

use std::sync::atomic::Ordering::Relaxed;

use subject::{CacheSubject, TIMES};
use testkit::programs::{Ran, Tried, cache_ops, random, replay, replay_seeds};

/// What a program can meet.
const EVENTS: [&str; 18] = [
    "the last hold of one that was taken out",
    "driven out by a limit",
    "over a limit, and all are held",
    "the key of another device",
    "found, its own",
    "found, another owner's",
    "no host memory",
    "a compile that unwinds",
    "a compile that asks again",
    "a compile that fails",
    "made, the key's contents differ",
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

/// From there a fuzzer goes on.
#[test]
fn the_seeds_meet_everything() {
    let mut tried = Tried::default();
    replay_seeds("cache_ops", |bytes| tried.add(&run(bytes).1));
    tried.assert_at_least(1, 0..0, &EVENTS);
}

/// 10^5 operations; with `STEWARD_LONG` (for release builds) 10^7.
#[test]
fn shaders_are_the_lists() {
    let long = std::env::var_os("STEWARD_LONG").is_some();
    replay("cache_ops", 200, |bytes| run(bytes).0);
    let mut tried = Tried::default();
    // Short programs meet what only beginnings have, long ones what is full.
    for len in [256, 16 << 10] {
        random(
            "cache_ops",
            if long { 5_000_000 } else { 50_000 },
            len,
            |bytes| {
                let (ran, met) = run(bytes);
                tried.add(&met);
                ran
            },
        );
    }
    tried.assert_at_least(if long { 1000 } else { 50 }, 0..0, &EVENTS);
    let times = TIMES.load(Relaxed);
    assert!(
        times > 1000,
        "compilers and destructors called back {times} times"
    );
}
