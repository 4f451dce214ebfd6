//! A virtual block beside an interval model: random operations, host refusals among them, and no refusal while a hole fits.

mod subject;

use subject::RangeSubject;
use testkit::programs::{Ran, Tried, random, range_ops, replay, replay_seeds};

const EVENTS: [&str; 5] = [
    "refused for lack of a hole",
    "refused for lack of host memory",
    "stale id",
    "bad request",
    "clear",
];

fn run(bytes: &[u8]) -> (Ran, Tried) {
    range_ops(bytes, RangeSubject::new)
}

/// From there a fuzzer goes on.
#[test]
fn the_seeds_meet_everything() {
    let mut tried = Tried::default();
    replay_seeds("range_ops", |bytes| tried.add(&run(bytes).1));
    tried.assert_at_least(1, 0..20, &EVENTS);
}

/// 10^5 operations; with `STEWARD_LONG` (for release builds) 10^7, in which each class came up a thousand times.
#[test]
fn ranges_are_the_models() {
    let long = std::env::var_os("STEWARD_LONG").is_some();
    replay("range_ops", 200, |bytes| run(bytes).0);
    let mut tried = Tried::default();
    // Short programs meet what only beginnings have, long ones what is full.
    for len in [256, 16 << 10] {
        random(
            "range_ops",
            if long { 5_000_000 } else { 50_000 },
            len,
            |bytes| {
                let (ran, met) = run(bytes);
                tried.add(&met);
                ran
            },
        );
    }
    tried.assert_at_least(
        if long { 1000 } else { 20 },
        0..if long { 21 } else { 9 },
        &EVENTS,
    );
}
