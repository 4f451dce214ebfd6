//! Reports of an allocator: totals, a memory map, its leaks as lines and all of it as VMA's JSON, overwritten margins.
//!
//! ```text
//!   pools, region_metadata -> totals     running counts
//!                         '-> capture -> memory_map   what lies where, and a line a leak
//!                                |            '-> vma_json   vmaBuildStatsString's keys
//!                                '-> whose margins are overwritten
//! ```

#![forbid(unsafe_code)]

mod capture;
mod memory_map;
mod totals;
mod vma_json;

pub use self::capture::CorruptedMargin;
pub use self::memory_map::{MemoryMap, RegionLeak};
pub use crate::region::RangePlacement;
pub use crate::view::{BlockContent, BlockView, MemoryTotals, RangeUse, RangeView, RegionResource};
pub use totals::GpuStats;
