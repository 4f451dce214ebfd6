//! What a recorder counts, block by block.

use alloc_core::Scope;

use super::{BlockOrigin, Moment, SiteRecorder};
use crate::report::{BlockSum, LeakFrame, Phase};

const HERE: Moment = Moment { at: 0, thread: 1 };

fn origin(command: &'static str, stack: Option<usize>) -> BlockOrigin<'static> {
    BlockOrigin {
        context: "VkDevice",
        command,
        scope: Some(Scope::Device),
        stack,
    }
}

fn phases(names: &[&str]) -> Vec<Phase> {
    let phase = |name: &&str| Phase {
        name: (*name).to_owned(),
        ..Phase::default()
    };
    names.iter().map(phase).collect()
}

const fn sum(blocks: u64, bytes: u64) -> BlockSum {
    BlockSum { blocks, bytes }
}

#[test]
fn a_site_counts_what_it_took_has_and_had_at_the_peak() {
    let mut recorder = SiteRecorder::default();
    let small = origin("vkCreateDevice", None);
    recorder.allocate(1, small, 20, HERE);
    recorder.allocate(2, small, 30, HERE);
    recorder.allocate(3, origin("vkCreateBuffer", None), 100, HERE);
    recorder.end_phase(true, 0);
    recorder.free(1, HERE);
    recorder.free(7, HERE);
    recorder.allocate(4, small, 25, HERE);
    recorder.free(3, HERE);
    let sites = recorder.sites();
    let [first, second] = &sites.sites[..] else {
        panic!("{sites:?}");
    };
    assert_eq!((first.size_class, second.size_class), (32, 128));
    // The peak is 155, after the fourth block.
    assert_eq!((sites.blocks, sites.most_at), (4, 4));
    assert_eq!((first.total, first.left), (sum(3, 75), sum(2, 55)));
    assert_eq!(
        (first.live, first.at_peak, first.most),
        (sum(2, 50), sum(2, 55), sum(2, 55))
    );
    assert_eq!(
        (second.total, second.at_peak, second.left),
        (sum(1, 100), sum(1, 100), sum(0, 0))
    );
    // Until the fourth, and to the end: 3 + 3 + 1, and 4 - 2.
    assert_eq!((first.lifetimes, second.lifetimes), (3 + 3 + 1, 2));
}

#[test]
fn a_block_that_is_resized_stays_with_its_site_and_adds_the_difference() {
    let mut recorder = SiteRecorder::default().with_events();
    recorder.allocate(1, origin("vkCreateBuffer", None), 40, HERE);
    let live = recorder.begin_resize(1, HERE).expect("known");
    assert!(recorder.begin_resize(1, HERE).is_none(), "it is on its way");
    // Another thread was served at the old address meanwhile.
    recorder.allocate(1, origin("vkCreateImage", None), 8, HERE);
    recorder.end_resize(live, 2, 100, HERE);
    let live = recorder.begin_resize(2, HERE).expect("known");
    recorder.end_resize(live, 2, 60, HERE);
    let sites = recorder.sites().sites;
    assert_eq!(
        (sites[0].total, sites[0].left, sites[0].most),
        (sum(1, 100), sum(1, 60), sum(1, 100))
    );
    assert_eq!(sites[1].left, sum(1, 8));
    let log = recorder.drain_events();
    let changes: Vec<_> = log.blocks.iter().map(|event| event.bytes).collect();
    assert_eq!(changes, [40, -40, 8, 100, -100, 60]);
}

#[test]
fn what_is_never_freed_is_listed_with_its_object_and_its_growth_by_round() {
    let mut recorder = SiteRecorder::default();
    let frame = LeakFrame {
        offset: "0x10".to_owned(),
        ..LeakFrame::default()
    };
    let stack = Some(recorder.add_stack([frame.clone()].into_iter()));
    recorder.allocate(1, origin("vkCreateInstance", None), 7, HERE);
    recorder.end_phase(true, 0);
    for round in 0..3 {
        recorder.begin_command("vkCreateBuffer", HERE);
        recorder.allocate(10 + round, origin("vkCreateBuffer", stack), 96, HERE);
        recorder.allocate(20 + round, origin("vkCreateBuffer", stack), 40, HERE);
        recorder.created(HERE.thread, 0xa0 + round);
        recorder.end_phase(false, 0);
        recorder.free(20 + round, HERE);
        recorder.end_phase(false, 0);
    }
    let phases = phases(&["instance", "use", "end", "use", "end", "use", "end"]);
    let leaks = recorder.leaks(&phases);
    assert_eq!(
        (&*leaks.mark, leaks.intervals, leaks.warm_up),
        ("round", 2, 1)
    );
    let [grows, once] = &leaks.stacks[..] else {
        panic!("{leaks:?}");
    };
    assert_eq!(
        (&*grows.command, &*grows.kind, &grows.frames[..]),
        ("vkCreateBuffer", "VkDevice", &[frame][..])
    );
    assert_eq!(
        (grows.blocks.live, grows.blocks.bytes, grows.blocks.total),
        (3, 288, 6)
    );
    let growth = grows.blocks.growth;
    assert_eq!(
        (growth.count, growth.bytes, growth.grew, growth.shrank),
        (2, 192, 2, 0)
    );
    assert!(grows.blocks.is_growing(leaks.intervals) && !once.blocks.is_growing(leaks.intervals));
    let handles: Vec<_> = grows
        .oldest
        .iter()
        .map(|block| (&*block.handle, block.bytes))
        .collect();
    assert_eq!(handles, [("0xa0", 96), ("0xa1", 96), ("0xa2", 96)]);
    assert_eq!((&*once.oldest[0].handle, once.blocks.live), ("", 1));
    // Of one round nothing repeats.
    let one = recorder.leaks(&phases[..3]);
    assert_eq!((&*one.mark, one.intervals), ("none", 0));
}
