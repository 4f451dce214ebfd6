//! What was measured, as data: the JSON of `steward drive --device-memory`.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// All traces on one device. Times are nanoseconds; each of a single call has the clock's own in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceMemoryReport {
    /// `steward device memory 1`.
    pub format: String,
    /// The driver's name.
    pub driver: String,
    /// What it says of its version.
    pub driver_version: String,
    /// The device's name.
    pub device: String,
    /// Index of the memory type that all of it is in.
    pub memory_type: u32,
    /// Its properties.
    pub properties: String,
    /// Index of its heap.
    pub heap: u32,
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// At most so many bytes of it are allocated at any moment: what does not fit is refused.
    pub budget_bytes: u64,
    /// How large the traces are: `full`, `small` or `tiny`, by what fits the budget.
    pub scale: String,
    /// What the clock says of a call that does nothing.
    pub clock_ns: u64,
    /// Each trace, through the sub-allocator.
    pub traces: Vec<TraceRow>,
    /// Allocate and free, size by size, beside the driver by itself.
    pub pairs: Vec<PairRow>,
}

impl DeviceMemoryReport {
    /// The value of `format`.
    pub const FORMAT: &'static str = "steward device memory 1";
}

/// One trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// `churn`, `frames`, `streaming` or `adversarial`.
    pub name: String,
    /// Regions that were allocated.
    pub regions: u64,
    /// Requests that were refused, for the budget or by the driver.
    pub refused: u64,
    /// The most bytes in regions at once, of those that were allocated.
    pub peak_live_bytes: u64,
    /// The most bytes that were allocated from the driver at once, counted between allocator and driver.
    pub peak_reserved_bytes: u64,
    /// An operation, over the whole trace, played without a look at the clock in between.
    pub operation_ns: f64,
    /// Allocations, one by one, in a second play; so too what follows.
    pub allocate: TimeRow,
    /// Frees.
    pub free: TimeRow,
    /// `vkAllocateMemory` that succeeded.
    pub driver_allocations: u64,
    /// `vkAllocateMemory` that the driver refused.
    pub driver_refusals: u64,
    /// `vkFreeMemory` until the last region was freed. What is left then is freed with the allocator.
    pub driver_frees: u64,
    /// In these calls, altogether.
    pub driver_ns: u64,
}

/// Times of single calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeRow {
    /// Half of the calls took less.
    pub median_ns: u64,
    /// 99 of 100 took less.
    pub p99_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

/// One size, or the sizes of a trace: the same allocations and frees by both, a few of them live at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairRow {
    /// `64 KiB`, or `sizes of churn`.
    pub what: String,
    /// Operations of each, at most 2000: allocations and frees together.
    pub operations: u64,
    /// So many are live at most.
    pub live: u64,
    /// Through the sub-allocator.
    pub ours: PairTimes,
    /// `vkAllocateMemory` and `vkFreeMemory` for each.
    pub raw: PairTimes,
}

/// What one of both took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairTimes {
    /// An allocation with its free, the mean.
    pub pair_ns: f64,
    /// Allocations.
    pub allocate: TimeRow,
    /// Frees.
    pub free: TimeRow,
    /// Requests that were refused.
    pub refused: u64,
    /// `vkAllocateMemory` that succeeded.
    pub driver_allocations: u64,
    /// `vkFreeMemory` until the last one was freed. What the sub-allocator has left then is freed with it.
    pub driver_frees: u64,
}
