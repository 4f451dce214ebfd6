//! Contexts come and go, against a block of that size on the allocator behind.

mod support;

use std::alloc::Layout;

use alloc_core::{Context, ContextOptions, HostAllocator, Scope};
use support::backing::{MIMALLOC, SYSTEM};
use support::clock::{pinned, thread_ns};
use support::heap::keep_pages;
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave};
use support::subject::write;

fn main() {
    keep_pages();
    let mut report = BenchReport::new("context", &["case", "raw", "ours"]);
    life(&mut report, "system", &SYSTEM);
    life(&mut report, "mimalloc", &MIMALLOC);
    report.print();
}

/// Making a context and ending it; the same with a pair in between. Raw takes and clears a block as large as a context.
fn life<H: HostAllocator + Sync>(report: &mut BenchReport, name: &str, backing: &'static H) {
    let root = &Context::root_static(backing, ContextOptions::new("root")).expect("memory");
    let before = root.usage().total().live_bytes;
    let child = root.child("measured").expect("memory");
    let record = Layout::from_size_align((root.usage().total().live_bytes - before) as usize, 64).expect("small");
    drop(child);
    println!("context: a context is {} bytes", record.size());
    let rounds = amount(20_000);
    let raw = move |also: &dyn Fn()| {
        let block = backing.allocate_zeroed(record, Scope::Object).expect("memory");
        also();
        // SAFETY: just taken with this layout.
        unsafe { backing.deallocate(block, record, Scope::Object) };
    };
    let ours = move |also: &dyn Fn(&Context)| {
        let child = root.child("child").expect("memory");
        also(&child);
    };
    let run = |one: &(dyn Fn() + Sync)| {
        pinned(|| {
            let before = thread_ns();
            for _ in 0..rounds {
                one();
            }
            (thread_ns() - before) as f64 / rounds as f64
        })
    };
    let cases = vec![
        Case::new("raw", || run(&|| raw(&|| ()))),
        Case::new("ours", || run(&|| ours(&|_| ()))),
        Case::new("raw pair", || run(&|| raw(&|| pair(backing)))),
        Case::new("our pair", || run(&|| ours(&|child| pair(child)))),
    ];
    let times: Vec<f64> = interleave(15, cases).into_iter().map(|figures| figures[0]).collect();
    for (what, times) in ["create-drop", "create-pair-drop"].into_iter().zip(times.chunks(2)) {
        let label = format!("{name}-{what}");
        report.row(&label, times);
        report.ratio(&label, "raw", times[1], times[0]);
        report.ns(&label, times[1]);
    }
}

fn pair(host: &impl HostAllocator) {
    let layout = Layout::new::<[u64; 8]>();
    let block = host.allocate(layout, Scope::Object).expect("memory");
    write(block);
    // SAFETY: just taken with this layout and scope.
    unsafe { host.deallocate(block, layout, Scope::Object) };
}
