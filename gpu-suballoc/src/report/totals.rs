use core::fmt;
use core::time::Duration;

use alloc_core::{ByteCount, HostAllocator};

use crate::allocator::GpuAllocator;
use crate::device::{DeviceMemory, MAX_MEMORY_HEAPS};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{BlockRef, PoolId};
use crate::memory_type::MAX_MEMORY_TYPES;
use crate::view::MemoryTotals;

/// An allocator's totals, and its host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuStats {
    /// Everything.
    pub total: MemoryTotals,
    /// By memory type. Wrapped regions and crops are in no type.
    pub types: [MemoryTotals; MAX_MEMORY_TYPES],
    /// By heap, likewise.
    pub heaps: [MemoryTotals; MAX_MEMORY_HEAPS],
    /// Bytes of host memory of the allocator's bookkeeping.
    pub host_bytes: u64,
    /// The most bytes of blocks at one moment.
    pub peak_block_bytes: u64,
    /// The longest call of the driver for a memory object so far; zero without feature `std`.
    pub longest_wait: Duration,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Totals, in sum and by type and heap, in constant time.
    #[doc(alias("vmaGetHeapBudgets", "vmaCalculateStatistics"))]
    #[must_use]
    pub fn stats(&self) -> GpuStats {
        let none = MemoryTotals::default();
        let mut stats = GpuStats {
            total: none,
            types: [none; MAX_MEMORY_TYPES],
            heaps: [none; MAX_MEMORY_HEAPS],
            host_bytes: self.host_bytes(),
            peak_block_bytes: self.pools.peak_bytes(),
            longest_wait: self.pools().longest_wait(),
        };
        for pool in (0..BlockRef::POOLS as u16).filter_map(|index| self.pools.totals(index)) {
            let of_type = stats.types.get_mut(pool.memory_type as usize);
            let of_heap = stats.heaps.get_mut(pool.heap as usize);
            for sum in [Some(&mut stats.total), of_type, of_heap].into_iter().flatten() {
                sum.add(&pool.totals);
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
        let totals =
            self.pools.totals(pool.index).filter(|own| own.generation == pool.generation && pool.tag == self.tag);
        Ok(totals.ok_or(GpuMisuse::NoSuchPool)?.totals)
    }
}

impl fmt::Display for GpuStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["blocks", "bytes", "dedicated", "regions", "in use", "free"];
        write!(f, "{:<10}", "memory")?;
        head.iter().try_for_each(|column| write!(f, "{column:>11}"))?;
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

fn row(f: &mut fmt::Formatter<'_>, name: &str, index: Option<usize>, totals: &MemoryTotals) -> fmt::Result {
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
