//! Random op programs, see the included file.
#![no_main]
#[path = "../../debug-guard/tests/it/guard_ops/program.rs"]
mod program;

use debug_guard::{Guard, GuardOptions, OnReport};
use program::{MODES, collect_report, guard_ops};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let guards = MODES.map(|mode| {
        let options = GuardOptions::new(mode).on_report(OnReport::Call(collect_report));
        Guard::new(testkit::HookedAllocator::new(testkit::RecordingAllocator::system()), options.pages(1 << 14))
            .expect("a guard")
    });
    guard_ops(data, &guards);
});
