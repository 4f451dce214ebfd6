//! Reports of an allocator: totals, a memory map, leaks, overwritten margins, and JSON.

mod capture;
mod corruption;
mod leaks;
mod map_table;
mod memory_map;
mod stats;
mod stats_table;
mod view;
mod vma_json;

pub use corruption::CorruptedMargin;
pub use leaks::{RegionLeak, RegionLeakKind};
pub use memory_map::MemoryMap;
pub use stats::{GpuStats, MemoryTotals};
pub use view::{
    BlockContent, BlockView, CropView, RangePlacement, RangeUse, RangeView, RegionResource,
};

#[cfg(test)]
mod block_fixture;
