//! Plays traces through the sub-allocator.

use std::alloc::System;
use std::cell::Cell;
use std::time::Instant;

use alloc_core::FromGlobalAlloc;
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::{
    AllocatorOptions, DeviceMemory, GpuAllocator, GpuError, Region, RegionOptions,
    ResourceRequirements,
};

use super::MeasureOptions;
use super::budget::{self, MemoryBudget};
use super::counted_device::CountedDevice;
use super::error::DeviceMemoryError;
use super::pairs;
use super::report::{DeviceMemoryReport, TraceRow};
use super::times::{CallTimes, clock_ns};
use super::traces::{MemoryTrace, TraceOp};

/// Plays the four traces on a device, and allocates region by region beside it.
///
/// At most the limit's bytes are allocated at any moment, and at most half of what is free in the heap; where that is the host's memory, at
/// most a quarter of what the host has left. Driver, version and device of the report are left empty.
///
/// # Errors
/// [`DeviceMemoryError`]. A request that is refused is none: the report counts it.
pub fn measure(
    device: &impl DeviceMemory,
    options: MeasureOptions,
    is_host_memory: bool,
) -> Result<DeviceMemoryReport, DeviceMemoryError> {
    let host = is_host_memory.then(budget::host_available).flatten();
    let budget = budget::of_device(device, options.limit, host)?;
    let (scale, traces) = budget::traces_within(budget.bytes, options.quick);
    let rows = traces.iter().map(|trace| play(trace, device, &budget));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    Ok(DeviceMemoryReport {
        format: DeviceMemoryReport::FORMAT.to_owned(),
        memory_type: budget.memory_type,
        properties: budget.properties.to_string(),
        heap: budget.heap,
        heap_bytes: budget.heap_bytes,
        budget_bytes: budget.bytes,
        scale: scale.to_owned(),
        clock_ns: clock_ns(),
        traces: rows,
        pairs: pairs::all(&traces, device, &budget)?,
        ..DeviceMemoryReport::default()
    })
}

type Allocator<'d, D> = GpuAllocator<&'d CountedDevice<'d, D>, FromGlobalAlloc<System>>;

/// An allocator with nothing in it, within the budget.
pub(super) fn fresh<'d, D: DeviceMemory>(
    device: &'d CountedDevice<'d, D>,
    budget: &MemoryBudget,
) -> Result<Allocator<'d, D>, DeviceMemoryError> {
    let mut memory = MemoryOptions::default();
    if let Some(limit) = memory.heap_limits.get_mut(budget.heap as usize) {
        *limit = budget.bytes;
    }
    let options = AllocatorOptions {
        memory,
        ..AllocatorOptions::default()
    };
    // SAFETY: regions alone are made, with no resource; nothing is wrapped, and the device does nothing.
    let made = unsafe { GpuAllocator::new(device, FromGlobalAlloc::SYSTEM, options) };
    made.map_err(|refused| refused.error.into())
}

/// A region of the memory type that is measured.
pub(super) fn allocate<D: DeviceMemory>(
    allocator: &Allocator<'_, D>,
    budget: &MemoryBudget,
    size: u64,
    align: u64,
) -> Option<Region> {
    let requirements = ResourceRequirements {
        memory_type_bits: 1 << budget.memory_type,
        ..ResourceRequirements::new(size, align)
    };
    allocator
        .allocate(&requirements, &RegionOptions::new())
        .ok()
}

/// Ends an allocator: nothing may be left.
pub(super) fn close<D: DeviceMemory>(
    allocator: Allocator<'_, D>,
    trace: &str,
) -> Result<(), DeviceMemoryError> {
    let closed = allocator.close().map(drop);
    closed.map_err(|refused| DeviceMemoryError::LeftBehind {
        trace: trace.to_owned(),
        regions: refused.error.regions,
    })
}

/// Plays the trace twice, each time with a new allocator: for the time of the whole, and call by call.
fn play<D: DeviceMemory>(
    trace: &MemoryTrace,
    device: &D,
    budget: &MemoryBudget,
) -> Result<TraceRow, DeviceMemoryError> {
    let counted = CountedDevice::new(device);
    let allocator = fresh(&counted, budget)?;
    let begin = Instant::now();
    for_each_op(
        trace,
        |size| allocate(&allocator, budget, size, trace.align),
        |region, _| free(&allocator, region),
    )?;
    let took = begin.elapsed();
    close(allocator, &trace.name)?;
    let mut row = measure_calls(trace, device, budget)?;
    row.operation_ns = took.as_nanos() as f64 / trace.ops.len().max(1) as f64;
    Ok(row)
}

fn measure_calls<D: DeviceMemory>(
    trace: &MemoryTrace,
    device: &D,
    budget: &MemoryBudget,
) -> Result<TraceRow, DeviceMemoryError> {
    let device = CountedDevice::new(device);
    let mut row = TraceRow {
        name: trace.name.clone(),
        ..TraceRow::default()
    };
    // The requested bytes: a region may be longer.
    let live_bytes = Cell::new(0);
    let [mut allocations, mut frees] = [(); 2].map(|()| CallTimes::with_room(trace.allocations));
    let allocator = fresh(&device, budget)?;
    let allocate = |size| {
        let region = allocations.time(|| allocate(&allocator, budget, size, trace.align));
        if region.is_some() {
            row.regions += 1;
            live_bytes.set(live_bytes.get() + size);
            row.peak_live_bytes = row.peak_live_bytes.max(live_bytes.get());
        } else {
            row.refused += 1;
        }
        region
    };
    for_each_op(trace, allocate, |region, size| {
        live_bytes.set(live_bytes.get() - size);
        frees.time(|| free(&allocator, region))
    })?;
    let counts = device.counts();
    close(allocator, &trace.name)?;
    row.allocate = allocations.row();
    row.free = frees.row();
    row.peak_reserved_bytes = counts.peak_bytes;
    row.driver_allocations = counts.allocations;
    row.driver_refusals = counts.refusals;
    row.driver_frees = counts.frees;
    row.driver_ns = u64::try_from(counts.time.as_nanos()).unwrap_or(u64::MAX);
    Ok(row)
}

/// Calls `allocate` and `free` as the trace says, and passes `free` the requested size as well.
fn for_each_op(
    trace: &MemoryTrace,
    mut allocate: impl FnMut(u64) -> Option<Region>,
    mut free: impl FnMut(Region, u64) -> Result<(), GpuError>,
) -> Result<(), GpuError> {
    let mut slots = Vec::new();
    slots.resize_with(trace.slots, || None);
    for op in &trace.ops {
        let (TraceOp::Allocate { slot, .. } | TraceOp::Free { slot }) = *op;
        let Some(place) = slots.get_mut(slot as usize) else {
            continue;
        };
        match *op {
            TraceOp::Allocate { size, .. } => *place = allocate(size).zip(Some(size)),
            TraceOp::Free { .. } => {
                if let Some((region, size)) = place.take() {
                    free(region, size)?;
                }
            }
        }
    }
    Ok(())
}

/// Frees a region. One that is refused is lost: an error of a trace, which uses each region once.
pub(super) fn free<D: DeviceMemory>(
    allocator: &Allocator<'_, D>,
    region: Region,
) -> Result<(), GpuError> {
    allocator.free(region).map_err(|refused| refused.error)
}
