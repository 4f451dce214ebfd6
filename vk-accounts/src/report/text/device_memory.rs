//! How device memory was divided, for a terminal.

#![forbid(unsafe_code)]

use std::fmt;

use super::{one_line, plural};
use crate::report::{Defragmentation, DeviceMemory, MemoryBlock, MemoryRange};
use crate::units::bytes;

/// The most regions named of a block.
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
        let own = self.own_blocks();
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

impl fmt::Display for Defragmentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title())?;
        for (when, memory) in [("before", &self.before), ("after", &self.after)] {
            writeln!(f, "  {when:<7} {}", memory.figures())?;
        }
        Ok(())
    }
}

impl Defragmentation {
    /// `defragmentation: 6 moves of 48.0 KiB in 2 passes freed 3 blocks of 192 KiB`.
    pub fn title(&self) -> String {
        let Self {
            passes,
            moves,
            freed_blocks,
            ..
        } = self;
        format!(
            "defragmentation: {moves} move{} of {} in {passes} pass{} freed {freed_blocks} block{} of {}",
            plural(*moves),
            bytes(self.moved_bytes),
            if *passes == 1 { "" } else { "es" },
            plural(u64::from(*freed_blocks)),
            bytes(self.freed_bytes),
        )
    }
}

impl DeviceMemory {
    /// `320 KiB in 5 blocks, 250 % of what is live; 128 KiB free in blocks in use, no hole above 16 KiB`.
    pub fn figures(&self) -> String {
        let own = self.own_blocks();
        let share = self
            .reserved_percent
            .map(|percent| format!(", {percent} % of what is live"))
            .unwrap_or_default();
        format!(
            "{} in {own} block{}{share}; {} free in blocks in use, no hole above {}",
            bytes(self.block_bytes),
            plural(own),
            bytes(self.free_bytes_in_use),
            bytes(self.largest_free_bytes),
        )
    }

    fn own_blocks(&self) -> u64 {
        let own = |block: &&MemoryBlock| block.content != "wrapped";
        self.blocks.iter().filter(own).count() as u64
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
