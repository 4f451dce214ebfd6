//! Take, write and give back through a context, over System and over mimalloc: what counting costs.
//!
//! `pair` is one block at a time, `churn` a ring of 256 live ones, sizes 16..=256 in steps of 8; one thread and two on one
//! context; here and in a library loaded at run time.
#![allow(
    clippy::duplicate_mod,
    reason = "`functions` is also a package of its own, with its own copy of the allocators"
)]

#[path = "../dl/src/lib.rs"]
mod functions;
mod support;

use std::alloc::Layout;
use std::path::PathBuf;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{
    AllocError, AllocatorTraits, Budget, Context, ContextOptions, HostAllocator, Scope,
};
use functions::Functions;
use support::backing::{MIMALLOC, SYSTEM};
use support::clock::{measure, processors};
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave, wanted};
use support::subject::{ByAllocator, ByScope, Subject, churn, pair};

const COLUMNS: [&str; 7] = [
    "case",
    "raw",
    "by scope",
    "Allocator",
    "budget x1",
    "budget x7",
    "shared atomic",
];

fn main() {
    let mut report = BenchReport::new("pair", &COLUMNS);
    here(&mut report, "system", &SYSTEM);
    here(&mut report, "mimalloc", &MIMALLOC);
    let own = functions::steward_bench_functions;
    c_functions(
        &mut report,
        "executable-c",
        &[
            ("system", own(0, false), own(0, true)),
            ("mimalloc", own(1, false), own(1, true)),
        ],
    );
    match library() {
        Ok(library) => {
            // SAFETY: built from the same source as `functions`, a moment ago.
            let found = unsafe {
                library.get::<extern "C" fn(u32, bool) -> Functions>(b"steward_bench_functions")
            };
            let theirs = found.expect("the library has it");
            let of = |allocator| (theirs(allocator, false), theirs(allocator, true));
            let ((raw, ours), (mi_raw, mi_ours)) = (of(0), of(1));
            c_functions(
                &mut report,
                "dlopened",
                &[("system", raw, ours), ("mimalloc", mi_raw, mi_ours)],
            );
            // Its thread-locals are in use until the threads are gone, its contexts for ever.
            std::mem::forget(library);
        }
        Err(why) => println!("SKIPPED pair/dlopened: {why}"),
    }
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
                parent
                    .child_with(ContextOptions::new("budgeted").budget(Budget::limit(1 << 30)))
                    .expect("memory"),
            );
        }
        chain
    };
    let (plain, one, seven) = (
        root.child("plain").expect("memory"),
        budgeted(1),
        budgeted(7),
    );
    let (raw, scoped, allocator) = (ByScope(backing), ByScope(&plain), ByAllocator(&plain));
    let (one, seven) = (
        ByScope(one.last().expect("one")),
        ByScope(seven.last().expect("seven")),
    );
    let atomic = ByScope(SharedAtomic {
        backing,
        live: AtomicU64::new(0),
    });
    for (what, is_pair) in [("pair", true), ("churn", false)] {
        if !wanted(&format!("executable-{name}-{what}")) {
            continue;
        }
        let mut cases = Vec::new();
        for threads in threads() {
            cases.push(case(&raw, is_pair, threads));
            cases.push(case(&scoped, is_pair, threads));
            cases.push(case(&allocator, is_pair, threads));
            cases.push(case(&one, is_pair, threads));
            cases.push(case(&seven, is_pair, threads));
            cases.push(case(&atomic, is_pair, threads));
        }
        let times: Vec<f64> = interleave(15, cases)
            .into_iter()
            .map(|figures| figures[0])
            .collect();
        for (threads, row) in threads().zip(times.chunks(6)) {
            let [raw, scoped, allocator, one, seven, atomic] = row else {
                continue;
            };
            let label = format!("executable-{name}-{what}-{threads}t");
            report.row(&label, row);
            for (variant, ours) in [
                ("", scoped),
                ("-allocator", allocator),
                ("-budget1", one),
                ("-budget7", seven),
            ] {
                report.ratio(&format!("{label}{variant}"), "raw", *ours, *raw);
                report.delta(&format!("{label}{variant}"), *ours, *raw);
            }
            report.ratio(&label, "shared-atomic", *scoped, *atomic);
        }
        if let [raw1, ours1, _, _, _, _, raw2, ours2, ..] = times.as_slice() {
            report.ratio(
                &format!("executable-{name}-{what}-2t-over-1t"),
                "raw",
                ours2 / ours1,
                raw2 / raw1,
            );
        }
    }
}

/// Ours and raw behind C functions, each called for one operation.
fn c_functions(report: &mut BenchReport, place: &str, subjects: &[(&str, Functions, Functions)]) {
    for (name, raw, ours) in subjects {
        let (raw, ours) = (ByPointer(*raw), ByPointer(*ours));
        for (what, is_pair) in [("pair", true), ("churn", false)] {
            if !wanted(&format!("{place}-{name}-{what}")) {
                continue;
            }
            let cases = threads()
                .flat_map(|threads| [case(&raw, is_pair, threads), case(&ours, is_pair, threads)])
                .collect();
            let times: Vec<f64> = interleave(15, cases)
                .into_iter()
                .map(|figures| figures[0])
                .collect();
            for (threads, row) in threads().zip(times.chunks(2)) {
                let [raw, ours] = row else { continue };
                let label = format!("{place}-{name}-{what}-{threads}t");
                report.row(&label, row);
                report.ratio(&label, "raw", *ours, *raw);
                report.delta(&label, *ours, *raw);
            }
            if let [raw1, ours1, raw2, ours2] = times.as_slice() {
                report.ratio(
                    &format!("{place}-{name}-{what}-2t-over-1t"),
                    "raw",
                    ours2 / ours1,
                    raw2 / raw1,
                );
            }
        }
    }
}

fn threads() -> impl Iterator<Item = usize> {
    1..=processors().len().min(2)
}

fn case<S: Subject>(subject: &S, is_pair: bool, threads: usize) -> Case<'_> {
    let work: Work<S> = if is_pair { pair } else { churn };
    Case::new("", move || {
        measure(threads, amount(200_000), |operations| {
            work(subject, operations)
        })
    })
}

/// C functions and what they are called with.
struct ByPointer(Functions);

// SAFETY: the state is an allocator that may be used from any thread.
unsafe impl Sync for ByPointer {}

impl Subject for ByPointer {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        // SAFETY: the state that belongs to the function, and the parts of a layout.
        let block = unsafe { (self.0.take)(self.0.state, layout.size(), layout.align()) };
        NonNull::new(block.cast()).expect("memory")
    }
    #[inline]
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this function's contract: a live block of this function's state.
        unsafe {
            (self.0.give)(
                self.0.state,
                block.as_ptr().cast(),
                layout.size(),
                layout.align(),
            )
        }
    }
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

/// Builds the package `dl` as benches are built, and loads it.
fn library() -> Result<libloading::Library, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("dl/Cargo.toml");
    let output = Command::new(cargo)
        .args([
            "build",
            "--profile",
            "bench",
            "--message-format",
            "json",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "the library was not built: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    // One line of JSON for each artifact; the file's name is all that is wanted of it.
    let text = String::from_utf8_lossy(&output.stdout);
    let path = text
        .lines()
        .filter(|line| line.contains("steward-bench-dl"))
        .flat_map(|line| line.split('"'))
        .find(|part| {
            part.ends_with(std::env::consts::DLL_SUFFIX) && part.contains("steward_bench_dl")
        })
        .ok_or("cargo named no library")?;
    // SAFETY: our own library: loading it runs nothing but the C library's and Rust's own start-up code.
    unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())
}
