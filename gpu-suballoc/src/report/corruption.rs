//! Margins that somebody wrote to, with the names of their regions.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::view::RangeUse;
use crate::allocator::GpuAllocator;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::id::RegionId;

/// A margin that somebody wrote to: [`GpuAllocator::check_corruption`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptedMargin<'m> {
    /// The region in front of the margin.
    pub id: RegionId,
    /// Its name.
    pub name: Option<&'m str>,
    /// The user's word; 0 where none was given.
    pub tag: u64,
    /// Where it was asked for; 0 where the request did not say.
    pub site: u64,
    /// The first byte that was written, from the region's start: at least its size.
    pub offset: u64,
    /// From there to the last byte that was written.
    pub size: u64,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Looks at the margin of each region in host-visible memory ([`MemoryOptions::margin`](crate::pool::MemoryOptions::margin)), and reports those
    /// that somebody wrote to, in the order of memory. A write in front of a region is one behind its neighbour, and is reported with the
    /// neighbour's name. Answers how many were looked at: 0 without margins.
    ///
    /// What the device writes must be finished. While another thread is within an allocation, a margin that looks damaged may be one that
    /// is not written yet: this waits for a moment without such a call, and leaves damage to the next look where there is none for some
    /// tens of microseconds. `report` is called with no lock held.
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
            // What was freed since then, or cannot be mapped, is not looked at.
            let Some((placed, found)) = self.read_margin(id.at(), are_written) else {
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
