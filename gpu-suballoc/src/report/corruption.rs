//! Overwritten margins, with the names of their regions.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::view::RangeUse;
use crate::allocator::GpuAllocator;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::id::RegionId;

/// An overwritten margin, found by [`GpuAllocator::check_corruption`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptedMargin<'m> {
    /// The region in front of the margin.
    pub id: RegionId,
    /// Its name.
    pub name: Option<&'m str>,
    /// The user's tag, or 0.
    pub tag: u64,
    /// The call site of the request, or 0.
    pub site: u64,
    /// The first overwritten byte, from the region's start: at least the region's size.
    pub offset: u64,
    /// Bytes from there to the last overwritten one.
    pub size: u64,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Checks the margin of each region in host-visible memory ([`MemoryOptions::margin`](crate::pool::MemoryOptions::margin)), and reports
    /// the overwritten ones, in the order of memory. A write in front of a region is reported with the name of the region before it.
    /// Returns the number of checked margins: 0 without margins.
    ///
    /// The device must have finished its writes. While another thread allocates, a margin may not be written yet: this call
    /// waits for a moment without such a thread, and reports nothing if there is none for some tens of microseconds. `report` is called
    /// without a lock.
    ///
    /// # Errors
    /// The host memory for a [`MemoryMap`](crate::report::MemoryMap) was refused.
    pub fn check_corruption(
        &self,
        mut report: impl FnMut(&CorruptedMargin<'_>),
    ) -> Result<u64, GpuError> {
        if self.pools.margin() == 0 {
            return Ok(0);
        }
        let map = self.memory_map()?;
        let are_written = self.margins_are_written();
        let mut checked = 0;
        for range in map.blocks_with_ranges().flat_map(|(_, ranges)| ranges) {
            let is_region = matches!(range.range_use, RangeUse::Region | RangeUse::Reusable);
            let Some(id) = range.id.filter(|_| is_region) else {
                continue;
            };
            // The region may have been freed since, or cannot be mapped.
            let Some((placed, found)) = self.read_margin(id.key(), are_written) else {
                continue;
            };
            if found.is_some() && !are_written {
                continue;
            }
            checked += 1;
            if let Some((first, size)) = found {
                report(&CorruptedMargin {
                    id,
                    name: map.name(range),
                    tag: range.tag,
                    site: range.site,
                    offset: placed.size.saturating_add(first),
                    size,
                });
            }
        }
        Ok(checked)
    }
}
