//! Op programs with mistakes in them, under a guard of every means at once: just these mistakes are reported.

use std::sync::atomic::{AtomicUsize, Ordering};

use alloc_core::HostAllocator;
use debug_guard::{Guard, GuardOptions, OnReport, Placement, Report, Stacks};
use testkit::programs::{Ran, replay};
use testkit::{HookedAllocator, RecordingAllocator};

mod program;
use program::{MODES, collect_report, guard_ops};

fn run<A: HostAllocator>(
    bytes: &[u8],
    on_report: fn(&Report<'_>),
    placement: Placement,
    backing: fn(RecordingAllocator) -> A,
) -> Ran {
    let witness = RecordingAllocator::system();
    let guards = MODES.map(|mode| {
        let options =
            GuardOptions::new(mode).placement(placement).stacks(Stacks::Off).on_report(OnReport::Call(on_report));
        Guard::new(backing(witness.clone()), options.pages(1 << 14)).expect("a guard")
    });
    let ran = guard_ops(bytes, &guards);
    for guard in guards {
        assert_eq!(guard.stats().live_blocks, 0);
        guard.close().expect("all blocks came back");
    }
    witness.assert_empty("after the guards went");
    ran
}

#[test]
fn what_was_done_wrong_is_reported_and_nothing_else() {
    replay("guard_ops", 150, |bytes| run(bytes, collect_report, placement(bytes), |witness| witness));
}

#[test]
fn what_was_done_wrong_is_reported_while_the_backing_uses_the_guard() {
    let ran = replay("guard_ops", 150, |bytes| run(bytes, collect_report, placement(bytes), HookedAllocator::new));
    assert!(ran.reentered > testkit::programs::cases(150), "{ran:?}");
}

fn placement(bytes: &[u8]) -> Placement {
    [Placement::Right, Placement::Left, Placement::Alternate][bytes.len() % 3]
}

/// The program itself finds a guard that keeps something to itself, or says it twice.
#[test]
fn a_guard_that_misreports_is_found() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    fn deaf(report: &Report<'_>) {
        if SEEN.fetch_add(1, Ordering::Relaxed) != 3 {
            collect_report(report);
        }
    }
    fn chatty(report: &Report<'_>) {
        collect_report(report);
        if SEEN.fetch_add(1, Ordering::Relaxed) == 3 {
            collect_report(report);
        }
    }
    for misreports in [deaf as fn(&Report<'_>), chatty] {
        SEEN.store(0, Ordering::Relaxed);
        let program = testkit::Rng::new(1).bytes(500);
        let found =
            std::panic::catch_unwind(|| run(&program, misreports, Placement::Right, |witness| witness)).is_err();
        assert!(found && SEEN.load(Ordering::Relaxed) > 3);
    }
}
