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

use super::dump::Head;
use super::picture::{Picture, Room};
use super::stats::{GpuStats, Totals};
use super::view::{BlockContent, BlockView, CropView, Placement, RangeUse, RangeView, Resource};
use crate::allocator::{Content, GpuAllocator};
use crate::device::{DeviceMemory, HeapBudget, MAX_MEMORY_HEAPS};
use crate::error::{GpuError, Misuse};
use crate::id::{Place, PlaceKind, PoolId, RegionId};
use crate::pool::{BARE, Seen, Where};
use crate::records::{Alias, Facts, Key};
use crate::request::ResourceKind;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Totals, in sum and by type and heap, in a time that does not depend on how much lives.
    #[must_use]
    pub fn stats(&self) -> GpuStats {
        let mut stats = GpuStats { host_bytes: self.host_bytes(), ..GpuStats::default() };
        for pool in (0..Place::POOLS as u16).filter_map(|index| self.pool_totals(index)) {
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
    /// [`Misuse::NoSuchPool`].
    pub fn pool_stats(&self, pool: PoolId) -> Result<Totals, GpuError> {
        let own = self.pool_totals(pool.index).filter(|own| own.custom == Some(pool.generation) && pool.tag == self.tag);
        own.map(|own| own.totals).ok_or_else(|| Misuse::NoSuchPool.into())
    }

    /// All of it as it is now: every block with its ranges, wrapped buffers and crops, in the allocator's own host memory.
    ///
    /// # Errors
    /// The host memory for it was refused.
    pub fn picture(&self) -> Result<Picture<Scoped<&dyn HostAllocator>>, GpuError> {
        self.picture_in(Scoped::new(self.host(), Scope::Object))
    }

    /// As [`picture`](GpuAllocator::picture), in memory of `memory`: so that the picture may outlive the allocator, or count elsewhere.
    ///
    /// # Errors
    /// `memory` refused.
    pub fn picture_in<M: HostSource + Clone>(&self, memory: M) -> Result<Picture<M>, GpuError> {
        let mut picture = Picture::new_in(memory);
        loop {
            picture.reserve(self.room())?;
            if self.copy_pools(&mut picture) && self.copy_aliases(&mut picture) {
                break;
            }
            // It grew in between.
            picture.clear();
        }
        self.fill_in(&mut picture)?;
        Ok(picture)
    }

    /// Writes a picture as JSON with the keys of `vmaBuildStatsString`, straight into `sink`, taking no memory.
    ///
    /// # Errors
    /// Whatever the sink says.
    pub fn write_json<M: HostSource>(&self, picture: &Picture<M>, sink: &mut (impl fmt::Write + ?Sized)) -> fmt::Result {
        let mut budgets = [HeapBudget::default(); MAX_MEMORY_HEAPS];
        for (index, budget) in (0u32..).zip(&mut budgets) {
            let heap = self.pools.heap(index);
            *budget = HeapBudget { usage: heap.usage, budget: heap.budget };
        }
        let preferred = |pool| self.pools.totals(pool).map(|totals| totals.preferred_block);
        let properties = self.device().properties();
        let head = Head { properties, budgets: &budgets, host_bytes: self.host_bytes(), preferred: &preferred };
        picture.dump(&head, sink)
    }

    /// How much there is to copy now.
    fn room(&self) -> Room {
        let mut room = Room::default();
        self.pools.walk(&mut |seen| match seen {
            Seen::Object { .. } => room.blocks = room.blocks.saturating_add(1),
            Seen::Free { .. } | Seen::Tail { .. } | Seen::Region { .. } => room.ranges = room.ranges.saturating_add(1),
        });
        self.records.each_alias(&mut |alias| {
            room.names = room.names.saturating_add(alias.facts.name().len());
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
    fn copy_pools<M: HostSource + Clone>(&self, picture: &mut Picture<M>) -> bool {
        let mut fits = true;
        let mut dedicated = false;
        self.pools.walk(&mut |seen| {
            fits = fits
                && match seen {
                    Seen::Object { .. } => {
                        dedicated = matches!(seen, Seen::Object { dedicated: true, .. });
                        block_of(&seen).is_none_or(|block| picture.put_block(block))
                    }
                    Seen::Free { offset, size, within } => {
                        let what = if within == PlaceKind::General { RangeUse::Free } else { RangeUse::Spent };
                        picture.put_range(RangeView::nobodys(offset, size, what, placement_of(within, dedicated)))
                    }
                    Seen::Tail { offset, size } => {
                        let placement = placement_of(PlaceKind::General, dedicated);
                        picture.put_range(RangeView::nobodys(offset, size, RangeUse::Spent, placement))
                    }
                    Seen::Region { at, offset, size, asked, word } => {
                        let placement = placement_of(at.place.kind, dedicated);
                        let range = RangeView::nobodys(offset, size, RangeUse::Region, placement);
                        let padding = size.saturating_sub(asked);
                        picture.put_range(RangeView { id: Some(self.id_of(at)), padding, word, ..range })
                    }
                };
        });
        fits
    }

    /// Wrapped buffers as blocks of their own, and crops. False where there was too little room.
    fn copy_aliases<M: HostSource + Clone>(&self, picture: &mut Picture<M>) -> bool {
        let mut fits = true;
        self.records.each_alias(&mut |alias| {
            fits = fits && if is_crop(alias) { self.put_crop(alias, picture) } else { self.put_wrapped(alias, picture) };
        });
        fits
    }

    fn put_crop<M: HostSource + Clone>(&self, alias: &Alias, picture: &mut Picture<M>) -> bool {
        let Alias { key, root, offset, size, ref facts, .. } = *alias;
        let (id, root) = (key.id(self.tag), root.id(self.tag));
        picture.put_crop(CropView { id, root, offset, size, tag: facts.tag, site: facts.site, name: (0, 0) }, facts.name())
    }

    fn put_wrapped<M: HostSource + Clone>(&self, alias: &Alias, picture: &mut Picture<M>) -> bool {
        let Alias { key, offset, size, ref facts, .. } = *alias;
        let block = BlockView {
            pool: 0,
            block: key.slot,
            custom: false,
            memory: 0,
            memory_type: None,
            content: BlockContent::Wrapped,
            size: offset.saturating_add(size),
            maps: u32::from(facts.maps),
            ranges: (0, 0),
        };
        let Some(name) = picture.put_name(facts.name()) else { return false };
        let before = RangeView::nobodys(0, offset, RangeUse::Free, Placement::Wrapped);
        let range = RangeView::nobodys(offset, size, RangeUse::Region, Placement::Wrapped);
        let range = RangeView { id: Some(key.id(self.tag)), name, resource: Resource::Buffer, ..told(range, facts) };
        picture.put_block(block) && (offset == 0 || picture.put_range(before)) && picture.put_range(range)
    }

    /// What records know of regions: asked one by one, so a region that goes meanwhile stays without.
    fn fill_in<M: HostSource + Clone>(&self, picture: &mut Picture<M>) -> Result<(), GpuError> {
        for at in 0..picture.ranges.as_slice().len() {
            let Some(range) = picture.ranges.as_slice().get(at).copied().filter(|range| range.word != BARE) else { continue };
            let Some(id) = range.id else { continue };
            let Some(facts) = self.records.facts(range.word, Key::of(id)) else { continue };
            picture.names.try_reserve(facts.name().len())?;
            let name = picture.put_name(facts.name()).unwrap_or_default();
            let padding = if facts.asked > 0 { range.size.saturating_sub(facts.asked) } else { range.padding };
            let what = if facts.parked { RangeUse::Kept } else { RangeUse::Region };
            let resource = resource_of(&facts);
            let filled = RangeView { name, padding, what, resource, word: BARE, ..told(range, &facts) };
            if let Some(place) = picture.ranges.as_mut_slice().get_mut(at) {
                *place = filled;
            }
        }
        Ok(())
    }

    fn pool_totals(&self, index: u16) -> Option<PoolTold> {
        let pool = self.pools.totals(index)?;
        let totals = Totals {
            blocks: u64::from(pool.objects),
            block_bytes: pool.object_bytes,
            dedicated: u64::from(pool.dedicated),
            regions: pool.regions,
            region_bytes: pool.region_bytes,
            ..Totals::default()
        };
        Some(PoolTold { custom: pool.custom, memory_type: pool.memory_type, heap: pool.heap, totals })
    }

    fn id_of(&self, at: Where) -> RegionId {
        RegionId::new(self.tag, at.place, at.slot, at.generation)
    }
}

/// A pool's totals, with whose they are.
struct PoolTold {
    /// Of a pool of the user's own, its generation.
    custom: Option<u32>,
    memory_type: u32,
    heap: u32,
    totals: Totals,
}

fn told(range: RangeView, facts: &Facts) -> RangeView {
    let (usage, tag, site) = (facts.usage, facts.tag, facts.site);
    RangeView { usage, tag, site, crops: facts.crops, maps: u32::from(facts.maps), ..range }
}

fn is_crop(alias: &Alias) -> bool {
    alias.key != alias.root
}

fn resource_of(facts: &Facts) -> Resource {
    match (facts.content, facts.resource) {
        (Content::Bare, _) => Resource::Unknown,
        (Content::Buffer, _) => Resource::Buffer,
        (Content::Image, ResourceKind::Optimal) => Resource::ImageOptimal,
        (Content::Image, _) => Resource::ImageLinear,
    }
}

fn block_of(seen: &Seen) -> Option<BlockView> {
    let Seen::Object { pool, custom, block, dedicated, kind, memory_type, memory, size, maps, .. } = *seen else { return None };
    let content = match (dedicated, kind) {
        (true, _) => BlockContent::Dedicated,
        (_, ResourceKind::Linear) => BlockContent::Linear,
        (_, ResourceKind::Optimal) => BlockContent::Optimal,
        (_, ResourceKind::Unknown) => BlockContent::Mixed,
    };
    let (pool, custom, memory_type) = (u32::from(pool), custom.is_some(), Some(memory_type));
    let memory = memory.as_raw();
    Some(BlockView { pool, block, custom, memory, memory_type, content, size, maps, ranges: (0, 0) })
}

fn placement_of(kind: PlaceKind, dedicated: bool) -> Placement {
    match kind {
        _ if dedicated => Placement::Dedicated,
        PlaceKind::Transient => Placement::Transient,
        PlaceKind::Slab => Placement::Slab,
        PlaceKind::Linear => Placement::Linear,
        PlaceKind::Wrapped => Placement::Wrapped,
        _ => Placement::General,
    }
}
