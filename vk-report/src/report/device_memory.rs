//! Device memory, as the sub-allocator of the workload counts it.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// What the sub-allocator says of device memory, when a round of the workload had all of it in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// Blocks: memory objects of the driver.
    #[serde(default)]
    pub block_count: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Owned regions.
    pub regions: u64,
    /// Their bytes, rounded up as they are allocated.
    pub region_bytes: u64,
    /// Wrapped buffers.
    pub wrapped: u64,
    /// Their bytes.
    pub wrapped_bytes: u64,
    /// Crops of owned and of wrapped regions.
    pub crops: u64,
    /// Host memory that the sub-allocator held for its book-keeping.
    pub host_bytes: u64,
    /// Free bytes of blocks in which something lies.
    #[serde(default)]
    pub free_bytes_in_use: u64,
    /// No hole is larger; up to 1/32 more than the largest one.
    #[serde(default)]
    pub largest_free_bytes: u64,
    /// The most bytes of blocks at one moment.
    #[serde(default)]
    pub peak_block_bytes: u64,
    /// Bytes of blocks for each hundred bytes of regions, rounded up; null without a region.
    #[serde(default)]
    pub reserved_percent: Option<u64>,
}

/// A defragmentation: regions were moved together so that whole blocks could go back to the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defragmentation {
    /// Passes with moves.
    pub passes: u32,
    /// Regions that lie elsewhere now.
    pub moves: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// The most bytes that were reserved for moves at a time.
    pub most_moving_bytes: u64,
    /// Blocks that went back to the driver.
    pub freed_blocks: u32,
    /// Their bytes.
    pub freed_bytes: u64,
    /// Device memory before.
    pub before: DeviceMemory,
    /// And behind it.
    pub after: DeviceMemory,
}
