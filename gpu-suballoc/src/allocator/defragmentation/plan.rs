//! Excludes blocks with an obstacle from the plan of `pool/drain_plan.rs`, which chooses the blocks to drain, and reserves the places that
//! their regions move to.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::types::SkipReason;
use super::{Defragmentation, MoveOutcome, MovePlace, RegionMove};
use crate::device::{BufferUsage, DeviceMemory};
use crate::error::GpuError;
use crate::id::{RegionId, RegionPlace};
use crate::pool::{BlockSum, plan_drain};
use crate::region::RegionContent;
use crate::region_metadata::{MovingRoot, ResourceDescription};

/// Usage bits that are the same for buffers and images.
const TRANSFER: u32 = BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw();

/// A block to drain.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainedBlock {
    pub(super) pool: u16,
    pub(super) block: u32,
}

impl<D: DeviceMemory, A: HostAllocator> Defragmentation<'_, D, A> {
    /// Begins to defragment the pool, if its regions can move.
    pub(super) fn begin_pool(
        &mut self,
        index: u16,
        generation: Option<u32>,
    ) -> Result<(), GpuError> {
        let pools = &self.allocator.pools;
        if pools.begin_defragmentation(index, generation)?
            && let Some(word) = self.begun.get_mut(usize::from(index) / 64)
        {
            *word |= 1 << (index % 64);
        }
        Ok(())
    }

    /// Counts the regions of a pool that cannot move because of their place. Chooses the blocks to drain, if
    /// [`begin_pool`](Self::begin_pool) began to defragment the pool.
    pub(super) fn plan_pool(&mut self, index: u16) -> Result<(), GpuError> {
        let allocator = self.allocator;
        let fixed = allocator.pools.unmovable_regions(index);
        for (reason, regions) in [
            (SkipReason::Dedicated, fixed.dedicated),
            (SkipReason::Pinned, fixed.pinned),
            (SkipReason::Linear, fixed.linear),
            (SkipReason::Margin, fixed.margin),
        ] {
            self.skipped.add(reason, regions);
        }
        let word = self.begun.get(usize::from(index) / 64);
        if word.is_none_or(|word| word >> (index % 64) & 1 == 0) {
            return Ok(());
        }
        let mut sums = alloc_core::TryVec::new_in(*self.blocks.allocator());
        let max_blocks = loop {
            let (count, spare) = allocator.pools.block_counts(index);
            sums.clear();
            sums.try_reserve_exact(count)?;
            let mut fits = true;
            allocator.pools.each_block_sum(index, &mut |sum: BlockSum| {
                fits =
                    fits && sums.as_slice().len() < sums.capacity() && sums.try_push(sum).is_ok();
            });
            if fits {
                break spare;
            }
        };
        for _ in sums.as_slice().iter().filter(|sum| sum.is_pinned) {
            self.skipped.count(SkipReason::Mapped);
        }
        // A block with an unmovable region cannot be drained. Excludes it and plans again.
        loop {
            plan_drain(sums.as_mut_slice(), max_blocks);
            let mut is_final = true;
            for sum in sums.as_mut_slice().iter_mut().filter(|sum| sum.is_drained) {
                if let Some(reason) = self.find_obstacle(index, sum.block)? {
                    self.skipped.count(reason);
                    sum.is_pinned = true;
                    is_final = false;
                }
            }
            if is_final {
                break;
            }
        }
        allocator.pools.open_closed_blocks(index);
        let drained = || sums.as_slice().iter().filter(|sum| sum.is_drained);
        self.blocks.try_reserve(drained().count())?;
        for sum in drained() {
            let block = DrainedBlock {
                pool: index,
                block: sum.block,
            };
            if let Some(regions) =
                (allocator.pools).begin_drain(allocator.device_and_host(), index, sum.block)
                && self.blocks.try_push(block).is_ok()
            {
                self.expected_moves = self.expected_moves.saturating_add(regions);
                self.totals.planned_blocks = self.totals.planned_blocks.saturating_add(1);
                self.totals.planned_bytes = self.totals.planned_bytes.saturating_add(sum.size);
            }
        }
        Ok(())
    }

    /// The reason why the block cannot be drained: that of its first unmovable region.
    fn find_obstacle(&mut self, index: u16, block: u32) -> Result<Option<SkipReason>, GpuError> {
        if !self.collect(index, block)? {
            return Ok(Some(SkipReason::Mapped));
        }
        let regions = self.regions.as_slice().iter();
        Ok(regions
            .filter_map(|region| self.movable(*region).err())
            .next())
    }

    /// Collects the block's regions in `self.regions`. Returns false if the block is mapped.
    fn collect(&mut self, index: u16, block: u32) -> Result<bool, GpuError> {
        loop {
            let (regions, mut count) = (&mut self.regions, 0usize);
            regions.clear();
            let is_movable =
                (self.allocator.pools).each_block_region(index, block, &mut |region| {
                    count = count.saturating_add(1);
                    if count <= regions.capacity() {
                        let pushed = regions.try_push(region);
                        debug_assert!(pushed.is_ok(), "there is room");
                    }
                });
            if count <= regions.capacity() {
                return Ok(is_movable);
            }
            regions.clear();
            regions.try_reserve(count)?;
        }
    }

    /// Checks that a region may move.
    fn movable(&self, at: RegionPlace) -> Result<MovingRoot, SkipReason> {
        let allocator = self.allocator;
        let (root, maps) = allocator.records.movable(at).ok_or(SkipReason::Busy)?;
        if maps > 0 {
            return Err(SkipReason::Mapped);
        }
        if root.content != RegionContent::Bare {
            check_resource(root.content, root.description.as_ref())?;
        } else if !self.options.moves_bare {
            return Err(SkipReason::Bare);
        }
        let id = RegionId::new(allocator.tag, root.key);
        match self.options.may_move {
            Some(may_move) if !may_move(id, root.tag) => Err(SkipReason::Filter),
            _ => Ok(root),
        }
    }

    /// Reserves places for all regions of the block, or for none of them.
    pub(super) fn reserve_block(&mut self, order: usize, of: DrainedBlock) -> Result<(), GpuError> {
        let first = self.ready.as_slice().len();
        // Cancels them also if the filter unwinds.
        let mut block = ReservedBlock { run: self, first };
        let reserved = block.run.reserve_regions(order, of);
        if matches!(reserved, Ok(true)) {
            block.first = usize::MAX;
        }
        drop(block);
        reserved.map(|_| ())
    }

    fn reserve_regions(&mut self, order: usize, of: DrainedBlock) -> Result<bool, GpuError> {
        if !self.allocator.pools.is_draining(of.pool, of.block) {
            return Ok(false);
        }
        if !self.collect(of.pool, of.block)? {
            self.skipped.count(SkipReason::Mapped);
            return Ok(false);
        }
        let count = self.regions.as_slice().len();
        self.expected_moves = self.expected_moves.saturating_sub(count);
        self.ready.try_reserve(count)?;
        for at in 0..count {
            let Some(&region) = self.regions.as_slice().get(at) else {
                break;
            };
            let root = match self.movable(region) {
                Ok(root) => root,
                Err(reason) => {
                    self.skipped.count(reason);
                    return Ok(false);
                }
            };
            match self.reserve_region(order, region, root) {
                Ok(Some(reserved)) => {
                    if let Err(rejected) = self.ready.try_push(reserved) {
                        self.free_target(&rejected.value);
                        return Err(rejected.error.into());
                    }
                }
                Ok(None) => {
                    self.skipped.count(SkipReason::NoRoom);
                    return Ok(false);
                }
                // The region was freed meanwhile, so it is no obstacle.
                Err(GpuError::Misuse(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reserves a place for one region; `None` without room.
    fn reserve_region(
        &self,
        order: usize,
        place: RegionPlace,
        root: MovingRoot,
    ) -> Result<Option<RegionMove>, GpuError> {
        let allocator = self.allocator;
        let (found, target) = allocator
            .pools
            .prepare_move(allocator.device_and_host(), place)?;
        Ok(target.map(|target| RegionMove {
            region: RegionId::new(allocator.tag, root.key),
            tag: root.tag,
            size: found.size,
            from: MovePlace {
                memory: found.memory,
                offset: found.offset,
            },
            to: MovePlace {
                memory: target.memory,
                offset: target.offset,
            },
            memory_type: found.memory_type,
            content: root.content,
            old_resource: root.resource,
            new_resource: 0,
            asked: root.asked,
            place,
            target: target.at,
            target_size: target.size,
            outcome: MoveOutcome::Ignored,
            is_begun: false,
            ended: None,
            is_released: false,
            order: order as u32,
        }))
    }

    /// Removes the last ready move, and frees its reserved place.
    pub(super) fn cancel_last(&mut self) {
        if let Some(waiting) = self.ready.pop() {
            self.free_target(&waiting);
        }
    }

    /// Frees the reserved place of a move, or after the exchange the former place of the region.
    pub(super) fn free_target(&self, of: &RegionMove) {
        let allocator = self.allocator;
        allocator
            .pools
            .free_target(allocator.device_and_host(), of.target);
    }
}

/// The ready moves of a block from `first` on, cancelled when it is dropped.
struct ReservedBlock<'r, 'a, D: DeviceMemory, A: HostAllocator> {
    run: &'r mut Defragmentation<'a, D, A>,
    first: usize,
}

impl<D: DeviceMemory, A: HostAllocator> Drop for ReservedBlock<'_, '_, D, A> {
    fn drop(&mut self) {
        while self.run.ready.as_slice().len() > self.first {
            self.run.cancel_last();
        }
    }
}

/// # Errors
/// The reason why the resource cannot be moved.
fn check_resource(
    content: RegionContent,
    description: Option<&ResourceDescription>,
) -> Result<(), SkipReason> {
    let description = description.ok_or(SkipReason::Busy)?;
    if description.leaves_device() {
        return Err(SkipReason::External);
    }
    if description.usage & TRANSFER != TRANSFER {
        return Err(SkipReason::NoTransfer);
    }
    let address = BufferUsage::SHADER_DEVICE_ADDRESS.as_raw();
    if content == RegionContent::Buffer && description.usage & address != 0 {
        return Err(SkipReason::DeviceAddress);
    }
    Ok(())
}
