//! Reports of an allocator: totals, a memory map as text and as VMA's JSON, leaks, overwritten margins.
//!
//! ```text
//!   pools, region_metadata -> totals     running counts
//!                         '-> capture -> memory_map -> leaks      as text, and a line a region
//!                                             |-> vma_json         vmaBuildStatsString's keys
//!                                             '-> capture          whose margins are overwritten
//! ```

#![forbid(unsafe_code)]

mod capture;
mod leaks;
mod memory_map;
mod totals;
mod vma_json;

pub use self::capture::CorruptedMargin;
pub use crate::region::RangePlacement;
pub use crate::view::{BlockContent, BlockView, MemoryTotals, RangeUse, RangeView, RegionResource};
pub use leaks::RegionLeak;
pub use memory_map::MemoryMap;
pub use totals::GpuStats;

#[cfg(test)]
mod block_fixture;
