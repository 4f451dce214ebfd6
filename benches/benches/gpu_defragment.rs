//! Defragmentation of whole heaps: ours beside VMA with its flag `FULL`, which moves most.
//!
//! Each heap is a trace up to its last allocation, of which 50, 75 or 90 % is freed at random then, behind a driver
//! that only counts; copies cost nothing. Rows are means of the seeds: bytes reserved afterwards and bytes moved, both
//! over bytes live, and microseconds of the calls from the first to the last.

mod gpu;
mod support;

use std::mem::MaybeUninit;

use alloc_core::{Context, ContextOptions};
use gpu::driver::{self, Driver};
use gpu::play::Places;
use gpu::traces::{MemoryTrace, SizeEnding, TraceOp, TraceScale, all_traces};
use gpu::whole::{Ours, Vma};
use gpu_suballoc::allocator::{DefragmentationOptions, DefragmentationTotals, MoveOutcome};
use support::backing::SYSTEM;
use support::clock::{pinned, thread_ns};
use support::report::BenchReport;
use support::rounds::{amount, quick, wanted};

const HEAD: [&str; 6] = ["heap, by whom", "left/live", "moved/live", "us", "moves", "blocks freed"];

/// `VMA_DEFRAGMENTATION_FLAG_ALGORITHM_FULL_BIT`.
const FULL_ALGORITHM: u32 = 4;

/// Of one heap.
#[derive(Clone, Copy, Default)]
struct HeapResult {
    left: f64,
    moved: f64,
    us: f64,
    moves: f64,
    blocks: f64,
}

impl HeapResult {
    fn plus(self, other: Self) -> Self {
        Self {
            left: self.left + other.left,
            moved: self.moved + other.moved,
            us: self.us + other.us,
            moves: self.moves + other.moves,
            blocks: self.blocks + other.blocks,
        }
    }

    fn cells(self, seeds: f64) -> [f64; 5] {
        [self.left, self.moved, self.us, self.moves, self.blocks].map(|sum| sum / seeds)
    }
}

fn main() {
    let mut report = BenchReport::new("gpu_defragment", &HEAD);
    let driver = Driver::hollow();
    let root = &Context::root_static(&SYSTEM, ContextOptions::new("regions")).expect("memory");
    let seeds = if quick() { 1 } else { 8 };
    let [churn, frames, streaming, _] = all_traces(SizeEnding::Rounded, TraceScale::FULL, amount);
    for trace in [churn, frames, streaming] {
        for percent in [50, 75, 90] {
            let label = format!("{}-{percent}", trace.name);
            if !wanted(&label) {
                continue;
            }
            let (mut ours, mut vma) = (HeapResult::default(), HeapResult::default());
            pinned(|| {
                for seed in 0..seeds {
                    ours = ours.plus(of_ours(&trace, percent, seed, &driver, root));
                    vma = vma.plus(of_vma(&trace, percent, seed, &driver));
                }
            });
            let of = |sum: HeapResult| sum.cells(f64::from(seeds as u32));
            let (ours, vma) = (of(ours), of(vma));
            report.row(&format!("{label} ours"), &ours);
            report.row(&format!("{label} vma"), &vma);
            for (index, what) in [(0, "bytes-left"), (1, "bytes-moved"), (2, "time")] {
                report.ratio(&format!("{label}-{what}"), "vma", ours[index], vma[index]);
            }
        }
    }
    report.print();
}

/// What is left of a heap: pieces, their bytes, and bytes live.
fn heap<P: Places>(trace: &MemoryTrace, percent: u64, seed: u64, subject: &mut P) -> (Vec<P::Piece>, u64) {
    let mut slots: Vec<Option<(P::Piece, u64)>> = Vec::new();
    slots.resize_with(trace.slots, || None);
    let last = trace.ops.iter().rposition(|op| matches!(op, TraceOp::Allocate { .. })).map_or(0, |at| at + 1);
    for op in &trace.ops[..last] {
        match *op {
            TraceOp::Allocate { slot, size } => {
                let piece = subject.take(size, trace.align).expect("no limit");
                slots[slot as usize] = Some((piece, size));
            }
            TraceOp::Free { slot } => {
                if let Some((piece, _)) = slots[slot as usize].take() {
                    subject.give(piece);
                }
            }
        }
    }
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (mut left, mut live) = (Vec::new(), 0);
    for (piece, size) in slots.into_iter().flatten() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (random >> 20) % 100 < percent {
            subject.give(piece);
        } else {
            live += size;
            left.push(piece);
        }
    }
    (left, live)
}

fn of_ours(trace: &MemoryTrace, percent: u64, seed: u64, driver: &Driver, root: &Context) -> HeapResult {
    let mut ours = Ours::new(driver, root);
    let (left, live) = heap(trace, percent, seed, &mut ours);
    let begin = thread_ns();
    let totals = move_all(&ours);
    let us = (thread_ns() - begin) as f64 / 1000.0;
    let result = HeapResult {
        left: driver::reserved() as f64 / live as f64,
        moved: totals.moved_bytes as f64 / live as f64,
        us,
        moves: totals.moves as f64,
        blocks: f64::from(totals.freed_blocks),
    };
    left.into_iter().for_each(|piece| ours.give(piece));
    result
}

/// Not inlined, so that a profiler finds it.
#[inline(never)]
fn move_all(ours: &Ours<'_>) -> DefragmentationTotals {
    let options = DefragmentationOptions::new().move_bare_regions();
    let mut run = ours.allocator().defragment(options).expect("memory");
    loop {
        let mut pass = run.next_pass().expect("memory");
        if pass.is_empty() {
            break;
        }
        pass.set_outcomes(MoveOutcome::Copied);
        pass.finish(|_, _| ());
    }
    run.totals()
}

fn of_vma(trace: &MemoryTrace, percent: u64, seed: u64, driver: &Driver) -> HeapResult {
    let mut vma = Vma::new(driver);
    let (left, live) = heap(trace, percent, seed, &mut vma);
    let begin = thread_ns();
    // The structure has no public name; its flags are its first four bytes.
    let mut info = MaybeUninit::zeroed();
    // SAFETY: within the structure, which is aligned for its first field.
    unsafe { (&raw mut info).cast::<u32>().write(FULL_ALGORITHM) };
    // SAFETY: all zeroes are a valid value of this C structure: no pool, no limits, no callback.
    let info = unsafe { info.assume_init() };
    // SAFETY: a live allocator, and a sound structure.
    let run = unsafe { vma.allocator.begin_defragmentation(&info) }.expect("memory");
    // Every move is a copy unless it says otherwise.
    while run.begin_pass(|_| ()) {}
    let stats = run.end();
    let us = (thread_ns() - begin) as f64 / 1000.0;
    let result = HeapResult {
        left: driver::reserved() as f64 / live as f64,
        moved: stats.bytesMoved as f64 / live as f64,
        us,
        moves: f64::from(stats.allocationsMoved),
        blocks: f64::from(stats.deviceMemoryBlocksFreed),
    };
    left.into_iter().for_each(|piece| vma.give(piece));
    result
}
