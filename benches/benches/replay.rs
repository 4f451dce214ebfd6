//! What two drivers asked for, replayed: into an allocator, a context over it, a bridge over that, and into dhat.

mod support;

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::NonNull;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, HostAllocator, Scope};
use support::backing::{MIMALLOC, SYSTEM};
use support::clock::{pinned, thread_ns};
use support::report::BenchReport;
use support::rounds::{Case, interleave};
use support::trace::{Op, Trace};
use vk_callbacks::Bridge;
use vk_callbacks::raw::RawCallbacks;

// SAFETY: dhat's allocator has no state of its own.
static DHAT: FromGlobalAlloc<dhat::Alloc> = unsafe { FromGlobalAlloc::new(dhat::Alloc) };

fn main() {
    // The testing mode records as much as the profiling one and writes no file.
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut report = BenchReport::new(
        "replay",
        &["case", "raw", "context", "bridge+context", "dhat"],
    );
    for (name, file) in [
        ("lavapipe", "lavapipe-22.3.trace.gz"),
        ("nvidia", "nvidia-580-h200.trace.gz"),
    ] {
        let trace = Trace::bundled(file);
        over(
            &mut report,
            &format!("{name}-system"),
            &SYSTEM,
            &trace,
            true,
        );
        over(
            &mut report,
            &format!("{name}-mimalloc"),
            &MIMALLOC,
            &trace,
            false,
        );
    }
    report.print();
}

fn over<H: HostAllocator + Sync>(
    report: &mut BenchReport,
    label: &str,
    backing: &'static H,
    trace: &Trace,
    with_dhat: bool,
) {
    let root = Context::root_static(backing, ContextOptions::new("root")).expect("memory");
    let plain = root.child("plain").expect("memory");
    let bridge = Bridge::new(root.child("bridge").expect("memory")).expect("an unused context");
    let raw = bridge.raw();
    let mut cases = vec![
        Case::new("raw", || timed(|| direct(trace, backing), trace)),
        Case::new("context", || timed(|| direct(trace, &plain), trace)),
        Case::new("bridge+context", || timed(|| through(trace, &raw), trace)),
    ];
    if with_dhat {
        cases.push(Case::new("dhat", || timed(|| direct(trace, &DHAT), trace)));
    }
    let mut times: Vec<f64> = interleave(11, cases)
        .into_iter()
        .map(|figures| figures[0])
        .collect();
    report.ratio(&format!("{label}-context"), "raw", times[1], times[0]);
    report.delta(&format!("{label}-context"), times[1], times[0]);
    report.ratio(&format!("{label}-bridge"), "raw", times[2], times[0]);
    report.delta(&format!("{label}-bridge"), times[2], times[0]);
    if let Some(dhat) = times.get(3) {
        report.ratio(&format!("{label}-context"), "dhat", times[1], *dhat);
    }
    times.resize(4, f64::NAN);
    report.row(label, &times);
    drop(bridge.close().expect("everything was given back"));
}

/// ns a call of the trace.
fn timed(run: impl Fn() + Sync, trace: &Trace) -> f64 {
    pinned(|| {
        let before = thread_ns();
        run();
        (thread_ns() - before) as f64 / trace.ops.len() as f64
    })
}

/// # Safety
/// The block has at least one byte.
unsafe fn touch(block: NonNull<u8>) {
    // SAFETY: this function's contract: a byte of the block.
    unsafe { block.as_ptr().write_volatile(1) };
}

fn direct<H: HostAllocator>(trace: &Trace, host: &H) {
    let mut slots: Vec<(NonNull<u8>, Layout, Scope)> =
        vec![(NonNull::dangling(), Layout::new::<u8>(), Scope::Object); trace.slots];
    for op in &trace.ops {
        match *op {
            Op::Take {
                slot,
                layout,
                scope,
            } => {
                let block = host.allocate(layout, scope).expect("memory");
                // SAFETY: size 0 is left out of traces.
                unsafe { touch(block) };
                slots[slot] = (block, layout, scope);
            }
            Op::Resize { from, to, layout } => {
                let (block, old, scope) = slots[from];
                // SAFETY: the slot's block is live with this layout and scope.
                let block = unsafe { host.resize(block, old, layout, scope) };
                slots[to] = (block.expect("memory"), layout, scope);
            }
            Op::Give { slot } => {
                let (block, layout, scope) = slots[slot];
                // SAFETY: the slot's block is live with this layout and scope; a trace gives each slot back once.
                unsafe { host.deallocate(block, layout, scope) };
            }
        }
    }
}

fn through(trace: &Trace, callbacks: &RawCallbacks) {
    let user = callbacks.p_user_data;
    let (allocate, reallocate, free) = (
        callbacks.pfn_allocation.expect("always there"),
        callbacks.pfn_reallocation.expect("always there"),
        callbacks.pfn_free.expect("always there"),
    );
    let mut slots: Vec<*mut c_void> = vec![std::ptr::null_mut(); trace.slots];
    for op in &trace.ops {
        match *op {
            Op::Take {
                slot,
                layout,
                scope,
            } => {
                // SAFETY: the user data that belongs to the function; the bridge outlives the replay.
                let block = unsafe { allocate(user, layout.size(), layout.align(), scope as i32) };
                // SAFETY: size 0 is left out of traces.
                unsafe { touch(NonNull::new(block.cast()).expect("memory")) };
                slots[slot] = block;
            }
            Op::Resize { from, to, layout } => {
                // SAFETY: the slot's block is live.
                slots[to] = unsafe {
                    reallocate(
                        user,
                        slots[from],
                        layout.size(),
                        layout.align(),
                        Scope::Object as i32,
                    )
                };
            }
            Op::Give { slot } => {
                // SAFETY: the slot's block is live; a trace gives each slot back once.
                unsafe { free(user, slots[slot]) };
            }
        }
    }
}
