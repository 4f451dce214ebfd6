//! What the facade tells: totals from running counts, pictures copied under the locks of pools and records.
//!
//! ```text
//!   1. how much is there?    pools and records counted, each under its lock
//!   2. room                  taken with no lock held
//!   3. copy                  under the same locks, into the room; too little by then: from 1 on
//!   4. names, tags, sites    region by region, with no pool's lock held
//! ```

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::{HostAllocator, HostSource, Scope, Scoped};

use super::memory_map::{MemoryMap, MemoryMapCapacity};
use super::stats::{GpuStats, MemoryTotals};
use super::view::{
    BlockContent, BlockView, CropView, RangePlacement, RangeUse, RangeView, RegionResource,
};
use super::vma_json::DumpContext;
use crate::allocator::GpuAllocator;
use crate::device::{DeviceMemory, HeapBudget, MAX_MEMORY_HEAPS};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, PoolId, RegionId, RegionPlace, RegionPlaceKind};
use crate::pool::WalkItem;
use crate::region::RegionContent;
use crate::region_metadata::{AliasInfo, RecordInfo};
use crate::request::ResourceKind;
use crate::shard::Shards;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Totals, in sum and by type and heap, in a time that does not depend on how much lives.
    #[must_use]
    pub fn stats(&self) -> GpuStats {
        let mut stats = GpuStats {
            host_bytes: self.host_bytes(),
            peak_block_bytes: self.pools.peak_bytes(),
            longest_wait: self.pools.longest_wait(),
            ..GpuStats::default()
        };
        for pool in (0..RegionPlace::POOLS as u16).filter_map(|index| self.pool_totals(index)) {
            stats.add(pool.memory_type, pool.heap, &pool.totals);
        }
        let records = self.records.counts();
        stats.total.wrapped = records.wrapped;
        stats.total.wrapped_bytes = records.wrapped_bytes;
        stats.total.crops = records.crops;
        stats
    }

    /// Totals of a pool of the user's, likewise; what is wrapped or cropped lies in no pool.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPool`].
    pub fn pool_stats(&self, pool: PoolId) -> Result<MemoryTotals, GpuError> {
        let own = self
            .pool_totals(pool.index)
            .filter(|own| own.custom == Some(pool.generation) && pool.tag == self.tag);
        own.map(|own| own.totals)
            .ok_or_else(|| GpuMisuse::NoSuchPool.into())
    }

    /// All of it as it is now: every block with its ranges, wrapped buffers and crops, in the allocator's own host memory.
    ///
    /// # Errors
    /// The host memory for it was refused.
    pub fn memory_map(&self) -> Result<MemoryMap<Scoped<&dyn HostAllocator>>, GpuError> {
        self.memory_map_in(Scoped::new(self.host(), Scope::Object))
    }

    /// As [`memory_map`](GpuAllocator::memory_map), in memory of `memory`: so that the picture may outlive the allocator, or count elsewhere.
    ///
    /// # Errors
    /// `memory` refused.
    pub fn memory_map_in<M: HostSource + Clone>(
        &self,
        memory: M,
    ) -> Result<MemoryMap<M>, GpuError> {
        let mut picture = MemoryMap::new_in(memory);
        let mut more = 0usize;
        loop {
            picture.reserve(self.required_capacity().with_more(more))?;
            if self.copy_pools(&mut picture) && self.copy_aliases(&mut picture) {
                break;
            }
            // It grew in between: by other threads, or by a host allocator that calls back. With as much again to spare it ends.
            picture.clear();
            more = more.saturating_mul(2).saturating_add(16);
        }
        self.fill_in(&mut picture)?;
        Ok(picture)
    }

    /// Writes a picture as JSON with the keys of `vmaBuildStatsString`, straight into `sink`, taking no memory.
    ///
    /// # Errors
    /// Whatever the sink says.
    pub fn write_json<M: HostSource>(
        &self,
        picture: &MemoryMap<M>,
        sink: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let mut budgets = [HeapBudget::default(); MAX_MEMORY_HEAPS];
        for (index, budget) in (0u32..).zip(&mut budgets) {
            let heap = self.pools.heap(index);
            *budget = HeapBudget {
                usage: heap.usage,
                budget: heap.budget,
            };
        }
        let preferred = |pool| self.pools.totals(pool).map(|totals| totals.preferred_block);
        let properties = self.device().properties();
        let stats = self.stats();
        let head = DumpContext {
            properties,
            budgets: &budgets,
            stats: &stats,
            preferred: &preferred,
        };
        picture.write_vma_json(&head, sink)
    }

    /// Every memory object and what lies in it, that of shards too; as [`Pools::walk`](crate::pool::Pools::walk).
    pub(crate) fn walk(&self, see: &mut dyn FnMut(WalkItem)) {
        self.pools.walk(&mut |seen| match seen {
            WalkItem::ShardPage { offset, size, word } => {
                self.shards.walk_page(word, offset, size, see)
            }
            seen => see(seen),
        });
    }

    /// How much there is to copy now.
    fn required_capacity(&self) -> MemoryMapCapacity {
        let mut room = MemoryMapCapacity::default();
        self.walk(&mut |seen| match seen {
            WalkItem::Object { .. } => room.blocks = room.blocks.saturating_add(1),
            _ => room.ranges = room.ranges.saturating_add(1),
        });
        self.records.each_alias(&mut |alias| {
            room.names = room.names.saturating_add(alias.info.name().len());
            if is_crop(alias) {
                room.crops = room.crops.saturating_add(1);
            } else {
                room.blocks = room.blocks.saturating_add(1);
                // What is in front of it in its buffer, and itself.
                room.ranges = room.ranges.saturating_add(2);
            }
        });
        room
    }

    /// False where there was too little room.
    fn copy_pools<M: HostSource + Clone>(&self, picture: &mut MemoryMap<M>) -> bool {
        let mut fits = true;
        let mut dedicated = false;
        self.walk(&mut |seen| {
            fits = fits
                && match seen {
                    WalkItem::Object { .. } => {
                        dedicated = matches!(
                            seen,
                            WalkItem::Object {
                                dedicated: true,
                                ..
                            }
                        );
                        block_of(&seen).is_none_or(|block| picture.put_block(block))
                    }
                    WalkItem::Free {
                        offset,
                        size,
                        within,
                    } => {
                        let what = if within == RegionPlaceKind::General {
                            RangeUse::Free
                        } else {
                            RangeUse::Spent
                        };
                        picture.put_range(RangeView::unowned(
                            offset,
                            size,
                            what,
                            placement_of(within, dedicated),
                        ))
                    }
                    WalkItem::Tail { offset, size } => {
                        let placement = placement_of(RegionPlaceKind::General, dedicated);
                        picture.put_range(RangeView::unowned(
                            offset,
                            size,
                            RangeUse::Spent,
                            placement,
                        ))
                    }
                    WalkItem::MoveTarget { offset, size } => {
                        let placement = placement_of(RegionPlaceKind::General, dedicated);
                        let what = RangeUse::Spent;
                        picture.put_range(RangeView::unowned(offset, size, what, placement))
                    }
                    // None comes from a walk of the whole.
                    WalkItem::ShardPage { .. } => true,
                    WalkItem::Region {
                        at,
                        offset,
                        size,
                        asked,
                        alignment,
                        user_data: word,
                    } => {
                        let kind = if at.kind() == RegionPlaceKind::Shard {
                            Shards::class_of(at.place.block())
                        } else {
                            at.kind()
                        };
                        let placement = placement_of(kind, dedicated);
                        let range = RangeView::unowned(offset, size, RangeUse::Region, placement);
                        let padding = size.saturating_sub(asked);
                        picture.put_range(RangeView {
                            id: Some(RegionId::new(self.tag, at)),
                            padding,
                            alignment,
                            user_data: word,
                            ..range
                        })
                    }
                };
        });
        fits
    }

    /// Wrapped buffers as blocks of their own, and crops. False where there was too little room.
    fn copy_aliases<M: HostSource + Clone>(&self, picture: &mut MemoryMap<M>) -> bool {
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

    fn put_crop<M: HostSource + Clone>(
        &self,
        alias: &AliasInfo,
        picture: &mut MemoryMap<M>,
    ) -> bool {
        let AliasInfo {
            key,
            root,
            offset,
            size,
            info: ref facts,
            ..
        } = *alias;
        let (id, root) = (RegionId::new(self.tag, key), RegionId::new(self.tag, root));
        picture.put_crop(
            CropView {
                id,
                root,
                offset,
                size,
                tag: facts.tag,
                site: facts.site,
                name: (0, 0),
            },
            facts.name(),
        )
    }

    fn put_wrapped<M: HostSource + Clone>(
        &self,
        alias: &AliasInfo,
        picture: &mut MemoryMap<M>,
    ) -> bool {
        let AliasInfo {
            key,
            offset,
            size,
            info: ref facts,
            ..
        } = *alias;
        let block = BlockView {
            pool: 0,
            block: key.slot,
            is_custom: false,
            memory: 0,
            memory_type: None,
            content: BlockContent::Wrapped,
            size: offset.saturating_add(size),
            maps: u32::from(facts.maps),
            ranges: (0, 0),
        };
        let Some(name) = picture.put_name(facts.name()) else {
            return false;
        };
        let before = RangeView::unowned(0, offset, RangeUse::Free, RangePlacement::Wrapped);
        let range = RangeView::unowned(offset, size, RangeUse::Region, RangePlacement::Wrapped);
        let range = RangeView {
            id: Some(RegionId::new(self.tag, key)),
            name,
            resource: RegionResource::Buffer,
            ..with_record(range, facts)
        };
        picture.put_block(block)
            && (offset == 0 || picture.put_range(before))
            && picture.put_range(range)
    }

    /// What records know of regions: asked one by one, so a region that goes meanwhile stays without.
    fn fill_in<M: HostSource + Clone>(&self, picture: &mut MemoryMap<M>) -> Result<(), GpuError> {
        for at in 0..picture.ranges.as_slice().len() {
            let Some(range) = picture.ranges.as_slice().get(at).copied() else {
                continue;
            };
            let Some(key) = range.id.map(RegionId::at) else {
                continue;
            };
            // A shard's region has no word: the index knows its record.
            let number = if key.kind() == RegionPlaceKind::Shard {
                self.records.find_indexed(key)
            } else {
                Some(range.user_data)
            };
            let Some(number) = number.filter(|number| *number != NO_RECORD) else {
                continue;
            };
            let Some(facts) = self.records.info(number, key) else {
                continue;
            };
            picture.names.try_reserve(facts.name().len())?;
            let name = picture.put_name(facts.name()).unwrap_or_default();
            let padding = if facts.asked > 0 {
                range.size.saturating_sub(facts.asked)
            } else {
                range.padding
            };
            let what = if facts.is_reusable {
                RangeUse::Reusable
            } else {
                RangeUse::Region
            };
            let resource = resource_of(&facts);
            let filled = RangeView {
                id: Some(RegionId::new(self.tag, facts.key)),
                name,
                padding,
                range_use: what,
                resource,
                user_data: NO_RECORD,
                ..with_record(range, &facts)
            };
            if let Some(place) = picture.ranges.as_mut_slice().get_mut(at) {
                *place = filled;
            }
        }
        Ok(())
    }

    fn pool_totals(&self, index: u16) -> Option<PoolSummary> {
        let pool = self.pools.totals(index)?;
        let totals = MemoryTotals {
            blocks: u64::from(pool.objects),
            block_bytes: pool.object_bytes,
            empty_bytes: pool.empty_bytes,
            largest_free_bound: pool.largest_free_bound,
            dedicated: u64::from(pool.dedicated),
            regions: pool.regions,
            region_bytes: pool.region_bytes,
            shard_pages: pool.shard_pages,
            shard_page_bytes: pool.shard_page_bytes,
            moving: pool.moving,
            moving_bytes: pool.moving_bytes,
            ..MemoryTotals::default()
        };
        Some(PoolSummary {
            custom: pool.custom,
            memory_type: pool.memory_type,
            heap: pool.heap,
            totals,
        })
    }
}

/// A pool's totals, with whose they are.
struct PoolSummary {
    /// Of a pool of the user's own, its generation.
    custom: Option<u32>,
    memory_type: u32,
    heap: u32,
    totals: MemoryTotals,
}

fn with_record(range: RangeView, facts: &RecordInfo) -> RangeView {
    let (usage, tag, site) = (facts.usage, facts.tag, facts.site);
    RangeView {
        usage,
        tag,
        site,
        crops: facts.crops,
        maps: u32::from(facts.maps),
        ..range
    }
}

fn is_crop(alias: &AliasInfo) -> bool {
    alias.key != alias.root
}

fn resource_of(facts: &RecordInfo) -> RegionResource {
    match (facts.content, facts.resource) {
        (RegionContent::Bare, _) => RegionResource::Unknown,
        (RegionContent::Buffer, _) => RegionResource::Buffer,
        (RegionContent::Image, ResourceKind::Optimal) => RegionResource::ImageOptimal,
        (RegionContent::Image, _) => RegionResource::ImageLinear,
    }
}

fn block_of(seen: &WalkItem) -> Option<BlockView> {
    let WalkItem::Object {
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
    } = *seen
    else {
        return None;
    };
    let content = match (dedicated, kind) {
        (true, _) => BlockContent::Dedicated,
        (_, ResourceKind::Linear) => BlockContent::Linear,
        (_, ResourceKind::Optimal) => BlockContent::Optimal,
        (_, ResourceKind::Unknown) => BlockContent::Mixed,
    };
    let (pool, custom, memory_type) = (u32::from(pool), custom.is_some(), Some(memory_type));
    let memory = memory.as_raw();
    Some(BlockView {
        pool,
        block,
        is_custom: custom,
        memory,
        memory_type,
        content,
        size,
        maps,
        ranges: (0, 0),
    })
}

fn placement_of(kind: RegionPlaceKind, dedicated: bool) -> RangePlacement {
    match kind {
        _ if dedicated => RangePlacement::Dedicated,
        RegionPlaceKind::Transient => RangePlacement::Transient,
        RegionPlaceKind::Slab => RangePlacement::Slab,
        RegionPlaceKind::Linear => RangePlacement::Linear,
        RegionPlaceKind::Wrapped => RangePlacement::Wrapped,
        _ => RangePlacement::General,
    }
}
