//! Plays a trace, and says what it took: time as a whole, time by operation, space.

use std::collections::BTreeMap;
use std::ops::Range;

use super::driver;
use super::stamps::{self, Scale};
use super::traces::{MemoryTrace, TraceOp};
use super::witness;
use crate::support::clock::thread_ns;

/// Who places pieces: a range alone, or an allocator with a driver behind it.
pub trait Places {
    type Piece;
    fn take(&mut self, size: u64, align: u64) -> Option<Self::Piece>;
    fn give(&mut self, piece: Self::Piece);
    /// Which block, and where in it.
    fn place(&self, piece: &Self::Piece) -> (u64, u64);
    /// Bytes of host memory by the subject's own accounts, where it keeps any.
    fn accounts(&self) -> Option<u64> {
        None
    }
}

/// Plays all of it; ns an operation, thread time.
pub fn bulk<P: Places>(trace: &MemoryTrace, mut subject: P) -> f64 {
    let mut slots = slots::<P>(trace);
    let begin = thread_ns();
    for op in &trace.ops {
        match *op {
            TraceOp::Allocate { slot, size } => slots[slot as usize] = subject.take(size, trace.align),
            TraceOp::Free { slot } => give(&mut subject, &mut slots, slot),
        }
    }
    (thread_ns() - begin) as f64 / trace.ops.len() as f64
}

fn slots<P: Places>(trace: &MemoryTrace) -> Vec<Option<P::Piece>> {
    let mut slots = Vec::with_capacity(trace.slots);
    slots.resize_with(trace.slots, || None);
    slots
}

#[inline]
fn give<P: Places>(subject: &mut P, slots: &mut [Option<P::Piece>], slot: u32) {
    if let Some(piece) = slots[slot as usize].take() {
        subject.give(piece);
    }
}

/// Plays all of it in so many empty slots; how many takes were refused.
pub fn play<T>(
    trace: &MemoryTrace,
    slots: &mut [Option<T>],
    take: impl Fn(u64) -> Option<T>,
    give: impl Fn(T),
) -> usize {
    let mut refused = 0;
    for op in &trace.ops {
        match *op {
            TraceOp::Allocate { slot, size } => {
                slots[slot as usize] = take(size);
                refused += usize::from(slots[slot as usize].is_none());
            }
            TraceOp::Free { slot } => slots[slot as usize].take().into_iter().for_each(&give),
        }
    }
    refused
}

/// ns of single operations.
#[derive(Clone, Copy, Default)]
pub struct Each {
    pub take: (f64, f64),
    pub give: (f64, f64),
}

/// Ticks of single operations.
struct Ticks {
    takes: Vec<u32>,
    gives: Vec<u32>,
}

impl Ticks {
    fn new(trace: &MemoryTrace) -> Self {
        Self { takes: Vec::with_capacity(trace.allocations), gives: Vec::with_capacity(trace.allocations) }
    }

    fn push(&mut self, wanted: bool, op: &TraceOp, ticks: u64) {
        if !wanted {
            return;
        }
        let times = if matches!(op, TraceOp::Allocate { .. }) { &mut self.takes } else { &mut self.gives };
        times.push(u32::try_from(ticks).unwrap_or(u32::MAX));
    }

    fn each(mut self, scale: Scale) -> Each {
        Each { take: scale.p50_p99(&mut self.takes), give: scale.p50_p99(&mut self.gives) }
    }
}

/// Median and 99th of a hundred of each kind, of the operations in `window`.
pub fn each<P: Places>(trace: &MemoryTrace, mut subject: P, scale: Scale, window: Range<usize>) -> Each {
    let mut slots = slots::<P>(trace);
    let mut ticks = Ticks::new(trace);
    for (at, op) in trace.ops.iter().enumerate() {
        // What the play itself fetches is there before the clock is read.
        let took = match *op {
            TraceOp::Allocate { slot, size } => {
                let before = stamps::now();
                let piece = subject.take(size, trace.align);
                let took = stamps::now() - before;
                slots[slot as usize] = piece;
                took
            }
            TraceOp::Free { slot } => {
                let Some(piece) = slots[slot as usize].take() else {
                    continue;
                };
                let before = stamps::now();
                subject.give(piece);
                stamps::now() - before
            }
        };
        ticks.push(window.contains(&at), op, took);
    }
    ticks.each(scale)
}

/// What a trace leaves where.
#[derive(Clone, Copy, Default)]
pub struct Space {
    /// The end of the last piece, at its farthest.
    pub high_water: u64,
    pub refused: usize,
    /// Host bytes at the peak by the witness, and by the subject's own accounts, for each piece that lives then.
    pub metadata: f64,
    pub accounts: Option<f64>,
    /// Calls of `malloc` and its kin for each take and each give.
    pub host_calls: f64,
    /// Device bytes at their most, and calls of the driver for each take and each give.
    pub reserved: u64,
    pub driver_calls: f64,
    /// Times of single operations with all that between them.
    pub each: Each,
}

/// Plays with everything counted and every piece compared with those that live; times are of the operations in
/// `window`.
///
/// # Panics
/// When a piece overlaps another, or is not aligned.
pub fn space<P: Places>(trace: &MemoryTrace, scale: Scale, window: Range<usize>, make: impl FnOnce() -> P) -> Space {
    let mut slots = slots::<P>(trace);
    let mut ticks = Ticks::new(trace);
    let mut live: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut space = Space::default();
    driver::reset();
    witness::arm();
    let mut subject = make();
    for (at, op) in trace.ops.iter().enumerate() {
        match *op {
            TraceOp::Allocate { slot, size } => {
                let before = stamps::now();
                let piece = subject.take(size, trace.align);
                ticks.push(window.contains(&at), op, stamps::now() - before);
                witness::apart(|| match &piece {
                    None => space.refused += 1,
                    Some(piece) => {
                        let place = subject.place(piece);
                        put(&mut live, place, size, trace.align);
                        space.high_water = space.high_water.max(place.1 + size);
                    }
                });
                slots[slot as usize] = piece;
            }
            TraceOp::Free { slot } => {
                let Some(piece) = slots[slot as usize].take() else {
                    continue;
                };
                witness::apart(|| live.remove(&subject.place(&piece)));
                let before = stamps::now();
                subject.give(piece);
                ticks.push(window.contains(&at), op, stamps::now() - before);
            }
        }
        if at == trace.peak_at {
            let each = |bytes: f64| bytes / (trace.peak_live - space.refused.min(trace.peak_live - 1)) as f64;
            space.metadata = each(witness::bytes() as f64);
            space.accounts = subject.accounts().map(|bytes| each(bytes as f64));
        }
    }
    let operations = trace.ops.len() as f64;
    space.host_calls = witness::calls() as f64 / operations;
    witness::disarm();
    (space.reserved, space.driver_calls) = (driver::most_reserved(), driver::calls() as f64 / operations);
    space.each = ticks.each(scale);
    space
}

fn put(live: &mut BTreeMap<(u64, u64), u64>, place: (u64, u64), size: u64, align: u64) {
    assert_eq!(place.1 % align, 0, "not aligned");
    if let Some((before, held)) = live.range(..place).next_back() {
        assert!(before.0 != place.0 || before.1 + held <= place.1, "{before:?} of {held} reaches into {place:?}");
    }
    if let Some((after, _)) = live.range(place..).next() {
        assert!(after.0 != place.0 || place.1 + size <= after.1, "{place:?} of {size} reaches into {after:?}");
    }
    live.insert(place, size);
}

/// How many takes find no room in `capacity` bytes.
pub fn refusals<P: Places>(trace: &MemoryTrace, mut subject: P) -> usize {
    let mut slots = slots::<P>(trace);
    let mut refused = 0;
    for op in &trace.ops {
        match *op {
            TraceOp::Allocate { slot, size } => {
                slots[slot as usize] = subject.take(size, trace.align);
                refused += usize::from(slots[slot as usize].is_none());
            }
            TraceOp::Free { slot } => give(&mut subject, &mut slots, slot),
        }
    }
    refused
}
