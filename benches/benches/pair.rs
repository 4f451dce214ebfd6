//! Take, write and give back through a context, over System and over mimalloc: what counting costs.
//!
//! `pair` is one block at a time, `churn` a ring of 256 live ones, sizes 16..=256 in steps of 8; one thread and two on
//! one context.

mod support;

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{AllocError, AllocatorTraits, Budget, Context, ContextOptions, HostAllocator, Scope};
use support::backing::{MIMALLOC, SYSTEM};
use support::clock::{measure, processors};
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave, wanted};
use support::subject::{ByScope, Subject, churn, pair};

const COLUMNS: [&str; 6] = ["case", "raw", "by scope", "budget x1", "budget x7", "shared atomic"];

fn main() {
    let mut report = BenchReport::new("pair", &COLUMNS);
    here(&mut report, "system", &SYSTEM);
    here(&mut report, "mimalloc", &MIMALLOC);
    report.print();
}

type Work<S> = fn(&S, usize);

/// Ours in this executable, where the compiler sees all of it.
fn here<H: HostAllocator + Sync>(report: &mut BenchReport, name: &str, backing: &'static H) {
    let root = Context::root_static(backing, ContextOptions::new("root")).expect("memory");
    let budgeted = |depth: usize| {
        let mut chain: Vec<Context> = Vec::new();
        for _ in 0..depth {
            let parent = chain.last().unwrap_or(&root);
            chain.push(
                parent.child_with(ContextOptions::new("budgeted").budget(Budget::limit(1 << 30))).expect("memory"),
            );
        }
        chain
    };
    let (plain, one, seven) = (root.child("plain").expect("memory"), budgeted(1), budgeted(7));
    let (raw, scoped) = (ByScope(backing), ByScope(&plain));
    let (one, seven) = (ByScope(one.last().expect("one")), ByScope(seven.last().expect("seven")));
    let atomic = ByScope(SharedAtomic { backing, live: AtomicU64::new(0) });
    for (what, is_pair) in [("pair", true), ("churn", false)] {
        if !wanted(&format!("executable-{name}-{what}")) {
            continue;
        }
        let mut cases = Vec::new();
        for threads in threads() {
            cases.push(case(&raw, is_pair, threads));
            cases.push(case(&scoped, is_pair, threads));
            cases.push(case(&one, is_pair, threads));
            cases.push(case(&seven, is_pair, threads));
            cases.push(case(&atomic, is_pair, threads));
        }
        let times: Vec<f64> = interleave(15, cases).into_iter().map(|figures| figures[0]).collect();
        for (threads, row) in threads().zip(times.chunks(5)) {
            let [raw, scoped, one, seven, atomic] = row else {
                continue;
            };
            let label = format!("executable-{name}-{what}-{threads}t");
            report.row(&label, row);
            for (variant, ours) in [("", scoped), ("-budget1", one), ("-budget7", seven)] {
                report.ratio(&format!("{label}{variant}"), "raw", *ours, *raw);
                report.delta(&format!("{label}{variant}"), *ours, *raw);
            }
            report.ratio(&label, "shared-atomic", *scoped, *atomic);
        }
        if let [raw1, ours1, _, _, _, raw2, ours2, ..] = times.as_slice() {
            report.ratio(&format!("executable-{name}-{what}-2t-over-1t"), "raw", ours2 / ours1, raw2 / raw1);
        }
    }
}

fn threads() -> impl Iterator<Item = usize> {
    1..=processors().len().min(2)
}

fn case<S: Subject>(subject: &S, is_pair: bool, threads: usize) -> Case<'_> {
    let work: Work<S> = if is_pair { pair } else { churn };
    Case::new("", move || measure(threads, amount(200_000), |operations| work(subject, operations)))
}

/// The simplest account there is, for comparison: one atomic that all threads share, and no peak.
struct SharedAtomic<'h, H> {
    backing: &'h H,
    live: AtomicU64,
}

// SAFETY: the backing's own blocks.
unsafe impl<H: HostAllocator> HostAllocator for SharedAtomic<'_, H> {
    fn traits(&self) -> AllocatorTraits {
        self.backing.traits()
    }
    #[inline]
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.backing.allocate(layout, scope)?;
        self.live.fetch_add(layout.size() as u64, Ordering::Relaxed);
        Ok(block)
    }
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.live.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: this function's contract: the block is the backing's.
        unsafe { self.backing.deallocate(block, layout, scope) }
    }
}
