//! Reports of an allocator: totals, a memory map as text and as VMA's JSON, leaks, overwritten margins.
//!
//! ```text
//!   pools, region_metadata -> totals     running counts
//!                         '-> capture -> memory_map   as text, and a line a leak
//!                                |            '-> vma_json   vmaBuildStatsString's keys
//!                                '-> whose margins are overwritten
//! ```

#![forbid(unsafe_code)]

mod capture;
mod memory_map;
mod totals;
mod vma_json;

pub use self::capture::CorruptedMargin;
pub use self::memory_map::RegionLeak;
pub use crate::region::RangePlacement;
pub use crate::view::{BlockContent, BlockView, MemoryTotals, RangeUse, RangeView, RegionResource};
pub use memory_map::MemoryMap;
pub use totals::GpuStats;
