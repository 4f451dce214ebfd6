//! The state of a pool, under its lock. It makes no callback: what it may need lies in the reserve of its tables.

#![forbid(unsafe_code)]

use super::blocks::{BlockSpace, Blocks};
use super::blocks::{DedicatedRegion, Object};
use super::config::PoolConfig;
use super::growth::Growth;
use super::linear::{LinearRegions, NoRoom};
use super::request::{AllocationRequest, Suballocation};
use crate::error::GpuMisuse;
use crate::growable_vec::Slots;
use crate::host_memory::{GrowableTable, Tables};
use crate::id::{BlockRef, PlaceKind, RegionPlace};
use crate::range::{Fit, NodeStore, RangeRequest};
use crate::request::{Lifetime, ResourceKind};

/// The state that a pool's lock guards.
pub(super) struct PoolState {
    pub(super) config: PoolConfig,
    pub(super) growth: Growth,
    pub(super) blocks: Blocks,
    pub(super) dedicated: Slots<DedicatedRegion>,
    pub(super) linear: LinearRegions,
    /// Memory objects and their bytes: live, in creation, and not yet freed by the driver.
    pub(super) objects: u32,
    pub(super) bytes: u64,
    /// Shared blocks in creation, and the room that the largest of them will have: a request that it can serve waits for it.
    pub(super) blocks_in_creation: u32,
    pub(super) room_in_creation: u64,
    /// Dedicated objects in creation: their pool is not destroyed meanwhile.
    pub(super) dedicated_in_creation: u32,
    /// Shared blocks created so far.
    pub(super) blocks_created: u64,
    /// Live regions and their bytes.
    pub(super) regions: u64,
    pub(super) used_bytes: u64,
    /// Bytes of empty blocks that stay because of a `reserve`, until the pool is trimmed.
    pub(super) reserved: u64,
    /// See [`deferred_free`](PoolState::deferred_free).
    pub(super) emptied_block: Option<u32>,
    pub(super) emptied_object: Option<Object>,
    /// False once a custom pool was destroyed.
    pub(super) is_open: bool,
    pub(super) is_defragmenting: bool,
    /// Ranges reserved as targets of moves, and their bytes.
    pub(super) moving: u64,
    pub(super) moving_bytes: u64,
}

/// What is left to do after a free, once the lock is released.
#[derive(Default)]
pub(super) struct DeferredFree {
    /// A block that became empty, or another empty one if the pool keeps too many.
    pub(super) emptied_block: Option<u32>,
    /// A dedicated memory object without its region.
    pub(super) object: Option<Object>,
    /// The nodes of a pool without regions.
    pub(super) idle_nodes: Option<NodeStore>,
}

impl PoolState {
    pub(super) const fn new(config: PoolConfig, growth: Growth) -> Self {
        Self {
            config,
            growth,
            blocks: Blocks::new(config.granule_log2, config.page()),
            dedicated: Slots::new(),
            linear: LinearRegions::new(&config),
            objects: 0,
            bytes: 0,
            blocks_in_creation: 0,
            room_in_creation: 0,
            dedicated_in_creation: 0,
            blocks_created: 0,
            regions: 0,
            used_bytes: 0,
            reserved: 0,
            emptied_block: None,
            emptied_object: None,
            is_open: true,
            is_defragmenting: false,
            moving: 0,
            moving_bytes: 0,
        }
    }

    /// Whether the pool has that generation, and was not destroyed. The device's own pools have generation 0.
    pub(super) const fn is_named(&self, generation: u32) -> bool {
        self.is_open && self.config.generation == generation
    }

    /// Finds room in existing blocks.
    #[inline(always)]
    pub(super) fn place(
        &mut self,
        request: &AllocationRequest,
        space: &mut BlockSpace,
    ) -> Result<(), NoRoom> {
        let (size, alignment) = self.config.padded(request);
        if self.config.algorithm.is_linear() {
            self.place_linear(size, alignment, request, space)?;
        } else {
            // Short-lived regions lie at the other end, so that they leave no holes between lasting ones.
            let fit = if matches!(request.lifetime, Lifetime::Transient) {
                Fit::High
            } else {
                Fit::Low
            };
            let want = RangeRequest {
                size,
                asked: request.size,
                alignment,
                user_data: request.slot,
                fit,
                is_optimal: request.kind == ResourceKind::Optimal,
            };
            if !self.blocks.allocate(&want, space) {
                return Err(NoRoom(size));
            }
        }
        self.regions = self.regions.saturating_add(1);
        self.used_bytes = self.used_bytes.saturating_add(space.size);
        Ok(())
    }

    /// The region in a space that was just allocated.
    #[inline]
    pub(super) fn region(&self, space: &BlockSpace, slot: u32) -> Option<Suballocation> {
        let object = &self.blocks.block(space.block).ok()?.object;
        // A linear pool has one range.
        let (kind, block) = if self.config.algorithm.is_linear() {
            (PlaceKind::Linear, 0)
        } else {
            (PlaceKind::General, space.block)
        };
        Some(Suballocation {
            at: RegionPlace {
                block: BlockRef::new(kind, self.config.index, block),
                node: space.node,
                slot,
            },
            memory: object.memory,
            memory_size: object.size,
            offset: space.offset,
            size: space.asked,
            reserved: space.size,
            memory_type: self.config.memory_type,
            properties: self.config.properties,
            mapped: None,
        })
    }

    /// Frees a region. Returns its size, and whether a [`deferred_free`](PoolState::deferred_free) is left.
    #[inline]
    pub(super) fn free(&mut self, at: RegionPlace) -> Result<(u64, bool), GpuMisuse> {
        let (size, more) = match at.kind() {
            PlaceKind::General => {
                let (size, empty) = self.blocks.free(at)?;
                if empty {
                    self.emptied_block = Some(at.block());
                }
                (size, empty)
            }
            PlaceKind::Linear => self.free_linear(at)?,
            PlaceKind::Dedicated => {
                let (size, object) = self.dedicated.free(at)?;
                let more = object.is_some();
                self.emptied_object = object;
                (size, more)
            }
        };
        self.regions = self.regions.saturating_sub(1);
        self.used_bytes = self.used_bytes.saturating_sub(size);
        Ok((size, more || self.keeps_too_much()))
    }

    /// Whether there are more empty blocks than the pool keeps now that fewer regions live.
    #[inline]
    fn keeps_too_much(&self) -> bool {
        self.blocks.empty_bytes > self.growth.first()
            && !self.is_defragmenting
            && self.blocks.len() > self.config.min_blocks
            && self.blocks.empty_bytes > self.kept_bytes()
    }

    /// An empty block, if there are more of them than the pool keeps.
    pub(super) fn excess_block(&mut self) -> Option<u32> {
        let is_excess = self.blocks.empty_bytes > 0
            && !self.is_defragmenting
            && self.blocks.len() > self.config.min_blocks
            && self.blocks.empty_bytes > self.kept_bytes();
        is_excess.then(|| self.blocks.removable()).flatten()
    }

    /// Bytes of regions in shared blocks, at most: those of dedicated regions are left out as far as they exceed the blocks.
    fn shared_bytes(&self) -> u64 {
        self.used_bytes.min(self.blocks.bytes)
    }

    /// Bytes of empty blocks that the pool keeps.
    fn kept_bytes(&self) -> u64 {
        let default = || self.growth.kept(self.shared_bytes());
        let kept = self.config.keep_empty.unwrap_or_else(default);
        kept.max(self.reserved)
    }

    /// What [`free`](PoolState::free) has left to do. Must be taken before the lock is released.
    pub(super) fn deferred_free(&mut self) -> DeferredFree {
        let excess = self.keeps_too_much();
        let emptied = self.emptied_block.take();
        DeferredFree {
            emptied_block: match emptied {
                None if excess => self.blocks.removable(),
                _ => emptied,
            },
            object: self.emptied_object.take(),
            idle_nodes: self.blocks.detach_idle_nodes(),
        }
    }

    /// The region at a place.
    pub(super) fn locate(&self, at: RegionPlace) -> Result<Suballocation, GpuMisuse> {
        let (object, offset, size, reserved) = match at.kind() {
            PlaceKind::General => {
                let (live, found) = self.blocks.range(at)?;
                (&live.object, found.offset, found.asked, found.size)
            }
            PlaceKind::Linear => {
                let (block, found) = self.linear.find(at)?;
                let object = &self.blocks.block(block)?.object;
                (object, found.offset, found.asked, found.size)
            }
            PlaceKind::Dedicated => {
                let object = &self.dedicated.region(at)?.object;
                (object, 0, object.size, object.size)
            }
        };
        Ok(Suballocation {
            at,
            memory: object.memory,
            memory_size: object.size,
            offset,
            size,
            reserved,
            memory_type: self.config.memory_type,
            properties: self.config.properties,
            mapped: (object.map.base())
                .filter(|_| at.block.is_mapped())
                .map(|base| base.offset(offset)),
        })
    }

    /// The memory object of a live region, and the region's offset in it.
    pub(super) fn object_place(&self, at: RegionPlace) -> Result<(BlockRef, u64), GpuMisuse> {
        let offset = self.locate(at)?.offset;
        let object = match at.kind() {
            PlaceKind::Linear => {
                BlockRef::new(PlaceKind::General, at.pool(), self.linear.find(at)?.0)
            }
            _ => at.block,
        };
        Ok((object, offset))
    }

    /// The memory object at an [`object_place`](PoolState::object_place).
    pub(super) fn object_mut(&mut self, place: BlockRef) -> Result<&mut Object, GpuMisuse> {
        if place.kind() == PlaceKind::Dedicated {
            let region = self.dedicated.get_mut(place.block());
            return Ok(&mut region.ok_or(GpuMisuse::Stale)?.object);
        }
        Ok(&mut self.blocks.block_mut(place.block())?.object)
    }

    /// Removes the memory object at an [`object_place`](PoolState::object_place) whose region was freed, once it is idle.
    pub(super) fn detach_leftover(&mut self, place: BlockRef) -> Option<Object> {
        if place.kind() == PlaceKind::Dedicated {
            self.dedicated.detach_leftover(place.block())
        } else {
            None
        }
    }

    /// Removes an empty block, if there are more of them than the pool keeps, or in any case with `all`.
    pub(super) fn remove_empty_block(&mut self, block: Option<u32>, all: bool) -> Option<Object> {
        let kept = if all { 0 } else { self.kept_bytes() };
        if self.blocks.empty_bytes <= kept || self.blocks.len() <= self.config.min_blocks {
            return None;
        }
        let block = block.or_else(|| self.blocks.removable())?;
        let removed = self.blocks.remove(block)?;
        self.growth.shrink(self.blocks.bytes, self.shared_bytes());
        Some(removed)
    }

    /// Opens a destroyed pool again, with the configuration that it has now; the granule is the device's, so it is unchanged.
    pub(super) fn reopen(&mut self, growth: Growth) {
        self.growth = growth;
        // Their reserve of host memory depends on the algorithm.
        let (algorithm, granule) = (self.config.algorithm, self.config.granule());
        self.linear.ranges.open(algorithm, granule, 0, 0);
        self.is_open = true;
    }

    /// The driver has freed an object.
    pub(super) fn uncount_object(&mut self, size: u64) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}

impl Tables for PoolState {
    fn visit_tables(&mut self, visit: &mut dyn FnMut(&mut dyn GrowableTable)) {
        self.blocks.visit_tables(visit);
        visit(&mut self.dedicated);
        visit(&mut self.linear.ranges);
    }
}
