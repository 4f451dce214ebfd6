//! Traces that were made to keep a reader busy: whatever their lines say, judging and replaying them takes time in proportion to their
//! length.

use std::alloc::System;
use std::fmt::Write as _;

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use testkit::assert_linear;
use vk_callbacks::check::{FindingKind, Opened};
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::trace::{TraceError, TraceFault};
use vk_callbacks::{CheckOptions, Judge, TraceReader};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
const COMPLETE: CheckOptions = CheckOptions {
    coverage: BracketCoverage::Complete,
    opened: Opened::ThroughLoader,
};

/// The trace of what `lines` writes.
fn trace(lines: impl FnOnce(&mut String)) -> String {
    let mut text = "# steward host trace 2\n".to_owned();
    lines(&mut text);
    let count = text.matches('\n').count();
    text + &format!("z,{count}\n")
}

/// The findings with their observations, and how many of these were lost.
fn judged(text: &str) -> (Vec<(FindingKind, u64)>, u64) {
    let mut judge = Judge::new(&SYSTEM, COMPLETE);
    judge
        .run(TraceReader::new(text).expect("a header"))
        .expect("a whole trace, and memory");
    let found = judge
        .findings(Scoped::new(&SYSTEM, Scope::Object))
        .expect("memory");
    let counts = found.iter().map(|found| (found.kind, found.count));
    (counts.collect(), judge.lost())
}

/// Judges traces of `count` times what `lines` writes for 1, 2, ..
fn assert_judged_in_linear_time(
    what: &str,
    count: usize,
    lines: impl Fn(&mut String, usize, usize),
) {
    assert_linear(what, count, |count| {
        let text = trace(|text| (1..=count).for_each(|nth| lines(text, nth, count)));
        judged(&text);
    });
}

/// The `nth` number that a multiplication by the bits of the golden ratio, which anybody may know, sends to `nth`: of a table, to the
/// first slot of the first shard.
fn colliding(nth: usize) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    // Newton: each step doubles the bits of the inverse that are right, from three.
    let inverse = (0..5).fold(FACTOR, |inverse: u64, _| {
        inverse.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(inverse)))
    });
    assert_eq!(FACTOR.wrapping_mul(inverse), 1);
    (nth as u64).wrapping_mul(inverse)
}

#[test]
fn ids_that_an_unkeyed_hash_sends_to_one_place_are_judged_in_linear_time() {
    assert_judged_in_linear_time("ids of one slot", 1000, |text, nth, _| {
        writeln!(text, "a,1,0,{},1,1,1", colliding(nth)).expect("a String takes all");
    });
}

#[test]
fn handles_that_an_unkeyed_hash_sends_to_one_place_are_judged_in_linear_time() {
    // The kind's length is part of the key.
    assert_judged_in_linear_time("handles of one slot", 1000, |text, nth, _| {
        writeln!(text, "c,1,0,{},VkBuffer", colliding(nth) ^ 8 << 57).expect("a String takes all");
    });
}

#[test]
fn many_threads_are_judged_in_linear_time() {
    assert_judged_in_linear_time("threads", 2000, |text, nth, _| {
        writeln!(text, "e,{nth},0,vkCreateBuffer\nf,{nth},0,0\nl,{nth},0")
            .expect("a String takes all");
    });
}

#[test]
fn nothing_is_lost_of_many_threads_that_allocate_before_their_first_command() {
    let text = trace(|text| {
        for thread in 1..=16_384 {
            writeln!(
                text,
                "a,{thread},0,{thread},64,8,1\nf,{thread},0,{thread}\ne,{thread},0,vkCreateBuffer\nl,{thread},0"
            )
            .expect("a String takes all");
        }
    });
    let both = [
        (FindingKind::AskedBetweenCommands, 16_384),
        (FindingKind::FreedBetweenCommands, 16_384),
    ];
    assert_eq!(judged(&text), (both.to_vec(), 0));
}

#[test]
fn many_owners_are_judged_in_linear_time() {
    assert_judged_in_linear_time("owners", 4000, |text, nth, _| {
        writeln!(text, "o,{nth},0,VkBuffer").expect("a String takes all");
    });
    assert_judged_in_linear_time("owners with a block and a notice", 2000, |text, nth, _| {
        writeln!(
            text,
            "o,{nth},0,VkBuffer\na,1,{nth},{nth},1,1,1\ni,1,{nth},1,0,1"
        )
        .expect("a String takes all");
    });
    // An owner without a number is in the group of all such.
    assert_judged_in_linear_time("owners without a number", 2000, |text, _, _| {
        writeln!(text, "o,0,0,VkBuffer\ni,1,0,1,0,1").expect("a String takes all");
    });
}

#[test]
fn owners_whose_numbers_collide_are_judged_in_linear_time() {
    assert_judged_in_linear_time("owners a power of two apart", 1000, |text, nth, _| {
        let owner = nth << 12;
        writeln!(text, "o,{owner},0,VkBuffer\na,1,{owner},{nth},1,1,1")
            .expect("a String takes all");
    });
}

#[test]
fn an_owner_that_is_declared_over_and_over_is_judged_in_linear_time() {
    assert_judged_in_linear_time("declarations", 2000, |text, nth, _| {
        let kind = if nth % 2 == 0 { "VkBuffer" } else { "VkImage" };
        writeln!(
            text,
            "o,1,0,{kind}\ni,1,1,1,0,1\nc,1,1,{nth},VkBuffer\nd,1,1,{nth},VkBuffer"
        )
        .expect("a String takes all");
    });
}

#[test]
fn many_devices_that_come_and_go_among_many_objects_are_judged_in_linear_time() {
    assert_judged_in_linear_time("devices", 1500, |text, nth, count| {
        let line = if nth <= count / 2 {
            "c,1,0,{n},VkQueue"
        } else {
            "c,1,2,{n},VkDevice\nd,1,2,{n},VkDevice"
        };
        writeln!(text, "{}", line.replace("{n}", &nth.to_string())).expect("a String takes all");
    });
}

#[test]
fn memory_left_by_many_commands_is_judged_in_linear_time() {
    assert_judged_in_linear_time("commands that leave memory", 1000, |text, nth, _| {
        writeln!(text, "e,1,1,vkDeviceWaitIdle\na,1,1,{nth},1,1,0\nl,1,0")
            .expect("a String takes all");
    });
}

#[test]
fn blocks_that_come_back_late_are_judged_in_linear_time() {
    // Each stands in a row of findings of its own.
    assert_judged_in_linear_time("blocks that come back", 700, |text, nth, _| {
        writeln!(text, "e,1,1,vk{nth}\na,1,1,{nth},1,1,0\nl,1,0\nf,1,1,{nth}")
            .expect("a String takes all");
    });
    assert_judged_in_linear_time(
        "blocks that come back after their object",
        700,
        |text, nth, _| {
            let create = format!(
                "e,1,{nth},vkCreateBuffer\na,1,{nth},{nth},1,1,1\nl,1,0\nc,1,{nth},{nth},VkBuffer"
            );
            let destroy = format!(
                "e,1,{nth},vkDestroyBuffer\nl,1,0\nd,1,{nth},{nth},VkBuffer\nf,1,{nth},{nth}"
            );
            writeln!(text, "o,{nth},0,VkBuffer\n{create}\n{destroy}").expect("a String takes all");
        },
    );
}

#[test]
fn threads_that_issue_commands_late_are_judged_in_linear_time() {
    assert_judged_in_linear_time("threads with an early call", 1500, |text, nth, _| {
        writeln!(
            text,
            "a,{nth},0,{nth},1,1,1\ne,{nth},0,vkCreateBuffer\nl,{nth},0"
        )
        .expect("a String takes all");
    });
}

#[test]
fn losses_among_many_threads_are_judged_in_linear_time() {
    assert_judged_in_linear_time("losses", 2000, |text, nth, _| {
        writeln!(text, "e,{nth},0,vkCreateBuffer\nx,1").expect("a String takes all");
    });
}

#[test]
fn names_longer_than_any_are_refused_in_their_line() {
    for line in ["e,1,1,", "o,1,0,", "c,1,1,1,", "d,1,1,1,"] {
        let of = |length: usize| {
            trace(|text| {
                writeln!(text, "{line}{}", "n".repeat(length)).expect("a String takes all")
            })
        };
        let read = |text: &str| {
            TraceReader::new(text)
                .expect("a header")
                .find_map(Result::err)
        };
        assert_eq!(read(&of(TraceReader::MAX_NAME)), None, "{line}");
        let refused = read(&of(TraceReader::MAX_NAME + 1));
        assert!(
            matches!(
                refused,
                Some(TraceError {
                    line: 2,
                    fault: TraceFault::TooLong(_)
                })
            ),
            "{line} {refused:?}"
        );
    }
    // The name of a phase is compared and kept, not hashed.
    let phase =
        trace(|text| writeln!(text, "p,{}", "n".repeat(100_000)).expect("a String takes all"));
    assert_eq!(
        TraceReader::new(&phase)
            .expect("a header")
            .filter(Result::is_ok)
            .count(),
        1
    );
}
