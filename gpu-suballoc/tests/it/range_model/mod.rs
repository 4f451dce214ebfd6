//! A virtual block beside an interval model: random operations, host refusals among them, and no refusal while a hole
//! fits.

mod program;

use crate::*;

use program::{LINEAR, range_ops};

const EVENTS: [&str; 7] = [
    "refused for lack of a hole",
    "refused for lack of host memory",
    "freed out of its turn",
    "begins below the newest",
    "stale id",
    "bad request",
    "clear",
];

/// In a general block, and in one that is used in order.
fn run(bytes: &[u8]) -> (Ran, Tried) {
    let linear = LINEAR[bytes.len() % LINEAR.len()];
    let (mut ran, mut tried) = range_ops(bytes, General);
    let in_order = range_ops(bytes, linear);
    ran.add(in_order.0);
    tried.add(&in_order.1);
    (ran, tried)
}

#[test]
fn the_seeds_meet_everything() {
    seeds_met("range_ops", run).assert_at_least(1, 0..20, &EVENTS);
}

/// 10^5 operations; with `STEWARD_LONG` (for release builds) 10^7, in which each class came up a thousand times.
#[test]
fn h85_h87_h88_h92_h94_h96_ge6_ranges_are_the_models() {
    replay("range_ops", 200, |bytes| run(bytes).0);
    let (tried, long) = random_of_both("range_ops", [256, 16 << 10], 50_000, run);
    tried.assert_at_least(if long { 1000 } else { 20 }, 0..if long { 21 } else { 9 }, &EVENTS);
}
