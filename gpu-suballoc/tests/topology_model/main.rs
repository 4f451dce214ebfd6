//! Device groups beside a list: random devices, groups, refusals and host refusals, and every edge of every group.

mod subject;

use subject::Subject;
use testkit::programs::{Ran, random, replay, topology_ops};

fn run(bytes: &[u8]) -> Ran {
    topology_ops(bytes, Subject::new)
}

/// 10^5 operations; with `STEWARD_LONG` (for release builds) 10^7.
#[test]
fn groups_are_the_lists() {
    let long = std::env::var_os("STEWARD_LONG").is_some();
    replay("topology_ops", 200, run);
    for len in [512, 16 << 10] {
        random("topology_ops", if long { 5_000_000 } else { 50_000 }, len, run);
    }
}
