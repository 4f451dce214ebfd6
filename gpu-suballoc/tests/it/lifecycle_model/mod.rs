//! Contexts beside a list: random lives on devices whose handles' values come again, refusals of all kinds among them.

mod program;

use crate::*;

use program::calling_back::TIMES;
use program::lifecycle_ops;
use program::subject::LifecycleSubject;

/// What a program can meet.
const EVENTS: [&str; 55] = [
    "again",
    "again with a null handle",
    "again with another handle",
    "another context's shader",
    "a shader",
    "a shader of a lost device",
    "a shader refused by the host",
    "released after its device was lost",
    "released",
    "release refused for shaders",
    "release refused for crops",
    "release refused for regions",
    "release refused for its handles",
    "lost twice",
    "lost",
    "dropped",
    "ended by force, with crops",
    "ended by force",
    "acquired, of a device that is known",
    "acquired, of a device whose handles came again",
    "acquired",
    "acquired with a null handle",
    "acquired with another handle",
    "acquired without a command",
    "acquired without host memory",
    "a crop on a lost device",
    "a crop",
    "a region",
    "a region of a lost device",
    "a region or a crop refused by the host",
    "a region refused by the driver",
    "mapped once more on a lost device",
    "mapped",
    "a map of a lost device",
    "a map of another context's",
    "a map refused",
    "unmapped",
    "an unmap of another context's",
    "an unmap of what is not mapped",
    "given back to a lost device's context",
    "given back",
    "what its context left, given to another",
    "given to another context",
    "given back while mapped",
    "given back under its crops",
    "handlers set",
    "the default set",
    "no number was released yet",
    "a number that was released",
    "a dispatch on the handler's context",
    "a dispatch on the default",
    "a dispatch without a context",
    "a dispatch that needs a context",
    "a dispatch that the handler refuses",
    "a dispatch on a number that was released",
];

/// Twice: the second time devices, handlers and destructors call back.
fn run(bytes: &[u8]) -> (Ran, Tried) {
    let ran = lifecycle_ops(bytes, LifecycleSubject::new);
    lifecycle_ops(bytes, LifecycleSubject::calling_back);
    ran
}

#[test]
fn the_seeds_meet_everything() {
    seeds_met("lifecycle_ops", run).assert_at_least(1, 0..0, &EVENTS);
}

/// 8000 operations; with `STEWARD_LONG` (for release builds) 2 * 10^6.
#[test]
fn h2_h3_h4_h11_h12_h16_h19_h20_h21_h22_h23_h24_h25_h26_h27_h28_h30_h65_contexts_are_the_lists() {
    replay("lifecycle_ops", 20, |bytes| run(bytes).0);
    let (tried, long) = random_of_both("lifecycle_ops", [512, 4 << 10], 4_000, run);
    tried.assert_at_least(if long { 100 } else { 1 }, 0..0, &EVENTS);
    let times = TIMES.load(Relaxed);
    assert!(times > 1000, "devices, handlers and destructors called back {times} times");
}
