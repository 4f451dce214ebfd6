//! Allocations and frees of one size, or of a trace's sizes: by the sub-allocator and by the driver alone.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpu_suballoc::device::{MemoryHandle, MemoryRequest};
use gpu_suballoc::{DeviceMemory, Region};

use super::budget::MemoryBudget;
use super::counted_device::CountedDevice;
use super::error::DeviceMemoryError;
use super::play::{allocate, close, free, fresh};
use super::report::{PairRow, PairTimes};
use super::times::CallTimes;
use super::traces::MemoryTrace;

/// Allocations of each size; with their frees the 2000 operations that a driver is asked for, some of which take milliseconds.
const PAIRS: usize = 1000;
/// Live at a time, where the budget has room: as many as a frame might stream.
const LIVE: usize = 64;
/// No further allocation of a size after this: the driver's are the first, and ours are as many.
const TIME: Duration = Duration::from_secs(5);
const SIZES: [(&str, u64); 3] = [
    ("64 KiB", 64 << 10),
    ("1 MiB", 1 << 20),
    ("16 MiB", 16 << 20),
];
/// Of all regions here.
const ALIGN: u64 = 256;

/// The three sizes, then the sizes of each trace.
pub(super) fn all<D: DeviceMemory>(
    traces: &[MemoryTrace],
    device: &D,
    budget: &MemoryBudget,
) -> Result<Vec<PairRow>, DeviceMemoryError> {
    let sizes = SIZES.map(|(what, size)| (what.to_owned(), vec![size; PAIRS]));
    let of_traces = traces
        .iter()
        .map(|trace| (format!("sizes of {}", trace.name), trace.sample(PAIRS)));
    sizes
        .into_iter()
        .chain(of_traces)
        .map(|(what, sizes)| pair(what, &sizes, device, budget))
        .collect()
}

fn pair<D: DeviceMemory>(
    what: String,
    sizes: &[u64],
    device: &D,
    budget: &MemoryBudget,
) -> Result<PairRow, DeviceMemoryError> {
    let largest = sizes.iter().copied().max().unwrap_or(1).max(1);
    // Half of the budget: the sub-allocator's blocks have room to spare.
    let live = usize::try_from(budget.bytes / 2 / largest)
        .unwrap_or(LIVE)
        .clamp(1, LIVE);
    let memory = RawMemory {
        device,
        budget,
        allocations: Cell::new(0),
        frees: Cell::new(0),
    };
    let (mut raw, tried) = window(&memory, sizes, live, Some(TIME))?;
    (raw.driver_allocations, raw.driver_frees) = (memory.allocations.get(), memory.frees.get());
    let counted = CountedDevice::new(device);
    let allocator = fresh(&counted, budget)?;
    let source = Suballocated {
        allocate: |size| allocate(&allocator, budget, size, ALIGN),
        free: |region| free(&allocator, region).map_err(DeviceMemoryError::from),
    };
    let (mut ours, _) = window(&source, sizes.get(..tried).unwrap_or(sizes), live, None)?;
    let counts = counted.counts();
    (ours.driver_allocations, ours.driver_frees) = (counts.allocations, counts.frees);
    close(allocator, &what)?;
    Ok(PairRow {
        what,
        operations: 2 * tried as u64,
        live: live as u64,
        ours,
        raw,
    })
}

/// Who allocates.
trait MemorySource {
    type Memory;
    fn allocate(&self, size: u64) -> Option<Self::Memory>;
    fn free(&self, memory: Self::Memory) -> Result<(), DeviceMemoryError>;
}

/// Allocates size by size and frees the oldest when `live` are there; then all. Says how many were tried before the time was over.
fn window<S: MemorySource>(
    source: &S,
    sizes: &[u64],
    live: usize,
    time: Option<Duration>,
) -> Result<(PairTimes, usize), DeviceMemoryError> {
    let [mut allocations, mut frees] = [(); 2].map(|()| CallTimes::with_room(sizes.len()));
    let mut live_memory = VecDeque::with_capacity(live);
    let (mut times, mut tried) = (PairTimes::default(), 0);
    let begin = Instant::now();
    for size in sizes {
        if time.is_some_and(|time| begin.elapsed() > time) {
            break;
        }
        if live_memory.len() == live
            && let Some(oldest) = live_memory.pop_front()
        {
            frees.time(|| source.free(oldest))?;
        }
        tried += 1;
        match allocations.time(|| source.allocate(*size)) {
            Some(memory) => live_memory.push_back(memory),
            None => times.refused += 1,
        }
    }
    for memory in live_memory {
        frees.time(|| source.free(memory))?;
    }
    let sum = allocations.sum() + frees.sum();
    times.pair_ns = sum as f64 / tried.max(1) as f64;
    (times.allocate, times.free) = (allocations.row(), frees.row());
    Ok((times, tried))
}

/// A memory object each.
struct RawMemory<'d, D> {
    device: &'d D,
    budget: &'d MemoryBudget,
    allocations: Cell<u64>,
    frees: Cell<u64>,
}

impl<D: DeviceMemory> MemorySource for RawMemory<'_, D> {
    type Memory = MemoryHandle;

    fn allocate(&self, size: u64) -> Option<MemoryHandle> {
        if size > self.budget.bytes {
            return None;
        }
        let request = MemoryRequest::new(size, self.budget.memory_type);
        // SAFETY: names no resource, and needs nothing that must be enabled.
        let memory = unsafe { self.device.allocate(&request) }.ok()?;
        self.allocations.set(self.allocations.get() + 1);
        Some(memory)
    }

    fn free(&self, memory: MemoryHandle) -> Result<(), DeviceMemoryError> {
        self.frees.set(self.frees.get() + 1);
        // SAFETY: allocated above, never mapped or used, and freed once.
        unsafe { self.device.free(memory) };
        Ok(())
    }
}

/// A region each. What it calls the driver for is counted below it.
struct Suballocated<A, F> {
    allocate: A,
    free: F,
}

impl<A, F> MemorySource for Suballocated<A, F>
where
    A: Fn(u64) -> Option<Region>,
    F: Fn(Region) -> Result<(), DeviceMemoryError>,
{
    type Memory = Region;

    fn allocate(&self, size: u64) -> Option<Region> {
        (self.allocate)(size)
    }

    fn free(&self, region: Region) -> Result<(), DeviceMemoryError> {
        (self.free)(region)
    }
}
