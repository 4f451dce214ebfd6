//! The C functions that Vulkan is handed, against the allocator behind them called directly with a known layout.
//!
//! `bare` is a `BareBridge` over that allocator, `bridge` a `Bridge` over a context over it. Block sizes of the 1024
//! live are those that lavapipe asked for.

mod support;

use std::alloc::Layout;
use std::pin::pin;

use alloc_core::{Context, ContextOptions, HostAllocator};
use support::backing::{MIMALLOC, SYSTEM};
use support::callbacks::{Callbacks, lifo, live};
use support::clock::{measure, processors};
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave, wanted};
use support::subject::{ByScope, Subject};
use support::trace::requests;
use vk_callbacks::Bridge;
use vk_callbacks::bridge::BareBridge;

fn main() {
    let mut report = BenchReport::new("bridge", &["case", "raw", "bare", "context", "bridge"]);
    let sizes = requests();
    over(&mut report, "system", &SYSTEM, &sizes);
    over(&mut report, "mimalloc", &MIMALLOC, &sizes);
    report.print();
}

fn over<H: HostAllocator + Sync>(report: &mut BenchReport, name: &str, backing: &'static H, sizes: &[Layout]) {
    let root = Context::root_static(backing, ContextOptions::new("root")).expect("memory");
    let plain = root.child("plain").expect("memory");
    let bare = pin!(BareBridge::new(backing));
    let bridge = Bridge::new(root.child("bridge").expect("memory")).expect("an unused context");
    let subjects = (ByScope(backing), Callbacks(bare.as_ref().raw()), ByScope(&plain), Callbacks(bridge.raw()));
    for (what, operations, threads) in [("lifo-64", 200_000, 1), ("lifo-64-2t", 200_000, 2), ("live-1024", 200_000, 1)]
    {
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
        report.ratio(&format!("{label}-over-context"), "context", *bridge, *context);
        report.delta(&format!("{label}-over-context"), *bridge, *context);
        report.ratio(&format!("{label}-all"), "raw", *bridge, *raw);
        report.delta(&format!("{label}-all"), *bridge, *raw);
    }
    drop(bridge.close().expect("everything was given back"));
}

fn case<'a, S: Subject>(
    subject: &'a S,
    what: &'static str,
    sizes: &'a [Layout],
    operations: usize,
    threads: usize,
) -> Case<'a> {
    Case::new(what, move || {
        measure(threads, amount(operations), |operations| match what {
            "live-1024" => live(subject, sizes, operations),
            _ => lifo(subject, operations),
        })
    })
}
