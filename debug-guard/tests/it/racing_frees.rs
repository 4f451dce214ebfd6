//! Two threads that free one block at the same instant: one does, the other is told, and nothing behind is freed twice.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{Guard, GuardOptions, Mode, OnReport, ReportKind, Stacks};

static DOUBLE: AtomicU64 = AtomicU64::new(0);
static OTHER: AtomicU64 = AtomicU64::new(0);
const ROUNDS: u64 = 3000;

#[test]
fn of_two_frees_at_once_one_frees_and_one_is_told() {
    for mode in [Mode::Cookie, Mode::Fence, Mode::Strict] {
        let hear = |report: &debug_guard::Report<'_>| {
            let heard = if report.kind == ReportKind::DoubleFree {
                &DOUBLE
            } else {
                &OTHER
            };
            heard.fetch_add(1, SeqCst);
        };
        let options = GuardOptions::new(mode)
            .stacks(Stacks::Off)
            .on_report(OnReport::Call(hear));
        let guard = Guard::new(FromGlobalAlloc::SYSTEM, options).expect("a guard");
        let layout = Layout::new::<[u64; 8]>();
        let told = DOUBLE.load(SeqCst);
        let barrier = Barrier::new(2);
        for _ in 0..ROUNDS {
            let block = guard
                .allocate(layout, Scope::Object)
                .expect("a block")
                .as_ptr()
                .expose_provenance();
            let free = || {
                let block =
                    NonNull::new(std::ptr::with_exposed_provenance_mut(block)).expect("a block");
                barrier.wait();
                // SAFETY: not kept, on purpose: both threads free it, and the guard lets one of them.
                unsafe { guard.deallocate(block, layout, Scope::Object) };
            };
            std::thread::scope(|threads| {
                threads.spawn(free);
                free();
            });
        }
        assert_eq!(
            (DOUBLE.load(SeqCst) - told, OTHER.load(SeqCst)),
            (ROUNDS, 0),
            "{mode}"
        );
        assert_eq!(guard.stats().live_blocks, 0, "{mode}");
        guard.close().expect("nothing is live");
    }
}
