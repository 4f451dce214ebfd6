//! Traces that were made to keep a reader busy: whatever their lines say, judging and replaying them takes time in
//! proportion to their length.

use crate::common::{COMPLETE, judged, trace};

use testkit::assert_linear;
use vk_callbacks::TraceReader;
use vk_callbacks::check::FindingKind;
use vk_callbacks::trace::{TraceError, TraceFault};

/// The `nth` number that a multiplication by the bits of the golden ratio, which anybody may know, sends to `nth`: of a
/// table, to the first slot of the first shard.
fn colliding(nth: usize) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    // Newton: each step doubles the bits of the inverse that are right, from three.
    let inverse =
        (0..5).fold(FACTOR, |inverse: u64, _| inverse.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(inverse))));
    assert_eq!(FACTOR.wrapping_mul(inverse), 1);
    (nth as u64).wrapping_mul(inverse)
}

/// A row of the table: what is judged, how often, and the lines of the `nth` of so many.
type Hostile = (&'static str, usize, fn(usize, usize) -> String);

#[test]
fn hostile_traces_are_judged_in_linear_time() {
    let rows: [Hostile; 14] = [
        ("ids of one slot of an unkeyed hash", 1000, |nth, _| format!("a,1,0,{},1,1,1\n", colliding(nth))),
        // The kind's length is part of the key.
        ("handles of one slot of an unkeyed hash", 1000, |nth, _| {
            format!("c,1,0,{},VkBuffer\n", colliding(nth) ^ 8 << 57)
        }),
        ("threads", 2000, |nth, _| format!("e,{nth},0,vkCreateBuffer\nf,{nth},0,0\nl,{nth},0\n")),
        ("owners", 4000, |nth, _| format!("o,{nth},0,VkBuffer\n")),
        ("owners with a block and a notice", 2000, |nth, _| {
            format!("o,{nth},0,VkBuffer\na,1,{nth},{nth},1,1,1\ni,1,{nth},1,0,1\n")
        }),
        // An owner without a number is in the group of all such.
        ("owners without a number", 2000, |_, _| "o,0,0,VkBuffer\ni,1,0,1,0,1\n".to_owned()),
        ("owners a power of two apart", 1000, |nth, _| {
            let owner = nth << 12;
            format!("o,{owner},0,VkBuffer\na,1,{owner},{nth},1,1,1\n")
        }),
        ("declarations of one owner", 2000, |nth, _| {
            let kind = if nth % 2 == 0 { "VkBuffer" } else { "VkImage" };
            let (made, gone) = (format!("c,1,1,{nth}"), format!("d,1,1,{nth}"));
            format!("o,1,0,{kind}\ni,1,1,1,0,1\n{made},VkBuffer\n{gone},VkBuffer\n")
        }),
        ("devices that come and go among objects", 1500, |nth, count| {
            if nth <= count / 2 {
                format!("c,1,0,{nth},VkQueue\n")
            } else {
                format!("c,1,2,{nth},VkDevice\nd,1,2,{nth},VkDevice\n")
            }
        }),
        ("commands that leave memory", 1000, |nth, _| format!("e,1,1,vkDeviceWaitIdle\na,1,1,{nth},1,1,0\nl,1,0\n")),
        // Each stands in a row of findings of its own.
        ("blocks that come back", 700, |nth, _| format!("e,1,1,vk{nth}\na,1,1,{nth},1,1,0\nl,1,0\nf,1,1,{nth}\n")),
        ("blocks that come back after their object", 700, |nth, _| {
            let made = format!("e,1,{nth},vkCreateBuffer\na,1,{nth},{nth},1,1,1\nl,1,0\nc,1,{nth},{nth},VkBuffer\n");
            let gone = format!("e,1,{nth},vkDestroyBuffer\nl,1,0\nd,1,{nth},{nth},VkBuffer\nf,1,{nth},{nth}\n");
            format!("o,{nth},0,VkBuffer\n{made}{gone}")
        }),
        ("threads with an early call", 1500, |nth, _| {
            format!("a,{nth},0,{nth},1,1,1\ne,{nth},0,vkCreateBuffer\nl,{nth},0\n")
        }),
        ("losses among threads", 2000, |nth, _| format!("e,{nth},0,vkCreateBuffer\nx,1\n")),
    ];
    for (what, count, lines) in rows {
        assert_linear(what, count, |count| {
            let lines: String = (1..=count).map(|nth| lines(nth, count)).collect();
            judged(&trace(&lines), COMPLETE, |_| ());
        });
    }
}

#[test]
fn nothing_is_lost_of_many_threads_that_allocate_before_their_first_command() {
    let of = |thread| {
        format!("a,{thread},0,{thread},64,8,1\nf,{thread},0,{thread}\ne,{thread},0,vkCreateBuffer\nl,{thread},0\n")
    };
    let text = trace(&(1..=16_384).map(of).collect::<String>());
    let both = [(FindingKind::AskedBetweenCommands, 16_384), (FindingKind::FreedBetweenCommands, 16_384)];
    let counts = judged(&text, COMPLETE, |found| (found.kind, found.count));
    assert_eq!(counts, (both.to_vec(), 0));
}

#[test]
fn names_longer_than_any_are_refused_in_their_line() {
    for line in ["e,1,1,", "o,1,0,", "c,1,1,1,", "d,1,1,1,"] {
        let of = |length: usize| trace(&format!("{line}{}\n", "n".repeat(length)));
        let read = |text: &str| TraceReader::new(text).expect("a header").find_map(Result::err);
        assert_eq!(read(&of(TraceReader::MAX_NAME)), None, "{line}");
        let refused = read(&of(TraceReader::MAX_NAME + 1));
        assert!(
            matches!(refused, Some(TraceError { line: 2, fault: TraceFault::TooLong(_), .. })),
            "{line} {refused:?}"
        );
    }
    // The name of a phase is compared and kept, not hashed.
    let phase = trace(&format!("p,{}\n", "n".repeat(100_000)));
    assert_eq!(TraceReader::new(&phase).expect("a header").filter(Result::is_ok).count(), 1);
}
