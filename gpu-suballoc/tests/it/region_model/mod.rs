//! Whole allocators beside an interval model of every block, on each profile of the mock device.

pub mod program;

use crate::*;

use program::again::{How, TIMES};
use program::region_ops;
use program::subject::{RegionSubject, SHAPES};

/// That no hole would have done is looked at where something is refused for lack of one: it must happen.
const EVENTS: [&str; 21] = [
    "general",
    "dedicated",
    "linear",
    "wrapped",
    "crop",
    "crop of depth 3 or more",
    "batch",
    "map",
    "bad request",
    "bad crop",
    "bad wrap",
    "stale id",
    "double free",
    "foreign id",
    "release under crops refused",
    "refused for lack of a hole",
    "refused by the host",
    "refused by the device",
    "release while mapped refused",
    "detach refused",
    "map refused",
];

/// What becomes of moves.
const MOVES: [&str; 4] = ["move of a region", "region that stays", "nothing left to move", "defragmentation refused"];

fn run(shape: u8, bytes: &[u8]) -> (Ran, Tried) {
    region_ops(bytes, || RegionSubject::new(shape))
}

#[test]
fn h32_h42_h43_h44_h47_h98_di1_di9_ge14_u111_the_seeds_on_every_device() {
    /// Each program runs on a fifth of the shapes; a fifth has each device, and the next one has each other way.
    const EVERY: u8 = 5;
    let mut first = 0;
    replay("region_ops", 4, |bytes| {
        let mut all = Ran::default();
        first = (first + 1) % EVERY;
        let shapes = (first..SHAPES).step_by(usize::from(EVERY));
        shapes.for_each(|shape| all.add(run(shape, bytes).0));
        all
    });
}

/// From there a fuzzer goes on. As there, the first byte chooses the device.
#[test]
fn the_seeds_meet_everything() {
    let mut tried = Tried::default();
    replay_seeds("region_ops", |bytes| {
        if let Some((first, rest)) = bytes.split_first() {
            tried.add(&run(*first % SHAPES, rest).1);
        }
    });
    tried.assert_at_least(1, 0..10, &EVENTS);
    tried.assert_at_least(1, 0..0, &MOVES);
}

/// 4 * 10^4 operations; with `STEWARD_LONG` (for release builds) 10^7, in which each class came up a thousand times.
#[test]
fn h33_h35_h38_h39_h40_h41_h45_h48_h50_h51_h52_h53_h55_h56_h57_h77_h90_h91_h92_h93_h112_h113_regions_are_the_models() {
    let mut shape = 0;
    let (tried, long) = random_of_both("region_ops", [512, 16 << 10], 20_000, |bytes| {
        shape = (shape + 1) % SHAPES;
        run(shape, bytes)
    });
    let called_back = TIMES.load(Relaxed);
    assert!(called_back > 3_000, "a device called back {called_back} times");
    let least = if long { 1000 } else { 10 };
    tried.assert_at_least(least, 0..if long { 17 } else { 10 }, &EVENTS);
}

/// The program would see what a call from within could do to a state that is half done: a region that goes.
#[test]
fn harm_by_a_device_that_reenters_is_seen() {
    let mut rng = Rng::new(13);
    let bytes: Vec<u8> = (0..4096).map(|_| rng.next() as u8).collect();
    for shape in [0, 7, 20] {
        let at = |how| catch_unwind(AssertUnwindSafe(|| region_ops(&bytes, || RegionSubject::with(shape, Some(how)))));
        assert!(at(How::Keeping).is_ok(), "without harm it ends well");
        let seen = (5..40).step_by(7).filter(|turn| at(How::Harm(*turn)).is_err()).count();
        assert!(seen >= 3, "seen {seen} times of 5");
    }
}

/// A program in which small regions that last lie between large ones, of which some go before each defragmentation.
fn sparse_program(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = Vec::new();
    for round in 0..6 {
        for _ in 0..if round == 0 { 50 } else { 15 } {
            let [small, buffer, fine] = [rng.next(), rng.next(), rng.next()].map(|n| n as u8);
            let buffer = if buffer % 2 == 0 { 6 } else { 0 };
            bytes.extend(if small % 3 != 0 {
                [0, 0, 1, fine % 8, 0, 40 | buffer, 0]
            } else {
                [0, 0, 13, fine % 28, 0, 24 | buffer, 0]
            });
        }
        for _ in 0..15 {
            bytes.extend([18, 0, rng.next() as u8, rng.next() as u8]);
        }
        let [how, armed, trouble] = [rng.next(), rng.next(), rng.next()].map(|n| n as u8);
        let how = if armed % 4 == 0 { how | 7 } else { how & 0x30 };
        bytes.extend([62, 1, how, trouble]);
        // What is done about each move.
        bytes.extend((0..20).map(|_| rng.next() as u8));
    }
    bytes
}

/// Each end of a move, on each device with small blocks, also on one that calls back.
#[test]
fn df3_df4_df6_df8_df9_df11_regions_move_with_every_end() {
    let mut tried = Tried::default();
    let shapes = (0..SHAPES).filter(|shape| shape / 6 % 4 >= 2);
    for (seed, shape) in (0..).zip(shapes.cycle().take(96)) {
        tried.add(&run(shape, &sparse_program(seed)).1);
    }
    tried.assert_at_least(10, 0..0, &MOVES);
}

/// Else the model counts one crop fewer than the allocator, whichever call of the device that was.
#[test]
fn a_device_that_reenters_frees_its_crops_when_the_host_refuses() {
    let subject = RegionSubject::with(0, Some(How::Keeping));
    let (gpu, again) = (subject.allocator(), subject.again.expect("calls back"));
    let root = gpu.allocate(&ResourceRequirements::new(4096, 1), &RegionOptions::new());
    let root = root.expect("nothing is refused");
    let mut crops = Vec::new();
    for _ in 0..9 * 80 {
        let turn = again.turns.load(Relaxed);
        // The table of regions is full before, between and behind the two crops of some turn.
        subject.refuse((turn % 9 == 4).then_some(0), None);
        again.at(Unmap);
        subject.refuse(None, None);
        assert_eq!(gpu.stats().total.crops, crops.len() as u64, "turn {turn}");
        if turn % 9 == 8 {
            crops.push(gpu.crop(&root, 0, 1, 1).expect("nothing is refused"));
        }
    }
    for region in crops.into_iter().chain([root]) {
        gpu.free(region).map_err(|no| no.error).expect("unused");
    }
    subject.close();
}
