#![forbid(unsafe_code)]

use std::fmt;

use super::plural;
use crate::report::{Defragmentation, DeviceMemory};
use crate::units::bytes;

impl fmt::Display for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.lines();
        writeln!(f, "\n{first}\n  {second}\n")
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
    #[must_use]
    pub fn title(&self) -> String {
        let Self { passes, moves, freed_blocks, .. } = self;
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
    /// What there is, in two lines.
    #[must_use]
    pub fn lines(&self) -> [String; 2] {
        let Self { block_count, regions, wrapped, crops, .. } = self;
        let blocks = format!(
            "device memory, sub-allocated, when the last round had all of it in use: {} in {block_count} block{}",
            bytes(self.block_bytes),
            plural(*block_count)
        );
        let regions = format!(
            "{regions} region{} of {}; {wrapped} wrapped, {crops} crop{}; {} of host memory",
            plural(*regions),
            bytes(self.region_bytes),
            plural(*crops),
            bytes(self.host_bytes)
        );
        [blocks, regions]
    }

    /// `320 KiB in 5 blocks, 250 % of what is live; 128 KiB free in blocks in use, no hole above 16 KiB`.
    #[must_use]
    pub fn figures(&self) -> String {
        let share = self.reserved_percent.map(|percent| format!(", {percent} % of what is live")).unwrap_or_default();
        format!(
            "{} in {} block{}{share}; {} free in blocks in use, no hole above {}",
            bytes(self.block_bytes),
            self.block_count,
            plural(self.block_count),
            bytes(self.free_bytes_in_use),
            bytes(self.largest_free_bytes),
        )
    }
}
