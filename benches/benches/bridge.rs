//! The C functions that Vulkan is handed, against the allocator behind them called directly with a known layout.
//!
//! `bare` is a `BareBridge` over that allocator, `bridge` a `Bridge` over a context over it. Block sizes of the 1024 live are
//! those that lavapipe asked for.

mod support;

use std::alloc::Layout;
use std::hint::black_box;
use std::pin::pin;
use std::ptr::NonNull;

use alloc_core::{Context, ContextOptions, HostAllocator, Scope};
use support::backing::{MIMALLOC, SYSTEM};
use support::callbacks::{Callbacks, layout, lifo, live};
use support::clock::{measure, processors};
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave, wanted};
use support::subject::{ByScope, Subject, write};
use support::trace::Trace;
use vk_callbacks::Bridge;
use vk_callbacks::bridge::BareBridge;

fn main() {
    let mut report = BenchReport::new("bridge", &["case", "raw", "bare", "context", "bridge"]);
    let trace = Trace::bundled("lavapipe-22.3.trace.gz");
    let sizes: Vec<Layout> = trace.layouts().collect();
    over(&mut report, "system", &SYSTEM, &sizes);
    over(&mut report, "mimalloc", &MIMALLOC, &sizes);
    report.print();
}

fn over<H: HostAllocator + Sync>(
    report: &mut BenchReport,
    name: &str,
    backing: &'static H,
    sizes: &[Layout],
) {
    let root = Context::root_static(backing, ContextOptions::new("root")).expect("memory");
    let plain = root.child("plain").expect("memory");
    let bare = pin!(BareBridge::new(backing));
    let bridge = Bridge::new(root.child("bridge").expect("memory")).expect("an unused context");
    let subjects = (
        ByScope(backing),
        Callbacks(bare.as_ref().raw()),
        ByScope(&plain),
        Callbacks(bridge.raw()),
    );
    for (what, operations, threads) in [
        ("lifo-64", 200_000, 1),
        ("lifo-64-2t", 200_000, 2),
        ("live-1024", 200_000, 1),
        ("aligned-32-256", 40_000, 1),
        ("realloc-doubling", 4_000, 1),
    ] {
        if !wanted(&format!("{name}-{what}")) {
            continue;
        }
        if threads > processors().len() {
            println!("SKIPPED bridge/{name}-{what}: one processor");
            continue;
        }
        let times: Vec<f64> = interleave(
            15,
            vec![
                case(&subjects.0, what, sizes, operations, threads),
                case(&subjects.1, what, sizes, operations, threads),
                case(&subjects.2, what, sizes, operations, threads),
                case(&subjects.3, what, sizes, operations, threads),
            ],
        )
        .into_iter()
        .map(|figures| figures[0])
        .collect();
        let label = format!("{name}-{what}");
        report.row(&label, &times);
        let [raw, bare, context, bridge] = times.as_slice() else {
            continue;
        };
        report.ratio(&format!("{label}-bare"), "raw", *bare, *raw);
        report.delta(&format!("{label}-bare"), *bare, *raw);
        report.ratio(
            &format!("{label}-over-context"),
            "context",
            *bridge,
            *context,
        );
        report.delta(&format!("{label}-over-context"), *bridge, *context);
        report.ratio(&format!("{label}-all"), "raw", *bridge, *raw);
        report.delta(&format!("{label}-all"), *bridge, *raw);
    }
    drop(bridge.close().expect("everything was given back"));
}

fn case<'a, S: Resizer>(
    subject: &'a S,
    what: &'static str,
    sizes: &'a [Layout],
    operations: usize,
    threads: usize,
) -> Case<'a> {
    Case::new(what, move || {
        measure(threads, amount(operations), |operations| match what {
            "live-1024" => live(subject, sizes, operations),
            "aligned-32-256" => aligned(subject, operations),
            "realloc-doubling" => doubling(subject, operations),
            _ => lifo(subject, operations),
        })
    })
}

/// A subject that can make a block larger.
trait Resizer: Subject {
    /// # Safety
    /// `block` is live and of `old`; `new` is larger, with the same alignment.
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> NonNull<u8>;
}

impl<H: HostAllocator + Sync> Resizer for ByScope<H> {
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> NonNull<u8> {
        // SAFETY: this function's contract: a live block of the allocator's, of the old layout.
        unsafe { self.0.resize(block, old, new, Scope::Object) }.expect("memory")
    }
}

impl Resizer for Callbacks {
    unsafe fn grow(&self, block: NonNull<u8>, _: Layout, new: Layout) -> NonNull<u8> {
        let function = self.0.pfn_reallocation.expect("always there");
        let (size, align) = (new.size(), new.align());
        // SAFETY: this function's contract: a live block of these callbacks.
        let block = unsafe {
            function(
                self.0.p_user_data,
                block.as_ptr().cast(),
                size,
                align,
                Scope::Object as i32,
            )
        };
        NonNull::new(block.cast()).expect("memory")
    }
}

fn aligned<S: Subject>(subject: &S, operations: usize) {
    let layouts = black_box([32, 64, 128, 256].map(|align| layout(3 * align + 24, align)));
    for _ in 0..operations / layouts.len() {
        for layout in layouts {
            let block = subject.take(layout);
            write(block);
            // SAFETY: just taken with this layout.
            unsafe { subject.give(block, layout) };
        }
    }
}

/// 64 bytes to 64 KiB by doubling; one operation is one doubling.
fn doubling<S: Resizer>(subject: &S, operations: usize) {
    for _ in 0..operations.div_ceil(10) {
        let mut old = layout(64, 8);
        let mut block = subject.take(old);
        for _ in 0..10 {
            let new = layout(2 * old.size(), 8);
            // SAFETY: the block is live and of the old layout.
            block = unsafe { subject.grow(block, old, new) };
            write(block);
            old = new;
        }
        // SAFETY: the block is live and of this layout.
        unsafe { subject.give(block, old) };
    }
}
