//! Device groups beside a list: random devices, groups, refusals and host refusals, and every edge of every group.

mod program;

use crate::*;

use program::subject::TopologySubject;
use program::topology_ops;

/// What a program can meet.
const EVENTS: [&str; 16] = [
    "dissolved",
    "ended",
    "a group of 64",
    "a group of one",
    "a group",
    "more than 64",
    "a device twice, or in another group",
    "no device",
    "capabilities refused",
    "refining refused",
    "a contradiction",
    "no host memory",
    "the edge of an isolated device",
    "the edge of a device outside",
    "the edge to itself",
    "an edge",
];

fn run(bytes: &[u8]) -> (Ran, Tried) {
    topology_ops(bytes, TopologySubject::new)
}

#[test]
fn i10_iw1_the_seeds_meet_everything() {
    seeds_met("topology_ops", run).assert_at_least(1, 0..0, &EVENTS);
}

/// 4 * 10^4 operations; with `STEWARD_LONG` (for release builds) 10^7.
#[test]
fn i1_i6_i7_i21_i22_i23_i24_i27_i29_i31_i32_i33_i37_i39_i41_i43_i44_i46_iw3_iw5_iw6_iw8_iw9_iw10_groups_are_the_lists()
{
    replay("topology_ops", 200, |bytes| run(bytes).0);
    let (tried, long) = random_of_both("topology_ops", [512, 16 << 10], 20_000, run);
    tried.assert_at_least(if long { 100 } else { 1 }, 0..0, &EVENTS);
}
