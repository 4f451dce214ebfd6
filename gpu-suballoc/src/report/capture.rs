//! ```text
//!   1. copy                  under the locks of pools and records; what has no room is counted
//!   2. allocate              without a lock, then copy again, until everything has room
//!   3. names, tags, sites    region by region, without a pool's lock
//! ```

use super::memory_map::MemoryMap;
use crate::allocator::GpuAllocator;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::id::RegionId;
use crate::pool::WalkItem;
use crate::region::RangePlacement;
use crate::region_metadata::{AliasInfo, RecordInfo};
use crate::view::{BlockContent, BlockView, RangeUse, RangeView, RegionResource};
use alloc_core::HostAllocator;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// A memory map, in the allocator's own host memory.
    ///
    /// # Errors
    /// The host memory for it was refused.
    #[doc(alias("generate_report", "vmaCalculateStatistics"))]
    pub fn memory_map(&self) -> Result<MemoryMap<'_>, GpuError> {
        let mut map = MemoryMap::new_in(self.host());
        let mut more = 0_usize;
        self.copy(&mut map);
        // Another thread, or a host allocator that calls back, may create regions meanwhile.
        while !map.is_whole() {
            map.grow(more)?;
            more = more.saturating_mul(2).saturating_add(16);
            self.copy(&mut map);
        }
        let MemoryMap { ranges, crops, names, .. } = &mut map;
        let (ranges, crops) = (&mut ranges.items, &mut crops.items);
        for range in ranges.as_mut_slice().iter_mut().chain(crops.as_mut_slice()) {
            // A region that was freed meanwhile has no record.
            let record = match range.at {
                Some(at) => self.records.info_at(at),
                None => range.id.and_then(|id| self.records.info(id.key())),
            };
            if let Some(record) = record {
                range.name = (names.len() as u32, record.name().len() as u32);
                names.try_extend_from_slice(record.name().as_bytes())?;
                add_record(range, &record);
                range.id = Some(RegionId::new(self.tag, record.key));
            }
        }
        Ok(map)
    }

    fn copy(&self, map: &mut MemoryMap<'_>) {
        self.pools.walk(&mut |item| match item {
            WalkItem::Block(block) => map.put_block(block),
            WalkItem::Range(range) => map.put_range(range),
        });
        self.records.each_alias(&mut |alias| {
            let id = |key| Some(RegionId::new(self.tag, key));
            let placement = RangePlacement::Wrapped;
            let mut range = RangeView::unowned(alias.offset, alias.size, RangeUse::Region, placement);
            range.id = id(alias.key);
            if alias.key != alias.root {
                range.root = id(alias.root);
                map.crops.put(range);
                return;
            }
            range.resource = RegionResource::Buffer;
            map.put_block(wrapped_block(alias));
            if alias.offset > 0 {
                map.put_range(RangeView::unowned(0, alias.offset, RangeUse::Free, placement));
            }
            map.put_range(range);
        });
    }
}

fn wrapped_block(alias: &AliasInfo) -> BlockView {
    BlockView {
        pool: 0,
        block: alias.key.slot,
        is_custom: false,
        memory: 0,
        memory_type: None,
        content: BlockContent::Wrapped,
        size: alias.offset.saturating_add(alias.size),
        maps: u32::from(alias.info.maps),
        ranges: (0, 0),
    }
}

fn add_record(range: &mut RangeView, record: &RecordInfo) {
    if range.at.take().is_some() {
        range.padding = range.size.saturating_sub(record.asked);
    }
    if record.is_reusable {
        range.range_use = RangeUse::Reusable;
    }
    range.resource = record.resource;
    (range.usage, range.tag, range.site) = (record.usage, record.tag, record.site);
    (range.crops, range.maps) = (record.crops, record.maps.into());
}

/// An overwritten margin, found by [`GpuAllocator::check_corruption`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Checks the margin of each region in host-visible memory
    /// ([`MemoryOptions::margin`](crate::pool::MemoryOptions::margin)), and reports the overwritten ones. A write in
    /// front of a region is reported with the region before it. Returns the number of checked margins.
    ///
    /// The device must have finished its writes. This call waits for a moment at which no thread is about to write a
    /// margin, and reports nothing if there is none for some tens of microseconds. `report` is called without a lock.
    ///
    /// # Errors
    /// The host memory for a [`MemoryMap`] was refused.
    #[doc(alias("vmaCheckCorruption", "VMA_DEBUG_MARGIN"))]
    pub fn check_corruption(&self, mut report: impl FnMut(&CorruptedMargin<'_>)) -> Result<u64, GpuError> {
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
