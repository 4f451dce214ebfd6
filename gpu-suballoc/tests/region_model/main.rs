//! Whole allocators beside an interval model of every block, on each profile of the mock device.

mod subject;

use subject::{SHAPES, Subject};
use testkit::programs::{Ran, Tried, random, region_ops, replay};

fn run(shape: u8, bytes: &[u8]) -> (Ran, Tried) {
    region_ops(bytes, || Subject::new(shape))
}

#[test]
fn the_seeds_on_every_device() {
    replay("region_ops", 4, |bytes| {
        let mut all = Ran::default();
        (0..SHAPES).for_each(|shape| all.add(run(shape, bytes).0));
        all
    });
}

/// 10^5 operations; with `STEWARD_LONG` (for release builds) 10^7, in which each class came up a thousand times.
#[test]
fn regions_are_the_models() {
    let long = std::env::var_os("STEWARD_LONG").is_some();
    let mut tried = Tried::default();
    let mut shape = 0;
    // Short programs meet what only beginnings have, long ones what is full.
    for len in [512, 16 << 10] {
        random("region_ops", if long { 5_000_000 } else { 50_000 }, len, |bytes| {
            shape = (shape + 1) % SHAPES;
            let (ran, met) = run(shape, bytes);
            tried.add(&met);
            ran
        });
    }
    let classes =
        ["general", "transient", "slab", "dedicated", "linear", "wrapped", "crop", "crop of depth 3 or more", "batch", "map"];
    let wrong = ["bad request", "bad crop", "bad wrap", "stale id", "double free", "foreign id", "release under crops refused"];
    // That no hole would have done is looked at where something is refused for lack of one: it must happen.
    let short = ["refused for lack of a hole", "refused by the host", "refused by the device"];
    let held = ["release while mapped refused", "detach refused", "map refused"];
    let least = if long { 1000 } else { 10 };
    tried.assert_at_least(least, 0..if long { 17 } else { 10 }, &[&classes[..], &wrong, &short, &held].concat());
}
