//! The shader cache beside a list: random owners, compiles, holds, deletions and limits, host refusals among them.

mod subject;

use subject::Subject;
use testkit::programs::{Ran, cache_ops, random, replay};

fn run(bytes: &[u8]) -> Ran {
    cache_ops(bytes, Subject::new)
}

/// 10^5 operations; with `STEWARD_LONG` (for release builds) 10^7.
#[test]
fn shaders_are_the_lists() {
    let long = std::env::var_os("STEWARD_LONG").is_some();
    replay("cache_ops", 200, run);
    // Short programs meet what only beginnings have, long ones what is full.
    for len in [256, 16 << 10] {
        random("cache_ops", if long { 5_000_000 } else { 50_000 }, len, run);
    }
}
