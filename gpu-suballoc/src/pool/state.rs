//! It makes no callback: what it may need lies in the reserve of its tables.

#![forbid(unsafe_code)]

use super::block_sizes::Growth;
use super::blocks::{BlockSpace, Blocks, DedicatedRegion, Object};
use super::config::PoolConfig;
use super::request::{AllocationRequest, Suballocation};
use crate::error::GpuMisuse;
use crate::growable_vec::Slots;
use crate::host_memory::{GrowableTable, Tables};
use crate::id::{BlockRef, RangePlacement, RegionPlace};
use crate::range::{Fit, RangeRequest};
use crate::request::{Lifetime, ResourceKind};

pub(super) struct PoolState {
    pub(super) config: PoolConfig,
    pub(super) growth: Growth,
    pub(super) blocks: Blocks,
    pub(super) dedicated: Slots<DedicatedRegion>,
    /// Live, in creation, and not yet freed by the driver.
    pub(super) objects: u32,
    pub(super) bytes: u64,
    /// Shared blocks in creation, and the room of the largest: requests that it can serve wait.
    pub(super) blocks_in_creation: u32,
    pub(super) room_in_creation: u64,
    /// Their pool is not destroyed meanwhile.
    pub(super) dedicated_in_creation: u32,
    pub(super) blocks_created: u64,
    pub(super) regions: u64,
    pub(super) used_bytes: u64,
    /// Bytes of empty blocks that stay because of a `reserve`, until the pool is trimmed.
    pub(super) reserved: u64,
    pub(super) deferred: DeferredFree,
    pub(super) is_open: bool,
    pub(super) is_defragmenting: bool,
    pub(super) moving: u64,
    pub(super) moving_bytes: u64,
}

#[derive(Default)]
pub(super) struct DeferredFree {
    pub(super) emptied_block: Option<u32>,
    pub(super) object: Option<Object>,
}

impl PoolState {
    pub(super) fn new(config: PoolConfig, growth: Growth) -> Self {
        Self {
            config,
            growth,
            blocks: Blocks::new(config.granule_log2, config.page()),
            dedicated: Slots::up_to(BlockRef::BLOCKS),
            objects: 0,
            bytes: 0,
            blocks_in_creation: 0,
            room_in_creation: 0,
            dedicated_in_creation: 0,
            blocks_created: 0,
            regions: 0,
            used_bytes: 0,
            reserved: 0,
            deferred: DeferredFree::default(),
            is_open: true,
            is_defragmenting: false,
            moving: 0,
            moving_bytes: 0,
        }
    }

    pub(super) const fn is_named(&self, generation: u32) -> bool {
        self.is_open && self.config.generation == generation
    }

    #[inline(always)]
    pub(super) fn range_request(&self, request: &AllocationRequest) -> RangeRequest {
        let (size, alignment) = self.config.padded(request);
        // Short-lived regions leave no holes between lasting ones at the other end.
        let is_high = if self.config.options.algorithm.is_linear() {
            request.upper_address
        } else {
            request.lifetime == Lifetime::Transient
        };
        RangeRequest {
            size,
            asked: request.size,
            alignment,
            user_data: request.slot,
            fit: if is_high { Fit::High } else { Fit::Low },
            is_optimal: request.kind == ResourceKind::Optimal,
        }
    }

    /// An error is the size of a block that would have room.
    #[inline(always)]
    pub(super) fn place(&mut self, request: &AllocationRequest) -> Result<Suballocation, u64> {
        let want = self.range_request(request);
        let space = if self.config.options.algorithm.is_linear() {
            let whole = self.growth.max & !(self.config.granule() - 1);
            self.blocks.allocate_at_end(&want).ok_or(whole)?
        } else {
            self.blocks.allocate(&want).ok_or(want.size)?
        };
        self.add_region(&space, request.slot).ok_or(want.size)
    }

    #[inline(always)]
    pub(super) fn add_region(&mut self, space: &BlockSpace, slot: u32) -> Option<Suballocation> {
        self.regions += 1;
        self.used_bytes += space.size;
        self.region(space, slot)
    }

    #[inline]
    pub(super) fn region(&self, space: &BlockSpace, slot: u32) -> Option<Suballocation> {
        let object = &self.blocks.block(space.block).ok()?.object;
        let at = RegionPlace {
            block: BlockRef::new(self.config.place_kind(), self.config.index, space.block),
            node: space.node,
            slot,
        };
        Some(self.suballocation(at, object, (space.offset, space.asked, space.size)))
    }

    #[inline]
    fn suballocation(
        &self,
        at: RegionPlace,
        object: &Object,
        (offset, size, reserved): (u64, u64, u64),
    ) -> Suballocation {
        let base = object.map.base().filter(|_| at.block.is_mapped());
        Suballocation {
            at,
            memory: object.memory,
            memory_size: object.size,
            offset,
            size,
            reserved,
            memory_type: self.config.options.memory_type,
            properties: self.config.properties,
            mapped: base.map(|base| base.offset(offset)),
        }
    }

    /// The flag says that a [`deferred_free`](PoolState::deferred_free) is left.
    #[inline]
    pub(super) fn free(&mut self, at: RegionPlace) -> Result<(u64, bool), GpuMisuse> {
        let (size, more) = if at.kind() == RangePlacement::Dedicated {
            let (size, object) = self.dedicated.free(at)?;
            let more = object.is_some();
            self.deferred.object = object;
            (size, more)
        } else {
            let (size, empty) = self.blocks.free(at)?;
            if empty {
                self.deferred.emptied_block = Some(at.block());
            }
            (size, empty)
        };
        self.regions -= 1;
        self.used_bytes -= size;
        let may_keep_less = self.blocks.empty_bytes > self.growth.first;
        Ok((size, more || may_keep_less && self.keeps_too_much()))
    }

    #[inline]
    fn keeps_too_much(&self) -> bool {
        !self.is_defragmenting
            && self.blocks.len() > self.config.options.min_blocks
            && self.blocks.empty_bytes > self.kept_bytes()
    }

    pub(super) fn excess_block(&mut self) -> Option<u32> {
        let is_excess = self.keeps_too_much();
        is_excess.then(|| self.blocks.removable()).flatten()
    }

    fn shared_bytes(&self) -> u64 {
        self.used_bytes.min(self.blocks.bytes)
    }

    fn kept_bytes(&self) -> u64 {
        let default = || self.growth.kept(self.shared_bytes());
        let kept = self.config.options.keep_empty.unwrap_or_else(default);
        kept.max(self.reserved)
    }

    /// Must be called before the lock is released.
    pub(super) fn deferred_free(&mut self) -> DeferredFree {
        let freed = core::mem::take(&mut self.deferred);
        DeferredFree { emptied_block: freed.emptied_block.or_else(|| self.excess_block()), ..freed }
    }

    pub(super) fn locate(&self, at: RegionPlace) -> Result<Suballocation, GpuMisuse> {
        if at.kind() == RangePlacement::Dedicated {
            let object = &self.dedicated.region(at)?.object;
            return Ok(self.suballocation(at, object, (0, object.size, object.size)));
        }
        let (live, found) = self.blocks.range(at)?;
        let bytes = (found.offset, found.asked, found.size);
        Ok(self.suballocation(at, &live.object, bytes))
    }

    pub(super) fn object_mut(&mut self, place: BlockRef) -> Result<&mut Object, GpuMisuse> {
        if place.kind() == RangePlacement::Dedicated {
            let region = self.dedicated.get_mut(place.block());
            return Ok(&mut region.ok_or(GpuMisuse::Stale)?.object);
        }
        Ok(&mut self.blocks.block_mut(place.block())?.object)
    }

    pub(super) fn detach_leftover(&mut self, place: BlockRef) -> Option<Object> {
        if place.kind() == RangePlacement::Dedicated { self.dedicated.detach_leftover(place.block()) } else { None }
    }

    /// With `all` it removes also a block that the pool keeps.
    pub(super) fn remove_empty_block(&mut self, block: Option<u32>, all: bool) -> Option<Object> {
        let kept = if all { 0 } else { self.kept_bytes() };
        if self.blocks.empty_bytes <= kept || self.blocks.len() <= self.config.options.min_blocks {
            return None;
        }
        let block = block.or_else(|| self.blocks.removable())?;
        let removed = self.blocks.remove(block)?;
        self.growth.shrink(self.blocks.bytes, self.shared_bytes());
        Some(removed)
    }

    pub(super) fn each_object(&self) -> impl Iterator<Item = &Object> {
        let blocks = self.blocks.slots.each().map(|(_, live)| &live.object);
        let dedicated = self.dedicated.each().map(|(_, region)| &region.object);
        blocks.chain(dedicated)
    }
}

impl Tables for PoolState {
    fn visit_tables(&mut self, visit: &mut dyn FnMut(&mut dyn GrowableTable)) {
        self.blocks.visit_tables(visit);
        visit(&mut self.dedicated);
    }
}
