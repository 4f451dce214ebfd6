//! Reports of an allocator: totals from running counts, and memory maps, copied under the locks of pools and records.
//!
//! ```text
//!   1. count                 pools and records, each under its lock
//!   2. allocate              without a lock
//!   3. copy                  under the same locks; if the capacity is too small by then, from 1 on
//!   4. names, tags, sites    region by region, without a pool's lock
//! ```

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::HostAllocator;

use super::memory_map::{MemoryMap, MemoryMapCapacity};
use super::stats::{GpuStats, MemoryTotals};
use super::view::{
    BlockContent, BlockView, CropView, RangePlacement, RangeUse, RangeView, RegionResource,
};
use super::vma_json::DumpContext;
use crate::allocator::GpuAllocator;
use crate::device::{DeviceMemory, HeapBudget, MAX_MEMORY_HEAPS};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{BlockRef, PlaceKind, PoolId, RegionId};
use crate::pool::{PoolTotals, WalkItem};
use crate::region::RegionContent;
use crate::region_metadata::{AliasInfo, RecordInfo};
use crate::request::ResourceKind;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Totals, in sum and by type and heap. The time does not depend on the number of regions.
    #[must_use]
    pub fn stats(&self) -> GpuStats {
        let mut stats = GpuStats {
            host_bytes: self.host_bytes(),
            peak_block_bytes: self.pools.peak_bytes(),
            longest_wait: self.pools.longest_wait(),
            ..GpuStats::default()
        };
        for pool in (0..BlockRef::POOLS as u16).filter_map(|index| self.pools.totals(index)) {
            stats.add(pool.memory_type, pool.heap, &totals_of(&pool));
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
        self.pools
            .totals(pool.index)
            .filter(|own| own.custom == Some(pool.generation) && pool.tag == self.tag)
            .map(|own| totals_of(&own))
            .ok_or_else(|| GpuMisuse::NoSuchPool.into())
    }

    /// A memory map: every block with its ranges, wrapped buffers and crops, in the allocator's own host memory.
    ///
    /// # Errors
    /// The host memory for it was refused.
    pub fn memory_map(&self) -> Result<MemoryMap<'_>, GpuError> {
        let mut picture = MemoryMap::new_in(self.host());
        let mut more = 0usize;
        loop {
            picture.reserve(self.required_capacity().with_more(more))?;
            if self.copy_pools(&mut picture) && self.copy_aliases(&mut picture) {
                break;
            }
            // Another thread, or a host allocator that calls back, created regions since the count.
            picture.clear();
            more = more.saturating_mul(2).saturating_add(16);
        }
        self.fill_in(&mut picture)?;
        Ok(picture)
    }

    /// Writes a memory map as JSON with the keys of `vmaBuildStatsString` into `sink`. Allocates nothing.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn write_json(&self, picture: &MemoryMap<'_>, sink: &mut dyn fmt::Write) -> fmt::Result {
        let mut budgets = [HeapBudget::default(); MAX_MEMORY_HEAPS];
        for (index, budget) in (0u32..).zip(&mut budgets) {
            let heap = self.pools.heap(index);
            *budget = HeapBudget {
                usage: heap.usage,
                budget: heap.budget,
            };
        }
        let head = DumpContext {
            properties: self.device().properties(),
            budgets: &budgets,
            stats: &self.stats(),
            preferred: &|pool| self.pools.totals(pool).map(|totals| totals.preferred_block),
        };
        picture.write_vma_json(&head, sink)
    }

    /// The capacity for a copy of the present state.
    fn required_capacity(&self) -> MemoryMapCapacity {
        let mut room = MemoryMapCapacity::default();
        self.pools.walk(&mut |item| match item {
            WalkItem::Object { .. } => room.blocks = room.blocks.saturating_add(1),
            _ => room.ranges = room.ranges.saturating_add(1),
        });
        self.records.each_alias(&mut |alias| {
            room.names = room.names.saturating_add(alias.info.name().len());
            if is_crop(alias) {
                room.crops = room.crops.saturating_add(1);
            } else {
                room.blocks = room.blocks.saturating_add(1);
                // Itself, and the part of its buffer in front of it.
                room.ranges = room.ranges.saturating_add(2);
            }
        });
        room
    }

    /// Copies the blocks and ranges of all pools. False if the capacity is too small.
    fn copy_pools(&self, picture: &mut MemoryMap<'_>) -> bool {
        let mut fits = true;
        let mut in_dedicated = false;
        self.pools.walk(&mut |item| {
            fits = fits
                && match item {
                    WalkItem::Object {
                        pool,
                        custom,
                        block,
                        dedicated,
                        kind,
                        memory_type,
                        memory,
                        size,
                        maps,
                        ..
                    } => {
                        in_dedicated = dedicated;
                        picture.put_block(BlockView {
                            pool: u32::from(pool),
                            block,
                            is_custom: custom.is_some(),
                            memory: memory.as_raw(),
                            memory_type: Some(memory_type),
                            content: match kind {
                                _ if dedicated => BlockContent::Dedicated,
                                ResourceKind::Linear => BlockContent::Linear,
                                ResourceKind::Optimal => BlockContent::Optimal,
                                ResourceKind::Unknown => BlockContent::Mixed,
                            },
                            size,
                            maps,
                            ranges: (0, 0),
                        })
                    }
                    WalkItem::Free {
                        offset,
                        size,
                        within,
                    } => {
                        let range_use = if within == PlaceKind::General {
                            RangeUse::Free
                        } else {
                            RangeUse::Spent
                        };
                        let placement = placement_of(within, in_dedicated);
                        picture.put_range(RangeView::unowned(offset, size, range_use, placement))
                    }
                    WalkItem::Tail { offset, size } | WalkItem::MoveTarget { offset, size } => {
                        let placement = placement_of(PlaceKind::General, in_dedicated);
                        let range_use = RangeUse::Spent;
                        picture.put_range(RangeView::unowned(offset, size, range_use, placement))
                    }
                    WalkItem::Region {
                        at,
                        offset,
                        size,
                        asked,
                        alignment,
                    } => {
                        let placement = placement_of(at.kind(), in_dedicated);
                        picture.put_range(RangeView {
                            padding: size.saturating_sub(asked),
                            alignment,
                            at: Some(at),
                            ..RangeView::unowned(offset, size, RangeUse::Region, placement)
                        })
                    }
                };
        });
        fits
    }

    /// Copies wrapped buffers, as blocks of their own, and crops. False if the capacity is too small.
    fn copy_aliases(&self, picture: &mut MemoryMap<'_>) -> bool {
        let mut fits = true;
        self.records.each_alias(&mut |alias| {
            fits = fits
                && if is_crop(alias) {
                    self.put_crop(alias, picture)
                } else {
                    self.put_wrapped(alias, picture)
                };
        });
        fits
    }

    fn put_crop(&self, alias: &AliasInfo, picture: &mut MemoryMap<'_>) -> bool {
        let crop = CropView {
            id: RegionId::new(self.tag, alias.key),
            root: RegionId::new(self.tag, alias.root),
            offset: alias.offset,
            size: alias.size,
            tag: alias.info.tag,
            site: alias.info.site,
            name: (0, 0),
        };
        picture.put_crop(crop, alias.info.name())
    }

    fn put_wrapped(&self, alias: &AliasInfo, picture: &mut MemoryMap<'_>) -> bool {
        let (offset, size) = (alias.offset, alias.size);
        let block = BlockView {
            pool: 0,
            block: alias.key.slot,
            is_custom: false,
            memory: 0,
            memory_type: None,
            content: BlockContent::Wrapped,
            size: offset.saturating_add(size),
            maps: u32::from(alias.info.maps),
            ranges: (0, 0),
        };
        let Some(name) = picture.put_name(alias.info.name()) else {
            return false;
        };
        let placement = RangePlacement::Wrapped;
        let before = RangeView::unowned(0, offset, RangeUse::Free, placement);
        let range = RangeView::unowned(offset, size, RangeUse::Region, placement);
        let range = RangeView {
            id: Some(RegionId::new(self.tag, alias.key)),
            name,
            resource: RegionResource::Buffer,
            ..with_record(range, &alias.info)
        };
        picture.put_block(block)
            && (offset == 0 || picture.put_range(before))
            && picture.put_range(range)
    }

    /// Adds the records of regions, one by one: a region that is freed meanwhile has none.
    fn fill_in(&self, picture: &mut MemoryMap<'_>) -> Result<(), GpuError> {
        for at in 0..picture.ranges.as_slice().len() {
            let Some(range) = picture.ranges.as_slice().get(at).copied() else {
                continue;
            };
            let Some(record) = range.at.and_then(|at| self.records.info_at(at)) else {
                continue;
            };
            picture.names.try_reserve(record.name().len())?;
            let filled = RangeView {
                id: Some(RegionId::new(self.tag, record.key)),
                name: picture.put_name(record.name()).unwrap_or_default(),
                padding: range.size.saturating_sub(record.asked),
                range_use: if record.is_reusable {
                    RangeUse::Reusable
                } else {
                    RangeUse::Region
                },
                resource: resource_of(&record),
                at: None,
                ..with_record(range, &record)
            };
            if let Some(place) = picture.ranges.as_mut_slice().get_mut(at) {
                *place = filled;
            }
        }
        Ok(())
    }
}

fn totals_of(pool: &PoolTotals) -> MemoryTotals {
    MemoryTotals {
        blocks: u64::from(pool.objects),
        block_bytes: pool.object_bytes,
        empty_bytes: pool.empty_bytes,
        largest_free_bound: pool.largest_free_bound,
        dedicated: u64::from(pool.dedicated),
        regions: pool.regions,
        region_bytes: pool.region_bytes,
        moving: pool.moving,
        moving_bytes: pool.moving_bytes,
        ..MemoryTotals::default()
    }
}

fn with_record(range: RangeView, record: &RecordInfo) -> RangeView {
    RangeView {
        usage: record.usage,
        tag: record.tag,
        site: record.site,
        crops: record.crops,
        maps: u32::from(record.maps),
        ..range
    }
}

fn is_crop(alias: &AliasInfo) -> bool {
    alias.key != alias.root
}

fn resource_of(record: &RecordInfo) -> RegionResource {
    match (record.content, record.resource) {
        (RegionContent::Bare, _) => RegionResource::Unknown,
        (RegionContent::Buffer, _) => RegionResource::Buffer,
        (RegionContent::Image, ResourceKind::Optimal) => RegionResource::ImageOptimal,
        (RegionContent::Image, _) => RegionResource::ImageLinear,
    }
}

fn placement_of(kind: PlaceKind, dedicated: bool) -> RangePlacement {
    match kind {
        _ if dedicated => RangePlacement::Dedicated,
        PlaceKind::Linear => RangePlacement::Linear,
        PlaceKind::General | PlaceKind::Dedicated => RangePlacement::General,
    }
}
