//! How a sub-allocator divided the device's memory.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Device memory when a round of the workload had all of it in use: the blocks, and the regions in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// The blocks, pool by pool; what the application wrapped comes last.
    pub blocks: Vec<MemoryBlock>,
    /// Bytes of all blocks but wrapped ones.
    pub block_bytes: u64,
    /// Owned regions.
    pub regions: u64,
    /// Their requested bytes.
    pub region_bytes: u64,
    /// Bytes that rounding added to them.
    pub padding_bytes: u64,
    /// Wrapped buffers.
    pub wrapped: u64,
    /// Their bytes.
    pub wrapped_bytes: u64,
    /// Crops of owned and of wrapped regions.
    pub crops: u64,
    /// Host memory that the sub-allocator held for its book-keeping.
    pub host_bytes: u64,
    /// Moves that would empty blocks.
    pub moves: u64,
    /// Blocks that would be empty then.
    pub moves_free_blocks: u64,
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

/// One `VkDeviceMemory`, or one wrapped buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBlock {
    /// Its pool's number.
    pub pool: u32,
    /// Its number in the pool.
    pub number: u32,
    /// The memory type; null if it is unknown for a wrapped buffer.
    pub memory_type: Option<u32>,
    /// What the type can do, in Vulkan's words.
    pub properties: String,
    /// `linear`, `optimal`, `mixed`, `dedicated` or `wrapped`.
    pub content: String,
    /// Bytes.
    pub size: u64,
    /// Its ranges: they tile it, in order of offset.
    pub ranges: Vec<MemoryRange>,
}

/// A part of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRange {
    /// `free`, `spent` (freed, but unusable until its page is empty) or `region`.
    pub what: String,
    /// Bytes from the block's start.
    pub offset: u64,
    /// Bytes, padding included.
    pub size: u64,
    /// Bytes of padding, at the end.
    pub padding: u64,
    /// `general`, `linear`, `dedicated` or `wrapped`.
    pub placement: String,
    /// The region's name, or empty.
    pub name: String,
    /// Parts of it that are regions of their own.
    pub crops: Vec<MemoryCrop>,
}

/// A crop of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCrop {
    /// Bytes from the region's start, whatever it was cropped from.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Its name, or empty.
    pub name: String,
}

impl MemoryRange {
    /// Whether the range is free.
    pub fn is_free(&self) -> bool {
        self.what == "free"
    }
}

impl MemoryBlock {
    /// `type 0 DEVICE_LOCAL | HOST_VISIBLE, linear, 8.00 MiB`, as far as it is known.
    pub fn title(&self) -> String {
        let of = match self.memory_type {
            Some(number) if self.properties.is_empty() => format!("type {number}, "),
            Some(number) => format!("type {number} {}, ", self.properties),
            None => String::new(),
        };
        let name = if self.content == "wrapped" {
            String::new()
        } else {
            format!("block {}.{}: ", self.pool, self.number)
        };
        format!(
            "{name}{of}{}, {}",
            self.content,
            crate::units::bytes(self.size)
        )
    }
}
