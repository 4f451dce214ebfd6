//! Nothing planted: many calls, and no finding.

use fake_driver::{Defect, FakeKind, FakeProgram};
use vk_callbacks::check::{FindingKind, RuleLevel};

use super::checking::{checked, checked_for};
use super::heap::{Heap, HeapSeen};
use super::stage::{Allocators, Interrupted, Meeting, Stage, Unwatched};

/// A thousand callbacks, and each sort of them.
fn assert_all_sorts(seen: HeapSeen) {
    println!("{seen:?}");
    assert!(seen.calls >= 1000, "{seen:?}");
    assert!(seen.requests.iter().all(|requests| *requests > 0), "all five scopes: {seen:?}");
    let HeapSeen { from_pools, reallocations, notices, other_thread_frees, .. } = seen;
    assert!([from_pools, reallocations, notices, other_thread_frees].iter().all(|sort| *sort > 0), "{seen:?}");
}

#[test]
fn a_correct_driver_is_found_to_do_nothing_wrong() {
    let (found, seen) = checked(FakeProgram { defect: None, rounds: 10, habits: false });
    assert!(found.is_empty(), "{found:#?}");
    assert_all_sorts(seen);
    assert_eq!((seen.of_nothing, seen.null_frees), (0, 0));
}

/// The other levels of the chain: all memory comes from the device's callbacks, or from the instance's.
#[test]
fn v30_v31_a_correct_driver_without_callbacks_for_objects_asks_the_devices_or_the_instances() {
    let program = FakeProgram { defect: None, rounds: 10, habits: false };
    for only in [&[FakeKind::Device][..], &[FakeKind::Instance], &[FakeKind::Device, FakeKind::Instance]] {
        let (found, seen) = checked_for(program, only);
        assert!(found.is_empty(), "{only:?}: {found:#?}");
        assert_all_sorts(seen);
    }
    // What is wrong in one of these modes is found there, too.
    let wrong = [Defect::FreedOnForeignThread, Defect::LiveAfterDestroy];
    for (only, defect) in
        [FakeKind::Device, FakeKind::Instance].into_iter().flat_map(|only| wrong.map(|defect| (only, defect)))
    {
        let (found, _) = checked_for(FakeProgram { defect: Some(defect), ..program }, &[only]);
        assert!(found.keys().eq([&defect.finding()]), "{only:?}, {defect:?}: {found:#?}");
    }
}

#[test]
fn v7_v18_a_correct_driver_with_legal_habits_is_noted_for_these_alone() {
    let (found, seen) = checked(FakeProgram { defect: None, rounds: 5, habits: true });
    assert_all_sorts(seen);
    assert!(seen.of_nothing > 0 && seen.null_frees > 0, "{seen:?}");
    // Legal: a free of NULL and a request for 0 bytes are nothing above a note.
    assert!(found.keys().all(|kind| kind.level() == RuleLevel::Note), "above a note: {found:#?}");
    assert!(found.keys().eq(&[FindingKind::SizeZero, FindingKind::NullFree]), "{found:#?}");
    let counts = [FindingKind::SizeZero, FindingKind::NullFree].map(|kind| found[&kind].0);
    assert_eq!(counts, [seen.of_nothing, seen.null_frees]);
}

#[test]
fn what_is_not_a_leak_gives_everything_back() {
    // A defect that needs the checker in front of the allocator: without it the user data means nothing.
    let unwatched = Defect::ALL.iter().copied().filter(|defect| *defect != Defect::UnknownUserData);
    for defect in unwatched.map(Some).chain([None]) {
        let (heap, meeting) = (Heap::default(), Meeting::default());
        let interrupted = Interrupted { watch: &Unwatched, meeting: &meeting };
        // SAFETY: the heap outlives the allocators, which outlive the run.
        let allocators = unsafe { Allocators::new(heap.raw(), defect, &interrupted) };
        let stage = Stage::new(&Unwatched, &allocators, &meeting);
        assert_eq!(FakeProgram { defect, rounds: 1, habits: false }.run(&stage), Ok(()), "{defect:?}");
        let leaks = matches!(defect, Some(Defect::LiveAfterDestroy | Defect::LiveAtEnd));
        assert_eq!(heap.live_blocks(), usize::from(leaks), "{defect:?}");
    }
}
