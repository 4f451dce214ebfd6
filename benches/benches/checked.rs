//! The live checker around a bridge, against the bridge alone: what checked mode costs a pair of calls.
//!
//! The calls come as a driver's do, inside a command whose object has the callbacks: what is timed is the checker
//! finding nothing.

mod support;

use std::alloc::Layout;
use std::pin::pin;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope, Scoped};
use support::backing::{MIMALLOC, SYSTEM};
use support::callbacks::{Callbacks, lifo, live};
use support::clock::{measure, processors};
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave, wanted};
use support::trace::requests;
use vk_callbacks::bridge::BareBridge;
use vk_callbacks::check::CheckedOwner;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{CheckOptions, Checker, Command, OwnerId, Owners};

fn main() {
    let mut report = BenchReport::new("checked", &["case", "bridge", "checked"]);
    let sizes = requests();
    over(&mut report, "system", &SYSTEM, &sizes);
    over(&mut report, "mimalloc", &MIMALLOC, &sizes);
    report.print();
}

fn over<H: HostAllocator + Sync>(report: &mut BenchReport, name: &str, backing: &'static H, sizes: &[Layout]) {
    let bridge = pin!(BareBridge::new(backing));
    let bridge = bridge.as_ref();
    let checker = Checker::new(&SYSTEM, CheckOptions::default()).expect("memory");
    // SAFETY: the bridge outlives the checker's use.
    let checked = unsafe { checker.wrap(bridge.raw(), CheckedOwner::new(bridge.owner(), "VkBuffer")) }.expect("memory");
    let subjects = (Callbacks(bridge.raw()), Callbacks(*checked.raw()));
    for (what, operations, threads) in [("lifo-64", 200_000, 1), ("lifo-64-2t", 200_000, 2), ("live-1024", 200_000, 1)]
    {
        let label = format!("{name}-{what}");
        if !wanted(&label) {
            continue;
        }
        if threads > processors().len() {
            println!("SKIPPED checked/{label}: one processor");
            continue;
        }
        let case = |subject| case(&checker, bridge.owner(), subject, what, sizes, operations, threads);
        let times = interleave(15, vec![case(&subjects.0), case(&subjects.1)]);
        let times: Vec<f64> = times.into_iter().map(|figures| figures[0]).collect();
        report.row(&label, &times);
        let [bridge, checked] = times.as_slice() else {
            continue;
        };
        report.ratio(&label, "bridge", *checked, *bridge);
        report.delta(&label, *checked, *bridge);
    }
    let findings = checker.findings(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object)).expect("memory");
    assert_eq!(findings.len(), 0, "the slow path was timed: {:?}", findings.iter().next());
    checker.close().expect("everything was given back");
}

/// The work inside a command that makes a buffer, also where nobody checks.
fn case<'a>(
    checker: &'a Checker<'_>,
    owner: OwnerId,
    subject: &'a Callbacks,
    what: &'static str,
    sizes: &'a [Layout],
    operations: usize,
    threads: usize,
) -> Case<'a> {
    let owners = Owners { object: Some(owner), ..Owners::default() };
    Case::new(what, move || {
        measure(threads, amount(operations), |operations| {
            checker.run(Command::new("vkCreateBuffer", owners, BracketCoverage::Complete), |_| match what {
                "live-1024" => live(subject, sizes, operations),
                _ => lifo(subject, operations),
            });
        })
    })
}
