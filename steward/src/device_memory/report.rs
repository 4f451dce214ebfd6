//! The results as data: the JSON of `steward drive --device-memory`.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// All traces on one device. Times are nanoseconds; the time of a single call includes that of the clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceMemoryReport {
    /// `steward device memory 1`.
    pub format: String,
    /// The driver's name.
    pub driver: String,
    /// The driver's version in its own form.
    pub driver_version: String,
    /// The device's name.
    pub device: String,
    /// Index of the memory type of all allocations.
    pub memory_type: u32,
    /// Its properties.
    pub properties: String,
    /// Index of its heap.
    pub heap: u32,
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// The most bytes that may be allocated at any moment: allocations that do not fit are refused.
    pub budget_bytes: u64,
    /// The size of the traces: `full`, `small` or `tiny`, as fits the budget.
    pub scale: String,
    /// The measured time of an empty call.
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
    /// The most bytes in live regions at once.
    pub peak_live_bytes: u64,
    /// The most bytes allocated from the driver at once, counted between allocator and driver.
    pub peak_reserved_bytes: u64,
    /// The mean time of an operation, from a play that reads the clock only at its beginning and end.
    pub operation_ns: f64,
    /// Single allocations, from a second play, as all fields below.
    pub allocate: TimeRow,
    /// Single frees.
    pub free: TimeRow,
    /// `vkAllocateMemory` that succeeded.
    pub driver_allocations: u64,
    /// `vkAllocateMemory` that the driver refused.
    pub driver_refusals: u64,
    /// `vkFreeMemory` until the last region was freed. The allocator frees the rest when it is closed.
    pub driver_frees: u64,
    /// The time in all these calls.
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
    /// The most live allocations.
    pub live: u64,
    /// Through the sub-allocator.
    pub ours: PairTimes,
    /// `vkAllocateMemory` and `vkFreeMemory` for each.
    pub raw: PairTimes,
}

/// Times of the sub-allocator or of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairTimes {
    /// The mean time of an allocation with its free.
    pub pair_ns: f64,
    /// Allocations.
    pub allocate: TimeRow,
    /// Single frees.
    pub free: TimeRow,
    /// Requests that were refused.
    pub refused: u64,
    /// `vkAllocateMemory` that succeeded.
    pub driver_allocations: u64,
    /// `vkFreeMemory` until the last region was freed. The sub-allocator frees the rest when it is closed.
    pub driver_frees: u64,
}
