//! The live checker between the fake application and its driver.

use std::collections::BTreeMap;

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use fake_driver::{Defect, FakeKind, FakeProgram};
use vk_callbacks::check::{FindingKind, Opened};
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{CheckFinding, CheckOptions, Checker};

use super::heap::{Heap, HeapSeen};
use super::stage::{Allocators, Interrupted, Meeting, Stage};
pub(crate) use super::watching::Checking;

pub(crate) static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

pub(crate) const OPTIONS: CheckOptions = CheckOptions { coverage: BracketCoverage::Complete, opened: Opened::Directly };

/// What was found: each kind, how often, and in words.
pub(crate) type FoundKinds = BTreeMap<FindingKind, (u64, Vec<String>)>;

/// Runs the program under the live checker; returns its findings, and the calls of the allocator.
pub(crate) fn checked(program: FakeProgram) -> (FoundKinds, HeapSeen) {
    checked_for(program, &FakeKind::WITH_CALLBACKS)
}

/// As [`checked`], where the application has callbacks for these kinds of objects alone, and passes NULL for all
/// others.
pub(crate) fn checked_for(program: FakeProgram, kinds: &[FakeKind]) -> (FoundKinds, HeapSeen) {
    let checker = Checker::new(&SYSTEM, OPTIONS).expect("memory of the system");
    let (heap, meeting) = (Heap::default(), Meeting::default());
    {
        let checking = Checking::new(&checker);
        let interrupted = Interrupted { watch: &checking, meeting: &meeting };
        // SAFETY: the heap outlives the allocators, which outlive the run.
        let allocators = unsafe { Allocators::new(heap.raw(), program.defect, &interrupted) };
        let stage = Stage::new(&checking, &allocators, &meeting).with_callbacks_for(kinds, &allocators);
        program.run(&stage).expect("the heap refuses nothing");
        checker.finish();
    }
    let kinds = found_by(&checker);
    let leaks = program.defect.is_some_and(|defect| matches!(defect, Defect::LiveAfterDestroy | Defect::LiveAtEnd));
    assert_eq!(checker.live_blocks() > 0, leaks, "{:?}: {kinds:#?}", program.defect);
    // SAFETY: the program is over, and all its threads are.
    unsafe { checker.close_anyway() };
    (kinds, heap.seen())
}

/// What the checker says, by kind.
pub(crate) fn found_by(checker: &Checker<'_>) -> FoundKinds {
    assert_eq!(checker.lost(), 0);
    by_kind(&checker.findings(Scoped::new(SYSTEM, Scope::Object)).expect("memory of the system"))
}

pub(crate) fn by_kind(findings: &[CheckFinding<'_>]) -> FoundKinds {
    let mut kinds = FoundKinds::new();
    for found in findings {
        assert_eq!(found.coverage, BracketCoverage::Complete);
        let (count, words) = kinds.entry(found.kind).or_default();
        *count += found.count;
        words.push(found.to_string());
    }
    kinds
}
