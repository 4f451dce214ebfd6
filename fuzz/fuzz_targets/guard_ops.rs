//! Random op programs, see `testkit::programs::guard_ops`.
#![no_main]
use debug_guard::{Guard, GuardOptions, Mode, OnReport, Report};
use testkit::programs::{Guarded, Means, collect_report, guard_ops};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let tell = |report: &Report<'_>| {
        collect_report(report.kind.name(), report.block.map(|block| block.address))
    };
    let options = |mode| {
        GuardOptions::new(mode)
            .on_report(OnReport::Call(tell))
            .pages(1 << 14)
    };
    let guard = |mode| {
        Guard::new(
            testkit::HookedAllocator::new(testkit::RecordingAllocator::system()),
            options(mode),
        )
        .expect("a guard")
    };
    let guards = [Mode::Cookie, Mode::Fence, Mode::Strict].map(guard);
    let checks = guards.each_ref().map(|guard| || guard.check_all());
    // SAFETY: guards that report and go on.
    unsafe {
        guard_ops(
            data,
            &[0, 1, 2].map(|n| Guarded {
                host: &guards[n],
                check: &checks[n],
                means: Means::ALL[n],
            }),
        )
    };
});
