//! The layer on lavapipe: the same work without it, with its accounts, with its checker too, and with a state file.
//!
//! Each measurement is a process of its own, and processes take turns. Figures are minima of processor time: on a
//! loaded machine a minimum is what repeats. The clients of `STEWARD_CLIENTS` run as they are.

mod support;

#[path = "layer/child.rs"]
mod child;
#[path = "layer/clients.rs"]
mod clients;
#[path = "layer/process.rs"]
mod process;

use std::hint::black_box;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope, Scoped};
use process::{Layer, LayerSubject, SUBJECTS};
use support::backing::SYSTEM;
use support::clock::{pinned, thread_ns};
use support::report::BenchReport;
use support::rounds::{amount, quick, wanted};
use vk_callbacks::check::CheckedOwner;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{Bridge, CheckOptions, Checker, Command, Owners};

fn main() {
    if let Some(work) = process::work() {
        return child::run(&work);
    }
    let subjects = SUBJECTS.map(|subject| subject.name);
    let head: Vec<&str> = ["case"].into_iter().chain(subjects).collect();
    let mut report = BenchReport::minima("layer", &head);
    if wanted("bracket") {
        bracket(&mut report);
        null_frees(&mut report);
    }
    match Layer::new() {
        Ok(layer) => {
            report.count("library-kib", layer.stripped_kib());
            if wanted("commands") {
                commands(&mut report, &layer);
            }
            if wanted("process") {
                whole_process(&mut report, &layer);
            }
            clients::run(&mut report, &layer);
        }
        Err(reason) => println!("SKIPPED layer/*: {reason}"),
    }
    report.print();
}

/// A command that asks for nothing: what the checker costs each.
fn bracket(report: &mut BenchReport) {
    let checker = Checker::new(&SYSTEM, CheckOptions::default()).expect("memory");
    let command = || Command::new("vkQueueSubmit", Owners::default(), BracketCoverage::Complete);
    let operations = amount(200_000);
    let round = || {
        let before = thread_ns();
        for _ in 0..operations {
            checker.run(black_box(command()), |frame| {
                black_box(frame);
            });
        }
        (thread_ns() - before) as f64 / operations as f64
    };
    let least = pinned(|| (0..25).map(|_| round()).fold(f64::INFINITY, f64::min));
    report.ns("empty-bracket", least);
    let memory = Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object);
    assert_eq!(checker.findings(memory).expect("memory").len(), 0);
    checker.close().expect("nothing is left");
}

/// A command that frees NULL once, as drivers do in nearly every command that destroys: what that costs beside the
/// command.
fn null_frees(report: &mut BenchReport) {
    let checker = Checker::new(&SYSTEM, CheckOptions::default()).expect("memory");
    let context = Context::root_static(&SYSTEM, ContextOptions::new("bench")).expect("memory");
    let bridge = Bridge::new(context).expect("memory");
    let owner = CheckedOwner::new(bridge.owner(), "VkBuffer");
    // SAFETY: the bridge outlives the calls below.
    let checked = unsafe { checker.wrap(bridge.raw(), owner) }.expect("a place");
    let owners = Owners { object: Some(bridge.owner()), ..Owners::default() };
    let operations = amount(100_000);
    let mut least = [f64::INFINITY; 2];
    for _ in 0..25 {
        for (frees, least) in [0, 1].into_iter().zip(&mut least) {
            let before = thread_ns();
            for _ in 0..operations {
                let command = Command::new("vkDestroyBuffer", owners, BracketCoverage::Complete);
                checker.run(black_box(command), |_| {
                    for _ in 0..black_box(frees) {
                        let raw = checked.raw();
                        let free = raw.pfn_free.expect("a function");
                        // SAFETY: live callbacks; a free of NULL does nothing (V18).
                        unsafe { free(raw.p_user_data, std::ptr::null_mut()) };
                    }
                });
            }
            let ns = (thread_ns() - before) as f64 / operations as f64;
            *least = least.min(ns);
        }
    }
    report.ns("free-of-null", least[1] - least[0]);
    let memory = Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object);
    let findings = checker.findings(memory).expect("memory");
    assert_eq!((findings.len(), findings[0].count), (1, 25 * operations as u64));
    // SAFETY: nobody has the callbacks any more.
    unsafe { checker.close_anyway() };
    bridge.close().expect("nothing is left");
}

/// Commands one by one, in ns of the calling thread.
fn commands(report: &mut BenchReport, layer: &Layer) {
    let rounds = if quick() { 1 } else { 9 };
    let mut least = SUBJECTS.map(|_| [f64::INFINITY; child::CASES.len()]);
    for _ in 0..rounds {
        for (subject, least) in SUBJECTS.iter().zip(&mut least) {
            let measured = layer.child("commands", subject);
            for (least, ns) in least.iter_mut().zip(measured) {
                *least = least.min(ns);
            }
        }
    }
    for (case, name) in child::CASES.iter().enumerate() {
        row(report, name, &least.map(|least| least[case]));
    }
}

/// A process that creates an instance and a device and ends: ms of processor time, KiB resident.
fn whole_process(report: &mut BenchReport, layer: &Layer) {
    let rounds = if quick() { 2 } else { 25 };
    let mut least = SUBJECTS.map(|_| (f64::INFINITY, f64::INFINITY));
    for _ in 0..rounds {
        for (subject, least) in SUBJECTS.iter().zip(&mut least) {
            let mut resident = f64::INFINITY;
            let ms = process::cpu_ms(|| {
                resident = layer.child("start", subject)[0];
            });
            *least = (least.0.min(ms), least.1.min(resident));
        }
    }
    row(report, "process-ms", &least.map(|least| least.0));
    row(report, "process-kib", &least.map(|least| least.1));
}

/// A row of the table, and each subject's figures over the work without the layer.
fn row<const N: usize>(report: &mut BenchReport, case: &str, least: &[f64; N]) {
    report.row(case, least);
    for (subject, ours) in SUBJECTS.iter().zip(least).skip(1) {
        let LayerSubject { name, .. } = subject;
        report.ratio(&format!("{case}-{name}"), "without", *ours, least[0]);
        report.delta(&format!("{case}-{name}"), *ours, least[0]);
    }
}
