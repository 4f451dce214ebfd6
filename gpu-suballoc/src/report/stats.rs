//! Running totals: read in O(1), whatever lives.

#![forbid(unsafe_code)]

use core::time::Duration;

use crate::device::MAX_MEMORY_HEAPS;
use crate::memory_type::MAX_MEMORY_TYPES;

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

    /// The sum.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            blocks: self.blocks.saturating_add(other.blocks),
            block_bytes: self.block_bytes.saturating_add(other.block_bytes),
            empty_bytes: self.empty_bytes.saturating_add(other.empty_bytes),
            largest_free_bound: if self.largest_free_bound < other.largest_free_bound {
                other.largest_free_bound
            } else {
                self.largest_free_bound
            },
            dedicated: self.dedicated.saturating_add(other.dedicated),
            regions: self.regions.saturating_add(other.regions),
            region_bytes: self.region_bytes.saturating_add(other.region_bytes),
            wrapped: self.wrapped.saturating_add(other.wrapped),
            wrapped_bytes: self.wrapped_bytes.saturating_add(other.wrapped_bytes),
            moving: self.moving.saturating_add(other.moving),
            moving_bytes: self.moving_bytes.saturating_add(other.moving_bytes),
            crops: self.crops.saturating_add(other.crops),
        }
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

impl Default for GpuStats {
    fn default() -> Self {
        let none = MemoryTotals::default();
        Self {
            total: none,
            types: [none; MAX_MEMORY_TYPES],
            heaps: [none; MAX_MEMORY_HEAPS],
            host_bytes: 0,
            peak_block_bytes: 0,
            longest_wait: Duration::ZERO,
        }
    }
}

impl GpuStats {
    /// Adds the totals of a pool to the sum, to its type and to its heap.
    pub(crate) fn add(&mut self, memory_type: u32, heap: u32, totals: &MemoryTotals) {
        let row = self.types.get_mut(memory_type as usize);
        let heap = self.heaps.get_mut(heap as usize);
        for sum in [Some(&mut self.total), row, heap].into_iter().flatten() {
            *sum = sum.plus(totals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_counts_in_the_sum_in_its_type_and_in_its_heap() {
        let pool = MemoryTotals {
            blocks: 2,
            block_bytes: 4096,
            regions: 3,
            region_bytes: 1024,
            ..MemoryTotals::default()
        };
        let mut stats = GpuStats::default();
        stats.add(3, 1, &pool);
        stats.add(4, 1, &pool);
        assert_eq!(
            (stats.types[3], stats.types[4], stats.types[0]),
            (pool, pool, MemoryTotals::default())
        );
        assert_eq!(
            (stats.heaps[1], stats.total),
            (pool.plus(&pool), pool.plus(&pool))
        );
        assert_eq!(stats.total.free_bytes(), 2 * (4096 - 1024));
    }
}
