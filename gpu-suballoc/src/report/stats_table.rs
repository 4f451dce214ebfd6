//! Totals for a terminal.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::ByteCount;

use super::stats::{GpuStats, MemoryTotals};

/// A row for everything, for each heap and for each memory type that has anything; then what is in no block, and the host memory.
impl fmt::Display for GpuStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10}{:>8}{:>10}{:>11}{:>9}{:>10}{:>10}",
            "memory", "blocks", "bytes", "dedicated", "regions", "in use", "free"
        )?;
        write!(f, "{:<10}", "all")?;
        row(f, &self.total)?;
        for (name, totals) in [("heap", &self.heaps[..]), ("type", &self.types[..])] {
            for (index, totals) in filled(totals) {
                write!(f, "{name} {index:<5}")?;
                row(f, totals)?;
            }
        }
        let MemoryTotals {
            wrapped,
            wrapped_bytes,
            crops,
            ..
        } = self.total;
        if let Some(percent) = self.total.reserved_percent() {
            write!(f, "reserved: {percent} % of what is in use; ")?;
        }
        writeln!(
            f,
            "free beside regions: {}; largest hole: {}; moving: {} ({}); peak: {}",
            ByteCount(self.total.free_bytes_in_use()),
            ByteCount(self.total.largest_free_bound),
            self.total.moving,
            ByteCount(self.total.moving_bytes),
            ByteCount(self.peak_block_bytes)
        )?;
        writeln!(
            f,
            "wrapped: {wrapped} ({}); crops: {crops}; host memory: {}",
            ByteCount(wrapped_bytes),
            ByteCount(self.host_bytes)
        )
    }
}

/// Those that have anything, with their numbers.
fn filled(totals: &[MemoryTotals]) -> impl Iterator<Item = (usize, &MemoryTotals)> {
    totals
        .iter()
        .enumerate()
        .filter(|(_, totals)| **totals != MemoryTotals::default())
}

fn row(f: &mut fmt::Formatter<'_>, totals: &MemoryTotals) -> fmt::Result {
    writeln!(
        f,
        "{:>8}{:>10}{:>11}{:>9}{:>10}{:>10}",
        totals.blocks,
        ByteCount(totals.block_bytes),
        totals.dedicated,
        totals.regions,
        ByteCount(totals.region_bytes),
        ByteCount(totals.free_bytes()),
    )
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn what_has_anything_is_a_row_with_units() {
        let mut stats = GpuStats {
            host_bytes: 2048,
            peak_block_bytes: 4 << 20,
            ..GpuStats::default()
        };
        let totals = MemoryTotals {
            blocks: 2,
            block_bytes: 3 << 20,
            regions: 5,
            region_bytes: 1 << 20,
            empty_bytes: 1 << 19,
            largest_free_bound: 3 << 18,
            moving: 1,
            moving_bytes: 512,
            ..MemoryTotals::default()
        };
        stats.add(3, 1, &totals);
        let text = stats.to_string();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        let figures = ["2", "3.00", "MiB", "0", "5", "1.00", "MiB", "2.00", "MiB"];
        assert_eq!(rows[1], [&["all"][..], &figures].concat());
        assert_eq!(rows[2], [&["heap", "1"][..], &figures].concat());
        assert_eq!(rows[3], [&["type", "3"][..], &figures].concat());
        assert_eq!(rows.len(), 6, "{text}");
        assert!(
            text.contains(
                "reserved: 300 % of what is in use; free beside regions: 1.50 MiB; largest hole: 768 KiB; \
                 moving: 1 (512 B); peak: 4.00 MiB\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("crops: 0; host memory: 2.00 KiB\n"),
            "{text}"
        );
    }
}
