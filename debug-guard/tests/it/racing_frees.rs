//! Two threads that free one block at the same instant: one does, the other is told, and nothing behind is freed twice.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{Guard, GuardOptions, Mode, OnReport, ReportKind, Stacks};

static DOUBLE: AtomicU64 = AtomicU64::new(0);
static OTHER: AtomicU64 = AtomicU64::new(0);
const ROUNDS: u64 = 3000;

#[test]
fn of_two_frees_at_once_one_frees_and_one_is_told() {
    for mode in [Mode::Cookie, Mode::Fence, Mode::Strict] {
        let hear = |report: &debug_guard::Report<'_>| {
            let heard = if report.kind == ReportKind::DoubleFree { &DOUBLE } else { &OTHER };
            heard.fetch_add(1, SeqCst);
        };
        let options = GuardOptions::new(mode).stacks(Stacks::Off).on_report(OnReport::Call(hear));
        let guard = Guard::new(FromGlobalAlloc::SYSTEM, options).expect("a guard");
        let layout = Layout::new::<[u64; 8]>();
        let told = DOUBLE.load(SeqCst);
        let (arrived, address) = (AtomicU64::new(0), AtomicUsize::new(0));
        // A barrier that sleeps wakes one thread after the other.
        let both_are_here = |times: u64| {
            arrived.fetch_add(1, SeqCst);
            let mut turns = 0_u32;
            while arrived.load(SeqCst) < 2 * times {
                turns += 1;
                if turns.is_multiple_of(2000) {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
        };
        let free = |round: u64| {
            both_are_here(2 * round + 1);
            let block = std::ptr::with_exposed_provenance_mut(address.load(SeqCst));
            let block = NonNull::new(block).expect("a block");
            // SAFETY: not kept, on purpose: both threads free it, and the guard lets one of them.
            unsafe { guard.deallocate(block, layout, Scope::Object) };
            // The next block may have this one's place.
            both_are_here(2 * round + 2);
        };
        std::thread::scope(|threads| {
            threads.spawn(|| (0..ROUNDS).for_each(free));
            for round in 0..ROUNDS {
                let block = guard.allocate(layout, Scope::Object).expect("a block");
                address.store(block.as_ptr().expose_provenance(), SeqCst);
                free(round);
            }
        });
        assert_eq!((DOUBLE.load(SeqCst) - told, OTHER.load(SeqCst)), (ROUNDS, 0), "{mode}");
        assert_eq!(guard.stats().live_blocks, 0, "{mode}");
        guard.close().expect("nothing is live");
    }
}
