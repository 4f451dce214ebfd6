//! Stacks of this program.

use core::hint::black_box;
use std::vec::Vec;

use super::*;
use crate::call_sites::CommandMark;

/// Notes who asks, from the bottom of three calls, in a command that the caller's caller issued.
#[inline(never)]
fn issue<R>(name: &'static str, command: impl FnOnce(CommandMark) -> R) -> R {
    let frame = 0_u8;
    let answer = command(CommandMark { name, serial: 1, stack: black_box(&raw const frame).addr() });
    black_box(&frame);
    answer
}

#[inline(never)]
fn deeper<R>(levels: u32, at_the_end: &mut dyn FnMut() -> R) -> R {
    let answer = if levels == 0 { at_the_end() } else { deeper(levels - 1, at_the_end) };
    black_box(levels);
    answer
}

fn within(frame: usize, function: usize) -> bool {
    (function..function + 2048).contains(&frame)
}

#[test]
fn the_self_test_says_what_is_so() {
    let support = StackSupport::of_this_process();
    assert!(support.full, "std brings an unwinder, and tables are there by default");
    let built_with_frame_pointers = option_env!("STEWARD_FRAME_POINTERS").is_some();
    if built_with_frame_pointers {
        assert!(support.fast, "{support}");
    }
    assert!(std::format!("{support}").starts_with("stacks are walked by"));
}

#[test]
fn full_stacks_end_at_the_command() {
    let memory = memory();
    let mut sites = depot(&memory);
    let note = |levels| {
        issue("vkCreateBuffer", |mark| {
            let who = RequesterInfo { command: Some(&mark), ..who("x") };
            deeper(levels, &mut || sites.note(Some(&memory), &who, Stacks::Full))
        })
    };
    let (three, five) = (note(3), note(5));
    assert_ne!(three, five);
    for (id, levels) in [(three, 3), (five, 5)] {
        let view = sites.get(id).expect("noted");
        assert!(view.whole, "{view:x?}");
        let here = deeper::<SiteId> as fn(_, _) -> _ as usize;
        assert_eq!(view.frames.iter().filter(|frame| within(**frame, here)).count(), levels + 1, "{view:x?}");
        assert!(view.frames.len() < levels + 12, "the frames above the command are not told: {view:x?}");
    }
    sites.close(&memory);
}

#[test]
fn without_a_command_full_stacks_reach_the_first_frame_of_the_thread() {
    let memory = memory();
    let mut sites = depot(&memory);
    let id = std::thread::scope(|scope| {
        scope.spawn(|| sites.note(Some(&memory), &who("x"), Stacks::Full)).join().expect("no panic")
    });
    let view = sites.get(id).expect("noted");
    assert!(view.whole && view.frames.len() > 4, "{view:x?}");
    sites.close(&memory);
}

#[test]
fn a_stack_is_unwound_once_and_known_again() {
    let memory = memory();
    let mut sites = depot(&memory);
    let note = |levels, free: bool| {
        issue("vkCreateBuffer", |mark| {
            let who = RequesterInfo { command: Some(&mark), ..who("x") };
            deeper(levels, &mut || {
                if free { sites.note(None, &who, Stacks::Full) } else { sites.note(Some(&memory), &who, Stacks::Full) }
            })
        })
    };
    let before = walks();
    let first: Vec<SiteId> = (0..200).map(|n| note(n % 8, n / 8 % 2 == 1)).collect();
    assert_eq!((sites.count(), walks() - before), (16, 16), "eight depths, taken and given");
    for (n, id) in first.iter().enumerate() {
        assert_eq!(first[n % 16], *id);
    }
    sites.close(&memory);
}

#[test]
fn requesters_at_one_place_are_told_apart_when_their_stack_is_known() {
    let memory = memory();
    let mut sites = depot(&memory);
    let note = |name: &str| deeper(3, &mut || sites.note(Some(&memory), &who(name), Stacks::Full));
    let ids: Vec<SiteId> = (0..6).map(|n| note(["x", "y"][n % 2])).collect();
    assert_eq!((sites.count(), ids[0] == ids[1]), (2, false));
    assert!(ids.chunks(2).all(|both| *both == ids[..2]), "{ids:?}");
    sites.close(&memory);
}

/// Their stacks may have a frame more or less.
#[test]
fn commands_a_word_apart_are_told_apart() {
    let from = thread_stack::read_registers();
    let key_to = |words: usize| {
        let bounds = thread_stack::with(|local| local.bounds(from.stack));
        key(7, WalkStart { from, bounds: bounds.up_to(from.stack + 8 * words) })
    };
    let keys: Vec<u64> = (1..5).map(key_to).collect();
    assert!(keys.windows(2).all(|two| two[0] != two[1]), "{keys:x?}");
}

#[inline(never)]
fn left(rest: &[bool], at_the_end: &mut dyn FnMut() -> SiteId) -> SiteId {
    black_box(branch(rest, at_the_end))
}

#[inline(never)]
fn right(rest: &[bool], at_the_end: &mut dyn FnMut() -> SiteId) -> SiteId {
    black_box(black_box(branch(rest, at_the_end)))
}

#[inline(never)]
fn branch(ways: &[bool], at_the_end: &mut dyn FnMut() -> SiteId) -> SiteId {
    let turns = [left, right];
    let answer = match ways.split_first() {
        Some((way, rest)) => black_box(turns[usize::from(*way)])(rest, at_the_end),
        None => at_the_end(),
    };
    black_box(answer)
}

#[test]
fn more_stacks_of_one_depth_than_are_kept_at_hand_are_told_apart() {
    let memory = memory();
    let mut sites = depot(&memory);
    let note = |path: usize| {
        let ways = [0, 1, 2, 3, 4].map(|bit| path >> bit & 1 != 0);
        issue("vkA", |mark| {
            branch(&ways, &mut || {
                let who = RequesterInfo { command: Some(&mark), ..who("x") };
                sites.note(Some(&memory), &who, Stacks::Full)
            })
        })
    };
    let ids: Vec<SiteId> = (0..32).map(note).collect();
    for round in 0..3 {
        for (path, id) in ids.iter().enumerate() {
            assert_eq!(note(path), *id, "round {round}, path {path}");
        }
    }
    assert_eq!(sites.count(), 32);
    // A few are known at once, however many there were before.
    let before = walks();
    for _ in 0..10 {
        (0..8).for_each(|path| assert_eq!(note(path), ids[path]));
    }
    let again = walks() - before;
    assert!(again <= 8, "{again}");
    sites.close(&memory);
}

#[test]
fn a_known_stack_still_ends_at_the_command() {
    let memory = memory();
    let mut sites = depot(&memory);
    let before = walks();
    // At one place of one stack, in the outer command, in the inner one, and in none.
    let ids: Vec<SiteId> = (0..9)
        .map(|n| {
            issue("vkA", |outer| {
                deeper(4, &mut || {
                    issue("vkA", |inner| {
                        let mut mark = [outer, inner, outer][n % 3];
                        if n % 3 == 2 {
                            mark.stack = 0;
                        }
                        let who = RequesterInfo { command: Some(&mark), ..who("x") };
                        deeper(2, &mut || sites.note(Some(&memory), &who, Stacks::Full))
                    })
                })
            })
        })
        .collect();
    let lens: Vec<usize> = ids.iter().map(|id| sites.get(*id).expect("noted").frames.len()).collect();
    assert!(lens[1] + 4 < lens[0] && lens[0] < lens[2], "{lens:?}");
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(*id, ids[n % 3], "{n}: {lens:?}");
    }
    assert_eq!(walks() - before, 3);
    sites.close(&memory);
}

#[test]
fn a_site_that_the_unwinder_asks_for_has_no_stack() {
    let memory = memory();
    let mut sites = depot(&memory);
    let mut id = SiteId(0);
    let before = walks();
    let ran = thread_stack::with(|local| local.once(|| id = sites.note(Some(&memory), &who("malloc"), Stacks::Full)));
    assert!(ran.is_some());
    assert!(sites.get(id).expect("noted").frames.is_empty(), "the unwinder does not run within itself");
    assert_eq!(walks(), before);
    let outside = sites.note(Some(&memory), &who("malloc"), Stacks::Full);
    assert!(sites.get(outside).expect("noted").frames.len() > 4);
    sites.close(&memory);
}

#[test]
fn threads_walk_their_own_stacks() {
    let memory = memory();
    let mut sites = depot(&memory);
    let all = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..400 {
                    for stacks in [Stacks::Fast, Stacks::Full] {
                        let id = issue("vkA", |mark| {
                            let who = RequesterInfo { command: Some(&mark), ..who("x") };
                            deeper(n % 13, &mut || sites.note(Some(&memory), &who, stacks))
                        });
                        let view = sites.get(id).expect("noted");
                        assert!(view.whole || stacks == Stacks::Fast, "{view:x?}");
                    }
                }
                all.fetch_add(walks(), Ordering::Relaxed);
            });
        }
    });
    let walked = all.into_inner();
    assert!((13..=4 * 13).contains(&walked), "{walked}");
    sites.close(&memory);
}

#[test]
fn fast_stacks_are_the_unwinders_where_there_are_frame_pointers() {
    let memory = memory();
    let mut sites = depot(&memory);
    let [fast, full] = [Stacks::Fast, Stacks::Full].map(|stacks| {
        issue("vkA", |mark| {
            let who = RequesterInfo { command: Some(&mark), ..who("x") };
            deeper(6, &mut || sites.note(Some(&memory), &who, stacks))
        })
    });
    let (fast, full) = (sites.get(fast).expect("noted"), sites.get(full).expect("noted"));
    if StackSupport::of_this_process().fast {
        // One call of `note` for both: all frames are the same.
        assert_eq!(fast.frames, full.frames);
        assert!(fast.whole);
    } else {
        assert!(full.frames.len() > fast.frames.len());
    }
    sites.close(&memory);
}
