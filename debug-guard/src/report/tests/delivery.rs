//! Who gets a report, and what happens when that reports again.

use super::*;

/// What [`OnReport::Call`] was called with.
static CALLED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_function_gets_the_report_and_the_right_guard_is_named() {
    fn note(report: &Report<'_>) {
        CALLED.lock().expect("no panic").push(report.to_string());
    }
    let first = Fake::new(1, OnReport::Call(note));
    static SECOND: std::sync::LazyLock<Fake> = std::sync::LazyLock::new(|| Fake::new(2, OnReport::Log));
    static ENTRY: std::sync::LazyLock<GuardEntry> =
        std::sync::LazyLock::new(|| GuardEntry::new(core::ptr::from_ref::<Fake>(&SECOND)));
    let case = ReportContext::new(
        GuardFinding {
            owner: Some(2),
            ..finding(ReportKind::WrongGuard, Some(block(1, BlockState::Live)), 0x7f00_0000_0fc0)
        },
        DetectedAt::Free,
    );
    deliver(&first, &case);
    // SAFETY: both are there for good.
    let slot = unsafe { REGISTRY.enter(&*ENTRY) }.expect("a slot is free");
    deliver(&first, &case);
    assert!(REGISTRY.leave(&slot));
    assert_eq!((first.reported.load(Relaxed), first.lost.load(Relaxed)), (2, 0));
    let said = core::mem::take(&mut *CALLED.lock().expect("no panic"));
    let through = "wrong-guard: free through guard \"first \\\"one\\\"\" of ";
    let [unknown, named] = said.as_slice() else { panic!("{said:?}") };
    let nobody = "block 0x7f0000000fc0 (64 bytes, align 16, scope object)";
    assert!(unknown.contains(&std::format!("{through}{nobody}, which is another guard's")), "{unknown}");
    let second = BLOCK.replace("textures", "seconds");
    assert!(named.contains(&std::format!("{through}{second}, which is guard \"second\"'s")), "{named}");
}

#[test]
fn a_report_within_a_report_is_counted_as_lost_and_loops_not() {
    fn misuse(_: &Report<'_>) {
        let inner = Fake::new(1, OnReport::Log);
        deliver(&inner, &ReportContext::new(finding(ReportKind::ForeignFree, None, 1), DetectedAt::Free));
        INNER.store(inner.lost.load(Relaxed) as usize, Relaxed);
    }
    static INNER: AtomicUsize = AtomicUsize::new(0);
    let outer = Fake::new(1, OnReport::Call(misuse));
    deliver(&outer, &ReportContext::new(finding(ReportKind::ForeignFree, None, 1), DetectedAt::Free));
    assert_eq!((INNER.load(Relaxed), outer.reported.load(Relaxed), outer.lost.load(Relaxed)), (1, 1, 0));
}

#[test]
fn a_trap_is_told_by_the_guard_that_covers_it_and_goes_on() {
    static PLACE: usize = 0x5000_0000_0000;
    fn check(report: &Report<'_>) {
        SEEN.store(report.address, Relaxed);
        assert_eq!((report.kind, report.access), (ReportKind::Overflow, Some(Access::Read)));
    }
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    static COVERS: std::sync::LazyLock<Fake> = std::sync::LazyLock::new(|| Fake {
        range: PLACE..PLACE + 4096,
        stopped: StoppedAccess { kind: ReportKind::Overflow, block: Some(block(1, BlockState::Live)), other: None },
        land: |address| address != PLACE + 1,
        ..Fake::new(3, OnReport::Call(check))
    });
    static ENTRY: std::sync::LazyLock<GuardEntry> =
        std::sync::LazyLock::new(|| GuardEntry::new(core::ptr::from_ref::<Fake>(&COVERS)));
    let trap = |address| Trap { address, access: Some(Access::Read), pc: 0, frame: 0, stack: 0 };
    assert_eq!(on_trap(&trap(PLACE)), Handled::No, "nobody covers it yet");
    // SAFETY: both are there for good.
    let slot = unsafe { REGISTRY.enter(&*ENTRY) }.expect("a slot is free");
    assert_eq!(on_trap(&trap(PLACE + 7)), Handled::Resume);
    assert_eq!(on_trap(&trap(PLACE + 4096)), Handled::No, "somebody else's address");
    assert_eq!((COVERS.reported.load(Relaxed), SEEN.load(Relaxed)), (1, PLACE + 7));
    assert_eq!(on_trap(&trap(PLACE + 1)), Handled::No, "no page to land on");
    assert_eq!(COVERS.reported.load(Relaxed), 2);
    // While it is asked it cannot leave, but nobody asks it any more.
    let leaves = |guard: &dyn ReportingGuard| guard.covers(PLACE).then(|| REGISTRY.leave(&slot));
    assert_eq!(REGISTRY.query(leaves), Some(false));
    assert_eq!(on_trap(&trap(PLACE + 7)), Handled::No);
    assert!(REGISTRY.leave(&slot));
}
