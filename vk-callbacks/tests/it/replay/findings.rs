//! What a replay finds wrong in a trace, and how it goes on.

use super::*;

#[test]
fn v9_null_answers_are_counted_and_count_no_bytes() {
    let (totals, ears) = replayed(&[
        "a,1,0,0,64,8,1",
        "a,1,0,1,16,8,1",
        "r,1,0,1,0,32,8,1",
        "f,1,0,1",
    ]);
    assert_eq!(ears.findings, []);
    assert_eq!(
        (
            totals.null_answers,
            totals.all().peak_bytes,
            totals.all().live_blocks
        ),
        (2, 16, 0)
    );
}

#[test]
fn v11_reallocations_of_what_is_not_live_are_found_and_the_answer_lives() {
    let lines = [
        "r,1,0,?7,1,16,8,1",
        "f,1,0,1",
        "r,1,0,1,2,16,8,1",
        "f,1,0,2",
        "r,1,0,2,0,8,8,1",
        "r,1,0,9,0,8,8,1",
    ];
    let (totals, ears) = replayed(&lines);
    assert_eq!(ears.findings, []);
    // Of each kind twice.
    assert_eq!(
        judged(&lines),
        [
            (2, FindingKind::ReallocatedUnknown),
            (4, FindingKind::ReallocatedFreed)
        ]
    );
    assert_eq!((totals.not_live, totals.null_answers), (4, 2));
    assert_eq!((totals.all().blocks, totals.all().live_blocks), (2, 0));
}

#[test]
fn v13_realloc_of_null_is_an_allocation() {
    let (totals, ears) = replayed(&["b,1,0,0", "r,1,0,0,1,24,8,4", "f,1,0,1", "r,1,0,0,0,0,8,4"]);
    assert!(ears.findings.is_empty(), "{:?}", ears.findings);
    assert_eq!(
        (
            totals.scope(Scope::Instance).peak_bytes,
            totals.reallocations,
            totals.reallocations_begun
        ),
        (24, 2, 1)
    );
}

#[test]
fn v14_realloc_to_zero_frees() {
    let (totals, ears) = replayed(&["a,1,0,1,24,8,4", "r,1,0,1,0,0,8,4", "f,1,0,1"]);
    assert_eq!(
        (ears.findings.len(), totals.not_live, totals.null_answers),
        (0, 1, 0)
    );
    let odd = ["a,1,0,1,24,8,4", "r,1,0,1,2,0,8,4", "f,1,0,2"];
    assert_eq!(
        (judged(&odd), replayed(&odd).0.not_live),
        (vec![(3, FindingKind::ZeroAnswered)], 0)
    );
}

#[test]
fn v15_other_alignment_is_found_and_the_first_one_kept() {
    let lines = ["a,1,0,1,24,64,1", "r,1,0,1,2,48,8,3", "f,1,0,2"];
    let (totals, ears) = replayed(&lines);
    assert_eq!(
        judged(&lines),
        [
            (3, FindingKind::OtherAlignment),
            (3, FindingKind::OtherScope)
        ]
    );
    assert_eq!(
        (
            ears.findings.len(),
            totals.scope(Scope::Object).peak_bytes,
            totals.scope(Scope::Device).peak_bytes
        ),
        (0, 48, 0)
    );
}

#[test]
fn v7_v35_bad_alignment_and_scope_are_found_and_followed() {
    let lines = [
        "a,1,0,1,24,3,1",
        "a,1,0,2,24,8,5",
        "a,1,0,3,24,0,-1",
        "r,1,0,1,4,30,3,1",
        "f,1,0,4",
        "f,1,0,2",
        "f,1,0,3",
    ];
    assert_eq!(
        judged(&lines),
        [
            (2, FindingKind::BadAlignment),
            (4, FindingKind::BadAlignment),
            (3, FindingKind::BadScope)
        ]
    );
    let (totals, ears) = replayed(&lines);
    assert_eq!(
        (
            ears.findings.len(),
            totals.all().peak_bytes,
            totals.all().live_blocks
        ),
        (0, 78, 0)
    );
}

#[test]
fn v18_free_of_null_is_no_finding() {
    let (totals, ears) = replayed(&["f,1,0,0", "f,2,3,0"]);
    assert!(ears.findings.is_empty());
    assert_eq!((totals.frees, totals.null_frees), (2, 2));
}

#[test]
fn v19_free_of_the_unknown_and_second_frees_are_told_apart() {
    let lines = ["f,1,0,?1", "a,1,0,1,8,8,1", "f,1,0,1", "f,2,0,1", "f,1,0,9"];
    assert_eq!(
        judged(&lines),
        [(2, FindingKind::FreedUnknown), (5, FindingKind::FreedTwice)]
    );
    assert_eq!(replayed(&lines).0.not_live, 3);
}

#[test]
fn v20_notices_reach_the_sink_and_must_balance() {
    let lines = [
        "i,1,0,4096,0,1",
        "j,1,0,4096,0,1",
        "j,1,0,1,0,1",
        "i,1,0,8,1,1",
        "i,1,0,8,0,9",
        "i,1,0,64,0,3",
    ];
    let (totals, ears) = replayed(&lines);
    assert_eq!(
        judged(&lines),
        [
            (5, FindingKind::InternalType),
            (4, FindingKind::InternalNegative),
            (0, FindingKind::InternalAtEnd),
            (6, FindingKind::BadScope)
        ]
    );
    let notice = |event, bytes, scope| Notice {
        event,
        kind: NoticeKind::Executable,
        bytes,
        scope,
    };
    assert_eq!(
        ears.sink.notices(),
        [
            notice(NoticeEvent::Allocated, 4096, Scope::Object),
            notice(NoticeEvent::Freed, 4096, Scope::Object),
            notice(NoticeEvent::Allocated, 64, Scope::Device),
        ]
    );
    assert_eq!(
        (
            totals.internal_allocations,
            totals.internal_frees,
            totals.all().internal_bytes
        ),
        (4, 2, 64)
    );
}

#[test]
fn blocks_left_live_are_listed_by_line_and_given_back() {
    let (totals, ears) = replayed(&[
        "o,4,1,VkBuffer",
        "a,1,4,1,24,8,1",
        "a,1,0,2,0,8,1",
        "a,1,4,3,8,8,0",
        "f,1,4,1",
    ]);
    let asked = |size, scope| Request {
        size,
        align: 8,
        scope,
    };
    assert_eq!(
        ears.findings,
        [
            (
                4,
                ReplayFinding::StillLive {
                    block: B2,
                    owner: 0,
                    asked: asked(0, 1)
                }
            ),
            (
                5,
                ReplayFinding::StillLive {
                    block: Pointer::Block(3),
                    owner: 4,
                    asked: asked(8, 0)
                }
            ),
        ]
    );
    assert_eq!(ears.owners, [(4, 1, "VkBuffer".to_owned())]);
    assert_eq!(
        (
            totals.all().live_blocks,
            totals.all().live_bytes,
            totals.zero_sizes
        ),
        (2, 8, 1)
    );
    assert_eq!(
        (
            totals.scope(Scope::Command).live_bytes,
            totals.scope(Scope::Object).live_blocks
        ),
        (8, 1)
    );
}

#[test]
fn a_block_given_twice_replaces_the_first() {
    let (totals, ears) = replayed(&["a,1,0,1,24,8,1", "a,1,0,1,8,8,2", "f,1,0,1", "x,3"]);
    assert_eq!(ears.findings, [(5, ReplayFinding::Lost { events: 3 })]);
    assert_eq!(
        judged(&["a,1,0,1,24,8,1", "a,1,0,1,8,8,2", "f,1,0,1"]),
        [(3, FindingKind::LiveBlockGivenAgain)]
    );
    assert_eq!((totals.all().peak_bytes, totals.lost), (24, 3));
}

#[test]
fn impossible_sizes_are_found_and_count_no_bytes() {
    let huge = format!("a,1,0,1,{},8,1", u64::MAX);
    let (totals, ears) = replayed(&[
        &huge,
        "r,1,0,1,2,8,8,1",
        "r,1,0,2,3,18446744073709551600,8,1",
        "f,1,0,3",
    ]);
    assert_eq!(
        ears.findings,
        [
            (
                2,
                ReplayFinding::ImpossibleSize {
                    block: B1,
                    size: u64::MAX
                }
            ),
            (
                4,
                ReplayFinding::ImpossibleSize {
                    block: Pointer::Block(3),
                    size: u64::MAX - 15
                }
            ),
        ]
    );
    assert_eq!((totals.all().peak_bytes, totals.all().live_blocks), (8, 0));
}
