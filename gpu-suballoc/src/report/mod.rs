//! What an allocator has to tell: totals, a picture of its memory, leaks, JSON, and which regions to move.

mod capture;
mod json;
mod leaks;
mod memory_map;
mod moves;
mod stats;
mod view;
mod vma_json;

pub use leaks::{RegionLeak, RegionLeakKind};
pub use memory_map::MemoryMap;
pub use moves::{Move, MoveLimits, MovePlace, MovePlan};
pub use stats::{GpuStats, MemoryTotals};
pub use view::{
    BlockContent, BlockView, CropView, RangePlacement, RangeUse, RangeView, RegionResource,
};

#[cfg(test)]
mod block_fixture;
