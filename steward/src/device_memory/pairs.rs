//! Allocations and frees of one size, or of a trace's sizes: by the sub-allocator and by the driver alone.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpu_suballoc::device::MemoryRequest;
use gpu_suballoc::{DeviceMemory, GpuError};

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
    let allocate_memory = |size| {
        let request = MemoryRequest::new(size, budget.memory_type);
        // SAFETY: names no resource, and needs nothing that must be enabled.
        let allocate = || unsafe { device.allocate(&request) }.ok();
        (size <= budget.bytes).then(allocate).flatten()
    };
    let free_memory = |memory| {
        // SAFETY: allocated above, never mapped or used, and freed once.
        unsafe { device.free(memory) };
        Ok(())
    };
    let (mut raw, tried) = window(allocate_memory, free_memory, sizes, live, Some(TIME))?;
    // Each allocation is one of the driver's, and all are freed.
    raw.driver_allocations = tried as u64 - raw.refused;
    raw.driver_frees = raw.driver_allocations;
    let counted = CountedDevice::new(device);
    let allocator = fresh(&counted, budget)?;
    let (mut ours, _) = window(
        |size| allocate(&allocator, budget, size, ALIGN),
        |region| free(&allocator, region),
        sizes.get(..tried).unwrap_or(sizes),
        live,
        None,
    )?;
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

/// Allocates size by size and frees the oldest when `live` are there; then frees all. Returns also how many sizes were tried before the
/// time was over.
fn window<M>(
    allocate: impl Fn(u64) -> Option<M>,
    free: impl Fn(M) -> Result<(), GpuError>,
    sizes: &[u64],
    live: usize,
    time: Option<Duration>,
) -> Result<(PairTimes, usize), GpuError> {
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
            frees.time(|| free(oldest))?;
        }
        tried += 1;
        match allocations.time(|| allocate(*size)) {
            Some(memory) => live_memory.push_back(memory),
            None => times.refused += 1,
        }
    }
    for memory in live_memory {
        frees.time(|| free(memory))?;
    }
    let sum = allocations.sum() + frees.sum();
    times.pair_ns = sum as f64 / tried.max(1) as f64;
    (times.allocate, times.free) = (allocations.row(), frees.row());
    Ok((times, tried))
}
