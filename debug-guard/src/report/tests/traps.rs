//! Real traps on pages of a region, each case in a process of its own.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::boxed::Box;
use std::{format, println};

use testkit::{Child, Crash, Finished};

use super::*;
use crate::os::{BackEnds, Region, install_fault_handler, page_calls, page_size};

/// Runs `body` in a process of its own: this binary once more, for this one test. How it ended, and how many reports it
/// made.
fn child(test: &str, body: impl FnOnce()) -> Option<(Finished, usize)> {
    let name = format!("report::tests::traps::{test}");
    if Child::is_child(&name) {
        body();
        println!("went on");
        return None;
    }
    let ended = Child::this_test(&name).run();
    let told = |line: &&str| line.starts_with("{\"debug_guard\":1,");
    let reports = ended.stderr.lines().filter(told).count();
    Some((ended, reports))
}

static REGION: AtomicPtr<Region> = AtomicPtr::new(core::ptr::null_mut());

fn land(address: usize) -> bool {
    // SAFETY: null, or a region that stays.
    let region = unsafe { REGION.load(Ordering::Acquire).as_ref() };
    region.is_some_and(|region| region.page_of(address).is_some_and(|page| region.land(page, false)))
}

/// A guard of a region of 64 pages, none accessible, that classifies every access as an overflow; the handler stands.
fn guard(on_report: OnReport) -> (&'static Fake, usize) {
    let calls = page_calls(BackEnds::probe().best()).expect("a back end");
    let region = Box::leak(Box::new(Region::reserve(calls, 64).expect("a region")));
    REGION.store(region, Ordering::Release);
    let base = region.base();
    let known = Known { start: base + page_size() - 64, ..block(1, BlockState::Live) };
    let guard = Box::leak(Box::new(Fake {
        range: base..base + 64 * page_size(),
        stopped: StoppedAccess { kind: ReportKind::Overflow, block: Some(known), other: None },
        land,
        ..Fake::new(5, on_report)
    }));
    let entry = Box::leak(Box::new(GuardEntry::new(guard)));
    // SAFETY: both stay for good.
    let _seat = unsafe { REGISTRY.enter(entry) }.expect("a slot");
    install_fault_handler(on_trap).expect("a handler");
    (guard, base + page_size())
}

fn poke(address: usize) {
    // SAFETY: stopped, or let land on a page of nobody's.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}

fn peek(address: usize) -> u8 {
    // SAFETY: as for `poke`.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

#[test]
fn a_panic_asked_for_is_an_abort_in_a_handler_and_says_so() {
    let Some((ended, reports)) = child("a_panic_asked_for_is_an_abort_in_a_handler_and_says_so", || {
        peek(guard(OnReport::Panic).1 + 1);
    }) else {
        return;
    };
    ended.assert_crash(Crash::Abort);
    assert_eq!(reports, 1);
    assert!(
        ended.stderr.contains("read 1 byte past the end of") && ended.stderr.contains("nothing can unwind"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_access_stopped_within_a_report_is_not_told_and_loops_not() {
    static OTHER: AtomicUsize = AtomicUsize::new(0);
    fn careless(_: &Report<'_>) {
        poke(OTHER.load(Relaxed));
    }
    let Some((ended, _)) = child("an_access_stopped_within_a_report_is_not_told_and_loops_not", || {
        let (guard, end) = guard(OnReport::Call(careless));
        OTHER.store(end + page_size(), Relaxed);
        poke(end);
        assert_eq!((guard.reported.load(Relaxed), guard.lost.load(Relaxed)), (1, 1));
    }) else {
        return;
    };
    ended.assert_code(0);
    assert_eq!(ended.stderr.matches("something else went wrong within a report").count(), 1, "{}", ended.stderr);
}

/// That it takes no memory either is seen by `tests/no_global.rs`.
#[test]
fn a_report_fits_a_small_signal_stack() {
    /// As the handler's alternate stack, where none larger can be had.
    const SMALL: usize = 32 << 10;
    let Some((ended, _)) = child("a_report_fits_a_small_signal_stack", || {
        let (guard, end) = guard(OnReport::Log);
        let used = depth(|| {
            let trap = Trap { address: end, access: None, pc: 0, frame: 0, stack: 0 };
            assert_eq!(on_trap(&trap), Handled::Resume);
        });
        assert_eq!(guard.reported.load(Relaxed), 1);
        // The lower bound: that so much was measured at all.
        assert!((1 << 10..SMALL).contains(&used), "{used} bytes of stack");
    }) else {
        return;
    };
    ended.assert_code(0);
}

/// How much stack `f` uses.
#[inline(never)]
fn depth(f: impl FnOnce()) -> usize {
    const ROOM: usize = 64 << 10;
    const PAINT: u8 = 0xa7;
    #[inline(never)]
    fn paint() -> usize {
        let mut room = [0_u8; ROOM];
        core::hint::black_box(&mut room).fill(PAINT);
        room.as_ptr().expose_provenance()
    }
    let start = paint();
    f();
    // What was never reached is still painted: from the far end on.
    let untouched = (start..start + ROOM).take_while(|address| peek(*address) == PAINT).count();
    ROOM - untouched
}
