//! One allocator used by 1, 2, 4, 8 and 16 threads at once: ours beside VMA, each thread with a trace of its own.
//!
//! Behind a driver that only counts, or with `--device=WORD` on the first Vulkan device whose name contains the word
//! (`--device=nvidia`). The traces are the largest that fit the heap for all threads. Each row: ns an operation and
//! thread by the clock on the wall, from the common start to the end of the last thread, so that waiting for a lock
//! counts; then in processor time. Counts of threads above the number of processors are skipped.

mod gpu;
mod support;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use alloc_core::{Context, ContextOptions};
use gpu::driver::Driver;
use gpu::play::play;
use gpu::traces::{MemoryTrace, SizeEnding, TraceScale, all_traces};
use gpu::whole::{Ours, Vma};
use support::backing::SYSTEM;
use support::clock::{pin, processors, thread_ns};
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave, wanted};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const HEAD: [&str; 5] = ["trace, threads", "ours", "vma", "ours, processor", "vma"];

/// An allocator that threads share.
trait SharedPlaces: Sync {
    type Piece;
    fn take(&self, size: u64, align: u64) -> Option<Self::Piece>;
    fn give(&self, piece: Self::Piece);
}

impl SharedPlaces for Ours<'_> {
    type Piece = gpu_suballoc::Region;
    #[inline]
    fn take(&self, size: u64, align: u64) -> Option<Self::Piece> {
        self.take_shared(size, align)
    }
    #[inline]
    fn give(&self, piece: Self::Piece) {
        self.give_shared(piece);
    }
}

impl SharedPlaces for Vma {
    type Piece = vk_mem::Allocation;
    #[inline]
    fn take(&self, size: u64, align: u64) -> Option<Self::Piece> {
        self.take_shared(size, align)
    }
    #[inline]
    fn give(&self, piece: Self::Piece) {
        self.give_shared(piece);
    }
}

fn main() {
    let root = &Context::root_static(&SYSTEM, ContextOptions::new("threads")).expect("memory");
    let (label, driver) = match std::env::args().find_map(|it| it.strip_prefix("--device=").map(str::to_owned)) {
        None => ("hollow", Driver::hollow()),
        Some(word) => match Driver::open(&word) {
            Ok([plain, _]) => {
                println!("device: {}", plain.name());
                ("device", plain)
            }
            Err(why) => {
                println!("SKIPPED gpu_threads: {why}");
                return;
            }
        },
    };
    let mut report = BenchReport::on_the_wall("gpu_threads", &HEAD);
    let (_, heap) = driver.memory_type();
    for threads in THREADS {
        if threads > processors().len() {
            println!("SKIPPED gpu_threads/{threads}t: {} processors", processors().len());
            continue;
        }
        let Some(traces) = traces(heap / 2 / threads as u64) else {
            println!("SKIPPED gpu_threads/{threads}t: a heap of {heap} bytes is too small");
            continue;
        };
        for trace in &traces {
            let case = format!("{label}-{}-{threads}t", trace.name);
            if !wanted(&case) {
                continue;
            }
            let ours = || Ours::new(&driver, root);
            let vma = || Vma::new(&driver);
            let cases = vec![
                Case::several("ours", || together(&ours(), trace, threads)),
                Case::several("vma", || together(&vma(), trace, threads)),
            ];
            let times = interleave(11, cases);
            let [ours, vma] = [&times[0], &times[1]];
            report.row(&case, &[ours[0], vma[0], ours[1], vma[1]]);
            report.ns(&case, ours[0]);
            report.ratio(&case, "vma", ours[0], vma[0]);
            report.ratio(&format!("{case}-processor"), "vma", ours[1], vma[1]);
        }
    }
    report.print();
}

/// For many threads on one heap: half a GiB each.
const TINY: TraceScale = TraceScale { churn: 256 << 10, texture: 2 << 20 };

/// The largest traces of which each fits into so many bytes.
fn traces(bytes: u64) -> Option<[MemoryTrace; 4]> {
    [TraceScale::FULL, TraceScale::SMALL, TINY]
        .map(|scale| all_traces(SizeEnding::Rounded, scale, |rounds| amount(rounds / 2)))
        .into_iter()
        .find(|traces| traces.iter().all(|trace| trace.peak <= bytes / 10 * 9))
}

/// Every thread plays the trace; ns an operation and thread: on the wall, and of a processor.
fn together<P: SharedPlaces>(subject: &P, trace: &MemoryTrace, threads: usize) -> Vec<f64> {
    let ready = &AtomicUsize::new(0);
    let one = |number: usize| {
        pin(number);
        let mut slots = Vec::with_capacity(trace.slots);
        slots.resize_with(trace.slots, || None);
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < threads {
            spin_loop();
        }
        let (start, before) = (Instant::now(), thread_ns());
        let refused = play(trace, &mut slots, |size| subject.take(size, trace.align), |piece| subject.give(piece));
        let took = thread_ns() - before;
        assert_eq!(refused, 0, "the heap is large enough");
        (start, Instant::now(), took)
    };
    let one = &one;
    let times: Vec<(Instant, Instant, u64)> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || one(number))).collect();
        all.into_iter().map(|each| each.join().expect("the work does not panic")).collect()
    });
    let begun = times.iter().map(|time| time.0).min().expect("one at least");
    let ended = times.iter().map(|time| time.1).max().expect("one at least");
    let processor: u64 = times.iter().map(|time| time.2).sum();
    let operations = trace.ops.len() as f64;
    vec![(ended - begun).as_nanos() as f64 / operations, processor as f64 / operations / threads as f64]
}
