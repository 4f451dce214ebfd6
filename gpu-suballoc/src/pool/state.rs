//! The state of a pool, under its lock. It makes no callback: it reports missing memory, and the caller supplies it without the lock.

#![forbid(unsafe_code)]

use super::blocks::{BlockMiss, BlockSpace, Blocks};
use super::config::PoolConfig;
use super::dedicated::DedicatedBlocks;
use super::growth::Growth;
use super::linear::{LinearRegions, PoolShortage};
use super::object::Object;
use super::request::{AllocationRequest, Suballocation, is_internal_range};
use crate::error::GpuMisuse;
use crate::host_block::HostBlock;
use crate::id::{NO_RECORD, RegionPlace, RegionPlaceKind, RegionSlot};
use crate::range::Fit;
use crate::request::Lifetime;

/// How many regions are freed in one step.
const RUN: usize = 64;

/// The state that a pool's lock guards.
pub(super) struct PoolState {
    pub(super) config: PoolConfig,
    pub(super) growth: Growth,
    pub(super) blocks: Blocks,
    pub(super) dedicated: DedicatedBlocks,
    pub(super) linear: LinearRegions,
    /// Memory objects and their bytes: live, in creation, and not yet freed by the driver.
    pub(super) objects: u32,
    pub(super) bytes: u64,
    /// Shared blocks in creation, and the room that the largest of them will have: a request that it can serve waits for it.
    pub(super) blocks_in_creation: u32,
    pub(super) room_in_creation: u64,
    /// Shared blocks created so far.
    pub(super) blocks_created: u64,
    /// Live regions and their bytes.
    pub(super) regions: u64,
    pub(super) used_bytes: u64,
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
#[derive(Debug, Default)]
pub(super) struct DeferredFree {
    /// A block that became empty.
    pub(super) emptied_block: Option<u32>,
    /// A dedicated memory object without its region.
    pub(super) object: Option<Object>,
    /// Host memory that the node store does not need any more.
    pub(super) spare_memory: Option<HostBlock>,
}

impl PoolState {
    pub(super) const fn new(config: PoolConfig, growth: Growth) -> Self {
        Self {
            config,
            growth,
            blocks: Blocks::new(config.granule_log2),
            dedicated: DedicatedBlocks::new(),
            linear: LinearRegions::new(&config),
            objects: 0,
            bytes: 0,
            blocks_in_creation: 0,
            room_in_creation: 0,
            blocks_created: 0,
            regions: 0,
            used_bytes: 0,
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
    ) -> Result<(), PoolShortage> {
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
            self.blocks
                .allocate(size, alignment, request.user_data, fit, space)
                .map_err(|miss| match miss {
                    BlockMiss::Records(shortage) => PoolShortage::Records(shortage),
                    BlockMiss::Full => PoolShortage::Block(size),
                })?;
            space.kind = RegionPlaceKind::General;
            space.block = space.containing_block;
        }
        self.regions = self.regions.saturating_add(1);
        self.used_bytes = self.used_bytes.saturating_add(space.size);
        Ok(())
    }

    /// The region in a space that was just allocated.
    #[inline]
    pub(super) fn region(&self, space: &BlockSpace) -> Option<Suballocation> {
        let memory = self
            .blocks
            .block(space.containing_block)
            .ok()?
            .object
            .memory;
        Some(Suballocation {
            at: self.region_slot(space.kind, space.block, space.slot, space.generation),
            memory,
            offset: space.offset,
            size: space.size.saturating_sub(self.config.margin),
            memory_type: self.config.memory_type,
            properties: self.config.properties,
        })
    }

    #[inline]
    pub(super) fn region_slot(
        &self,
        kind: RegionPlaceKind,
        block: u32,
        slot: u32,
        generation: u32,
    ) -> RegionSlot {
        RegionSlot {
            place: RegionPlace::new(kind, self.config.index, block),
            slot,
            generation,
        }
    }

    /// Frees a region that has `user_data`. Returns its size, and whether a [`deferred_free`](PoolState::deferred_free) is left.
    #[inline]
    pub(super) fn free(
        &mut self,
        at: RegionSlot,
        user_data: u32,
    ) -> Result<(u64, bool), GpuMisuse> {
        let (block, generation) = (at.place.block(), at.generation);
        let (size, more) = match at.kind() {
            RegionPlaceKind::General => {
                let (block, size, empty) = self
                    .blocks
                    .free_moved(block, at.slot, generation, user_data)?;
                if empty {
                    self.emptied_block = Some(block);
                }
                (size, empty || self.blocks.spare_memory.is_some())
            }
            RegionPlaceKind::Linear if block == 0 => self.free_linear(at, user_data)?,
            RegionPlaceKind::Dedicated if at.slot == 0 => {
                let (size, object) = self.dedicated.remove(block, generation, user_data)?;
                let more = object.is_some();
                self.emptied_object = object;
                (size, more)
            }
            _ => return Err(GpuMisuse::Stale),
        };
        self.regions = self.regions.saturating_sub(1);
        self.used_bytes = self.used_bytes.saturating_sub(size);
        Ok((size, more))
    }

    /// Frees the first few of `regions` in one step, if they are ranges of one block and none of them has a record. Returns how many, and
    /// whether a [`deferred_free`](PoolState::deferred_free) is left. 0 if the caller has to free them one by one, which also finds the invalid one.
    pub(super) fn free_run(&mut self, regions: &[RegionSlot]) -> (usize, bool) {
        let Some(first) = regions
            .first()
            .filter(|first| first.kind() == RegionPlaceKind::General)
        else {
            return (0, false);
        };
        let mut run = [(0u32, 0u32); RUN];
        let mut count = 0usize;
        for (place, at) in run
            .iter_mut()
            .zip(regions.iter().take_while(|at| at.place == first.place))
        {
            *place = (at.slot, at.generation);
            count += 1;
        }
        let freed = run
            .get(..count)
            .filter(|run| run.len() > 1)
            .and_then(|run| self.blocks.free_run(first.place.block(), run, NO_RECORD));
        let Some((bytes, empty)) = freed else {
            return (0, false);
        };
        if empty {
            self.emptied_block = Some(first.place.block());
        }
        self.regions = self.regions.saturating_sub(count as u64);
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
        (count, empty || self.blocks.spare_memory.is_some())
    }

    /// What [`free`](PoolState::free) has left to do. Must be taken before the lock is released.
    pub(super) fn deferred_free(&mut self) -> DeferredFree {
        DeferredFree {
            emptied_block: self.emptied_block.take(),
            object: self.emptied_object.take(),
            spare_memory: self.blocks.spare_memory.take(),
        }
    }

    /// The memory object of a live region, its offset there, its size and its user data.
    pub(super) fn find(&self, at: RegionSlot) -> Result<(&Object, u64, u64, u32), GpuMisuse> {
        let block = at.place.block();
        match at.kind() {
            RegionPlaceKind::General => {
                let (live, found) = self.blocks.range(block, at.slot, at.generation)?;
                if is_internal_range(found.user_data) {
                    return Err(GpuMisuse::Stale);
                }
                let size = found.size.saturating_sub(self.config.margin);
                Ok((&live.object, found.offset, size, found.user_data))
            }
            RegionPlaceKind::Linear if block == 0 => {
                let (place, found) = self.linear.find(at.slot, at.generation)?;
                Ok((
                    &self.blocks.block(place)?.object,
                    found.offset,
                    found.size.saturating_sub(self.config.margin),
                    found.user_data,
                ))
            }
            RegionPlaceKind::Dedicated if at.slot == 0 => {
                let found = self.dedicated.get(block, at.generation)?;
                Ok((&found.object, 0, found.object.size, found.user_data))
            }
            _ => Err(GpuMisuse::Stale),
        }
    }

    /// As [`find`](PoolState::find): the region, and its record's number.
    pub(super) fn locate(&self, at: RegionSlot) -> Result<(Suballocation, u32), GpuMisuse> {
        let (object, offset, size, record) = self.find(at)?;
        let region = Suballocation {
            at,
            memory: object.memory,
            offset,
            size,
            memory_type: self.config.memory_type,
            properties: self.config.properties,
        };
        Ok((region, record))
    }

    /// The place of a live region's memory object, and the region's offset in it.
    pub(super) fn object_place(&self, at: RegionSlot) -> Result<(RegionPlace, u64), GpuMisuse> {
        let (_, offset, _, _) = self.find(at)?;
        let place = match at.kind() {
            RegionPlaceKind::Linear => self.linear.find(at.slot, at.generation)?.0,
            RegionPlaceKind::General => {
                let block = at.place.block();
                self.blocks.block_of(block, at.slot, at.generation)
            }
            _ => at.place.block(),
        };
        let kind = if at.kind() == RegionPlaceKind::Dedicated {
            RegionPlaceKind::Dedicated
        } else {
            RegionPlaceKind::General
        };
        Ok((RegionPlace::new(kind, at.place.pool(), place), offset))
    }

    /// The memory object at an [`object_place`](PoolState::object_place).
    pub(super) fn object_mut(&mut self, place: RegionPlace) -> Result<&mut Object, GpuMisuse> {
        if place.kind() == RegionPlaceKind::Dedicated {
            return self.dedicated.object_mut(place.block());
        }
        Ok(&mut self.blocks.block_mut(place.block())?.object)
    }

    /// Removes the memory object at an [`object_place`](PoolState::object_place) whose region was freed, once it is idle.
    pub(super) fn detach_leftover(&mut self, place: RegionPlace) -> Option<Object> {
        if place.kind() == RegionPlaceKind::Dedicated {
            self.dedicated.detach_leftover(place.block())
        } else {
            None
        }
    }

    /// Replaces the user data `from`. Returns the previous user data.
    pub(super) fn set_user_data(
        &mut self,
        at: RegionSlot,
        from: u32,
        to: u32,
    ) -> Result<u32, GpuMisuse> {
        let (_, _, _, user_data) = self.find(at)?;
        if user_data == from {
            match at.kind() {
                RegionPlaceKind::Dedicated => {
                    self.dedicated
                        .get_mut(at.place.block(), at.generation)?
                        .user_data = to
                }
                RegionPlaceKind::Linear => self.linear.set_user_data(at.slot, at.generation, to)?,
                _ => self
                    .blocks
                    .set_user_data(at.place.block(), at.slot, at.generation, to)?,
            }
        }
        Ok(user_data)
    }

    /// Removes an empty block, if there are more of them than the pool keeps, or in any case with `all`.
    pub(super) fn remove_empty_block(&mut self, block: Option<u32>, all: bool) -> Option<Object> {
        let kept = if all { 0 } else { self.config.keep_empty };
        if self.blocks.empty_bytes <= kept || self.blocks.len() <= self.config.min_blocks {
            return None;
        }
        let block = block.or_else(|| self.blocks.removable())?;
        let removed = self.blocks.remove(block)?;
        self.growth.follow(self.blocks.bytes);
        Some(removed)
    }

    /// Opens a destroyed pool again, with the configuration that it has now; the granule is the device's, so it is unchanged.
    pub(super) fn reopen(&mut self, growth: Growth) {
        self.growth = growth;
        self.is_open = true;
    }

    /// The driver has freed an object.
    pub(super) fn uncount_object(&mut self, size: u64) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}
