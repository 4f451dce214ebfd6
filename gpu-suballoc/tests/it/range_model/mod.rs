//! A virtual block beside an interval model: random operations, host refusals among them, and no refusal while a hole fits.

mod program;

use program::range_ops;
use program::subject::RangeSubject;
use testkit::programs::{Ran, Tried, random_of_both, replay, seeds_met};

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

#[test]
fn the_seeds_meet_everything() {
    seeds_met("range_ops", run).assert_at_least(1, 0..20, &EVENTS);
}

/// 10^5 operations; with `STEWARD_LONG` (for release builds) 10^7, in which each class came up a thousand times.
#[test]
fn h85_h87_h88_h92_h96_ranges_are_the_models() {
    replay("range_ops", 200, |bytes| run(bytes).0);
    let (tried, long) = random_of_both("range_ops", [256, 16 << 10], 50_000, run);
    tried.assert_at_least(
        if long { 1000 } else { 20 },
        0..if long { 21 } else { 9 },
        &EVENTS,
    );
}
