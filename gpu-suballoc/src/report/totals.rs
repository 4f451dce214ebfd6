//! Running totals: read in O(1), whatever lives.

#![forbid(unsafe_code)]

use core::fmt;
use core::time::Duration;

use alloc_core::{ByteCount, HostAllocator};

use crate::allocator::GpuAllocator;
use crate::device::{DeviceMemory, MAX_MEMORY_HEAPS};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{BlockRef, PoolId};
use crate::memory_type::MAX_MEMORY_TYPES;
use crate::pool::PoolTotals;

/// Counts and bytes of a pool, a memory type, a heap, or all. Exact whenever no thread is inside a call.
///
/// ```text
///  block_bytes = region_bytes               + free_bytes()        a block is one VkDeviceMemory
///                in granules of shared      holes
///                blocks
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryTotals {
    /// `VkDeviceMemory` objects, dedicated ones among them.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Of these, bytes of blocks without a region.
    pub empty_bytes: u64,
    /// Upper bound of the holes of shared blocks: exact below 64 granules, otherwise up to 1/32 above the largest hole. Unused blocks, and
    /// blocks that a defragmentation empties, do not count.
    pub largest_free_bound: u64,
    /// Of the blocks, those for one region (`VK_KHR_dedicated_allocation`, or a large one).
    pub dedicated: u64,
    /// Owned regions, [kept](crate::GpuAllocator::release) buffers included.
    pub regions: u64,
    /// Bytes that they occupy: in shared blocks the requested bytes, rounded up to whole granules; of a dedicated region the requested bytes.
    /// A [`MemoryMap`](crate::report::MemoryMap) has the padding.
    pub region_bytes: u64,
    /// Wrapped buffers of the application, in none of the bytes above.
    pub wrapped: u64,
    /// Their bytes.
    pub wrapped_bytes: u64,
    /// Places that are reserved for regions which a [pass](crate::allocator::DefragmentationPass) moves, and freed with it.
    pub moving: u64,
    /// Their bytes, in no region yet.
    pub moving_bytes: u64,
    /// Live crops; their bytes are those of their roots.
    pub crops: u64,
}

impl MemoryTotals {
    /// Bytes of blocks in no region.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.block_bytes.saturating_sub(self.region_bytes)
    }

    /// Free bytes of blocks with regions, which a defragmentation can gather.
    #[must_use]
    pub const fn free_bytes_in_use(&self) -> u64 {
        self.free_bytes().saturating_sub(self.empty_bytes)
    }

    /// Bytes of blocks for each hundred bytes of regions, rounded up; `None` without a region.
    #[must_use]
    pub const fn reserved_percent(&self) -> Option<u64> {
        let (reserved, live) = (self.block_bytes as u128 * 100, self.region_bytes as u128);
        if live == 0 {
            return None;
        }
        let percent = reserved.div_ceil(live);
        Some(if percent > u64::MAX as u128 {
            u64::MAX
        } else {
            percent as u64
        })
    }

    /// Adds the totals of a pool.
    fn add(&mut self, pool: &PoolTotals) {
        self.blocks += u64::from(pool.objects);
        self.block_bytes += pool.object_bytes;
        self.empty_bytes += pool.empty_bytes;
        if self.largest_free_bound < pool.largest_free_bound {
            self.largest_free_bound = pool.largest_free_bound;
        }
        self.dedicated += u64::from(pool.dedicated);
        self.regions += pool.regions;
        self.region_bytes += pool.region_bytes;
        self.moving += pool.moving;
        self.moving_bytes += pool.moving_bytes;
    }
}

/// An allocator's totals: in sum, for each memory type and for each heap, and its host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuStats {
    /// Everything.
    pub total: MemoryTotals,
    /// By memory type. Wrapped regions and crops are in no type.
    pub types: [MemoryTotals; MAX_MEMORY_TYPES],
    /// By heap, likewise.
    pub heaps: [MemoryTotals; MAX_MEMORY_HEAPS],
    /// Bytes of host memory of the allocator's bookkeeping.
    pub host_bytes: u64,
    /// The most bytes of blocks at one moment; too high by what the driver refused to other threads at that moment.
    pub peak_block_bytes: u64,
    /// The longest call of the driver for a memory object so far; zero without feature `std`.
    pub longest_wait: Duration,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Totals, in sum and by type and heap. The time does not depend on the number of regions.
    #[must_use]
    pub fn stats(&self) -> GpuStats {
        let none = MemoryTotals::default();
        let mut stats = GpuStats {
            total: none,
            types: [none; MAX_MEMORY_TYPES],
            heaps: [none; MAX_MEMORY_HEAPS],
            host_bytes: self.host_bytes(),
            peak_block_bytes: self.pools.peak_bytes(),
            longest_wait: self.pools.longest_wait(),
        };
        for pool in (0..BlockRef::POOLS as u16).filter_map(|index| self.pools.totals(index)) {
            let of_type = stats.types.get_mut(pool.memory_type as usize);
            let of_heap = stats.heaps.get_mut(pool.heap as usize);
            for sum in [Some(&mut stats.total), of_type, of_heap]
                .into_iter()
                .flatten()
            {
                sum.add(&pool);
            }
        }
        let records = self.records.counts();
        stats.total.wrapped = records.wrapped;
        stats.total.wrapped_bytes = records.wrapped_bytes;
        stats.total.crops = records.crops;
        stats
    }

    /// Totals of a custom pool. Wrapped buffers and crops are in no pool.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPool`].
    pub fn pool_stats(&self, pool: PoolId) -> Result<MemoryTotals, GpuError> {
        let totals = self
            .pools
            .totals(pool.index)
            .filter(|own| own.custom == Some(pool.generation) && pool.tag == self.tag);
        let mut sum = MemoryTotals::default();
        sum.add(&totals.ok_or(GpuMisuse::NoSuchPool)?);
        Ok(sum)
    }
}

/// A row for everything, for each heap and for each memory type that has anything; then what is in no block, and the host memory.
impl fmt::Display for GpuStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["blocks", "bytes", "dedicated", "regions", "in use", "free"];
        write!(f, "{:<10}", "memory")?;
        head.iter()
            .try_for_each(|column| write!(f, "{column:>11}"))?;
        row(f, "all", None, &self.total)?;
        for (name, totals) in [("heap", &self.heaps[..]), ("type", &self.types[..])] {
            for (index, totals) in totals.iter().enumerate() {
                if *totals != MemoryTotals::default() {
                    row(f, name, Some(index), totals)?;
                }
            }
        }
        writeln!(f)?;
        let total = &self.total;
        if let Some(percent) = total.reserved_percent() {
            write!(f, "reserved: {percent} % of what is in use; ")?;
        }
        writeln!(
            f,
            "free beside regions: {}; largest hole: {}; moving: {} ({}); peak: {}",
            ByteCount(total.free_bytes_in_use()),
            ByteCount(total.largest_free_bound),
            total.moving,
            ByteCount(total.moving_bytes),
            ByteCount(self.peak_block_bytes)
        )?;
        writeln!(
            f,
            "wrapped: {} ({}); crops: {}; host memory: {}",
            total.wrapped,
            ByteCount(total.wrapped_bytes),
            total.crops,
            ByteCount(self.host_bytes)
        )
    }
}

fn row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    index: Option<usize>,
    totals: &MemoryTotals,
) -> fmt::Result {
    match index {
        Some(index) => write!(f, "\n{name} {index:<5}")?,
        None => write!(f, "\n{name:<10}")?,
    }
    write!(
        f,
        "{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
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
        let mut stats = GpuStats {
            total: totals,
            types: [MemoryTotals::default(); MAX_MEMORY_TYPES],
            heaps: [MemoryTotals::default(); MAX_MEMORY_HEAPS],
            host_bytes: 2048,
            peak_block_bytes: 4 << 20,
            longest_wait: Duration::ZERO,
        };
        (stats.heaps[1], stats.types[3]) = (totals, totals);
        let text = stats.to_string();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
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
