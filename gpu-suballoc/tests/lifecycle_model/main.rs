//! Contexts beside a list: random lives on devices whose handles' values come again, refusals of all kinds among them.

mod subject;

use subject::Subject;
use testkit::programs::{Ran, lifecycle_ops, random, replay};

fn run(bytes: &[u8]) -> Ran {
    lifecycle_ops(bytes, Subject::new)
}

/// 2 * 10^4 operations; with `STEWARD_LONG` (for release builds) 2 * 10^6.
#[test]
fn contexts_are_the_lists() {
    let long = std::env::var_os("STEWARD_LONG").is_some();
    replay("lifecycle_ops", 20, run);
    for len in [512, 4 << 10] {
        random("lifecycle_ops", if long { 1_000_000 } else { 10_000 }, len, run);
    }
}
