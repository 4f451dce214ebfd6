//! What people read of a report.

use super::*;

#[test]
fn the_first_line_says_all_that_matters() {
    let live = block(1, BlockState::Live);
    let touch = |kind, address, access| ReportContext {
        access,
        ..ReportContext::new(finding(kind, Some(live), address), DetectedAt::Instruction)
    };
    let said = |case: &ReportContext<'_>, words: &str| assert_eq!(headline(case), std::format!("debug-guard: {words}"));

    let end = live.start + 64;
    said(
        &touch(ReportKind::Overflow, end, Some(Access::Write)),
        &std::format!("overflow: write 0 bytes past the end of {BLOCK}, at the instruction"),
    );
    said(
        &touch(ReportKind::Overflow, end + 1, Some(Access::Read)),
        &std::format!("overflow: read 1 byte past the end of {BLOCK}, at the instruction"),
    );
    said(
        &touch(ReportKind::Underflow, live.start - 1, None),
        &std::format!("underflow: access 1 byte in front of {BLOCK}, at the instruction"),
    );
    // Pages are gone before they are looked at, cookies are not: either way the block is told as it came.
    let coming = ReportContext::new(
        finding(ReportKind::Underflow, Some(block(1, BlockState::Freed)), live.start - 1),
        DetectedAt::Free,
    );
    said(&coming, &std::format!("underflow: bytes changed 1 byte in front of {BLOCK}, at free"));
    assert!(!text(&coming).contains("freed") && text(&coming).contains("found by: "), "{}", text(&coming));

    let dead = block(1, BlockState::Freed);
    let late = |kind, address, detected_at| ReportContext::new(finding(kind, Some(dead), address), detected_at);
    said(
        &late(ReportKind::UseAfterFree, dead.start + 16, DetectedAt::Eviction),
        &std::format!("use-after-free: bytes changed at offset 16 into freed {BLOCK}, at eviction from quarantine"),
    );
    said(
        &late(ReportKind::DoubleFree, dead.start, DetectedAt::Free),
        &std::format!("double-free: second free of freed {BLOCK}, at free"),
    );
    said(
        &late(ReportKind::DoubleFree, dead.start, DetectedAt::Reallocation),
        &std::format!("double-free: realloc, after its free, of freed {BLOCK}, at realloc"),
    );
    said(
        &ReportContext::new(finding(ReportKind::InteriorFree, Some(live), live.start + 16), DetectedAt::Free),
        &std::format!(
            "interior-free: free of a pointer that is not the start of a block but offset 16 into {BLOCK}, at free"
        ),
    );
    said(
        &ReportContext::new(finding(ReportKind::ForeignFree, None, 1), DetectedAt::Free),
        "foreign-free: free of 0x1, which is no block of guard \"first \\\"one\\\"\", at free",
    );
    let back = FreeArgs { size: 72, align: 32, scope: Some(Scope::Device) };
    let free_args = |kind| ReportContext {
        free_args: Some(back),
        ..ReportContext::new(finding(kind, Some(live), live.start), DetectedAt::Free)
    };
    said(&free_args(ReportKind::SizeMismatch), &std::format!("size-mismatch: {BLOCK} came back as 72 bytes, at free"));
    said(
        &free_args(ReportKind::AlignmentMismatch),
        &std::format!("alignment-mismatch: {BLOCK} came back with alignment 32, at free"),
    );
    said(
        &free_args(ReportKind::ScopeMismatch),
        &std::format!("scope-mismatch: {BLOCK} came back with scope device, at free"),
    );
    let freer =
        RequesterInfo { context: None, name: "stranger", label: None, scope: Scope::Object, front: 0, command: None };
    said(
        &ReportContext {
            requester: Some(freer),
            ..ReportContext::new(finding(ReportKind::WrongOwner, Some(live), live.start), DetectedAt::Free)
        },
        &std::format!("wrong-owner: free through the callbacks of \"stranger\" of {BLOCK}, at free"),
    );
    said(
        &ReportContext::new(finding(ReportKind::WildAccess, None, 0x7000), DetectedAt::Instruction),
        "wild-access: access at 0x7000, where no block is or was, at the instruction",
    );
}

#[test]
fn the_lines_below_tell_the_block_s_life() {
    let dead = block(1, BlockState::MovedTo(0x1234_5670));
    let changed = Changed { first: dead.start + 60, span: 3, expected: [0xa1; 16], actual: [0xb2; 16] };
    let case = ReportContext {
        other: Some(block(2, BlockState::Live)),
        stack: Stack { frames: &[0xabc], whole: true, modules: 0 },
        ..ReportContext::new(
            GuardFinding { changed: Some(changed), ..finding(ReportKind::UseAfterFree, Some(dead), dead.start + 60) },
            DetectedAt::Check,
        )
    };
    let text = text(&case);
    for words in [
        "reallocated block 0x7f0000000fc0",
        "taken: by thread 4000001 for \"textures\" \"level 3\" in vkCreateImage, allocation 17, about 83 allocations ago",
        "freed: by thread 4000002 for \"cleaner\" in vkDestroyImage, about 40 allocations ago; a realloc moved it to 0x12345670",
        "changed: 3 bytes, from offset 60 into the block on: expected a1a1a1, found b2b2b2",
        "mode strict, back end userfaultfd-move",
        " in vkQueueSubmit #43, process ",
        "stack of where it was found:\n    #0  0xabc\n",
        "stack of the allocation:\n    #0  0x1000\n    #1  0x2000\n    #2  0x3000\n",
        "stack of the free (not to its end):\n    #0  0x4000\n    #1  0x5000\n",
        "nearby: block 0x7f0000000fc0 (64 bytes, align 16, scope object, of \"cleaner\"",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn behind_a_bridge_all_is_told_as_its_caller_knows_it() {
    let known = block(3, BlockState::Live);
    let touched = json(&ReportContext::new(
        finding(ReportKind::Overflow, Some(known), known.start + 64),
        DetectedAt::Instruction,
    ));
    assert_eq!((&touched["block"]["address"], &touched["block"]["size"]), (&"0x7f0000000fd0".into(), &48.into()));
    assert_eq!(
        (&touched["place"], &touched["bytes"], &touched["address"]),
        (&"past".into(), &0.into(), &"0x7f0000001000".into())
    );
    let header = json(&ReportContext::new(
        finding(ReportKind::Underflow, Some(known), known.start + 15),
        DetectedAt::Instruction,
    ));
    assert_eq!((&header["place"], &header["bytes"]), (&"before".into(), &1.into()));
    // The bridge took its header off before it asked; or it asked with the pointer that it was given.
    let interior =
        ReportContext::new(finding(ReportKind::InteriorFree, Some(known), known.start + 8), DetectedAt::Free);
    let called = ReportContext {
        as_called: true,
        ..ReportContext::new(finding(ReportKind::InteriorFree, Some(known), known.start + 24), DetectedAt::Free)
    };
    for line in [json(&interior), json(&called)] {
        assert_eq!(
            (&line["address"], &line["place"], &line["bytes"]),
            (&"0x7f0000000fd8".into(), &"inside".into(), &8.into())
        );
    }
    let nothing = Known { size: 16, ..known };
    let touched = json(&ReportContext::new(
        finding(ReportKind::Overflow, Some(nothing), nothing.start + 16),
        DetectedAt::Instruction,
    ));
    assert_eq!(
        (&touched["kind"], &touched["block"]["size"], &touched["bytes"]),
        (&"zero-size-access".into(), &0.into(), &0.into())
    );
    let back = FreeArgs { size: 72, align: 16, scope: None };
    let mismatch = json(&ReportContext {
        free_args: Some(back),
        ..ReportContext::new(finding(ReportKind::SizeMismatch, Some(known), known.start), DetectedAt::Free)
    });
    assert_eq!(mismatch["free_args"]["size"], 56);
}
