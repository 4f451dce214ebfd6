//! How device memory was divided, for a terminal.

#![forbid(unsafe_code)]

use std::fmt;

use super::{one_line, plural};
use crate::report::{DeviceMemory, MemoryBlock, MemoryRange};
use crate::units::bytes;

/// So many regions of a block are named.
const NAMED: usize = 16;

impl fmt::Display for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            regions,
            wrapped,
            crops,
            moves,
            moves_free_blocks,
            ..
        } = self;
        let own = self
            .blocks
            .iter()
            .filter(|block| block.content != "wrapped")
            .count() as u64;
        writeln!(
            f,
            "\ndevice memory, sub-allocated, when the last round had all of it in use: {} in {own} block{}",
            bytes(self.block_bytes),
            plural(own)
        )?;
        writeln!(
            f,
            "  {regions} region{} of {} asked for and {} of padding; {wrapped} wrapped, {crops} crop{}; {} of host memory",
            plural(*regions),
            bytes(self.region_bytes),
            bytes(self.padding_bytes),
            plural(*crops),
            bytes(self.host_bytes)
        )?;
        self.blocks.iter().try_for_each(|block| block.fmt(f))?;
        if *moves > 0 {
            writeln!(
                f,
                "  {moves} move{} would free {moves_free_blocks} block{}",
                plural(*moves),
                plural(*moves_free_blocks)
            )?;
        }
        writeln!(f)
    }
}

impl fmt::Display for MemoryBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", one_line(&self.title()))?;
        let regions = || self.ranges.iter().filter(|range| range.what == "region");
        regions().take(NAMED).try_for_each(|range| range.fmt(f))?;
        let more = regions().count().saturating_sub(NAMED);
        if more > 0 {
            writeln!(f, "    and {more} more")
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for MemoryRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() {
            "without a name".to_owned()
        } else {
            one_line(&self.name)
        };
        let asked = self.size.saturating_sub(self.padding);
        write!(
            f,
            "    {:#08x}  {asked:>9} bytes  {:<9}  {name}",
            self.offset,
            one_line(&self.placement)
        )?;
        for crop in &self.crops {
            write!(f, "; crop of {} at {}", crop.size, crop.offset)?;
        }
        writeln!(f)
    }
}
