#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::{Defragmentation, MoveList, MoveOutcome, RegionMove};
use crate::device::{BufferUsage, DeviceMemory, ResourceHandle};
use crate::error::GpuError;
use crate::id::{BlockRef, RangePlacement, RegionId, RegionPlace};
use crate::pool::defragment::{SkipReason, plan_drain};
use crate::region_metadata::{MovingRoot, ResourceDescription};

/// These bits are the same for buffers and images.
const TRANSFER: u32 = BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw();

const BUSY: SkipReason = |to| &mut to.busy;

impl<D: DeviceMemory, A: HostAllocator> Defragmentation<'_, D, A> {
    pub(super) fn begin_pool(&mut self, index: u16, generation: Option<u32>) -> Result<(), GpuError> {
        if (self.allocator.pools()).begin_defragmentation(index, generation)?
            && let Some(begun) = self.begun.get_mut(usize::from(index))
        {
            *begun = true;
        }
        Ok(())
    }

    pub(super) fn plan_pool(&mut self, index: u16) -> Result<(), GpuError> {
        let allocator = self.allocator;
        (allocator.pools()).count_unmovable(index, &mut self.skipped);
        if self.begun.get(usize::from(index)) != Some(&true) {
            return Ok(());
        }
        let mut sums = alloc_core::TryVec::new_in(*self.blocks.allocator());
        let (blocks, max_blocks) = allocator.pools().block_counts(index);
        sums.try_reserve_exact(blocks)?;
        collect(&mut sums, |push| allocator.pools().each_block_sum(index, push))?;
        let block_at = |block| BlockRef::new(RangePlacement::General, index, block);
        let mapped = sums.as_slice().iter().filter(|sum| sum.is_pinned).count();
        self.skipped.add(|to| &mut to.mapped, mapped as u64);
        loop {
            plan_drain(sums.as_mut_slice(), max_blocks);
            let mut is_final = true;
            for sum in sums.as_mut_slice().iter_mut().filter(|sum| sum.is_drained) {
                if let Some(reason) = self.find_obstacle(block_at(sum.block))? {
                    self.skipped.add(reason, 1);
                    sum.is_pinned = true;
                    is_final = false;
                }
            }
            if is_final {
                break;
            }
        }
        let drained = || sums.as_slice().iter().filter(|sum| sum.is_drained);
        self.blocks.try_reserve(drained().count())?;
        for sum in drained() {
            let block = block_at(sum.block);
            if allocator.pools().begin_drain(block) && self.blocks.try_push(block).is_ok() {
                self.totals.planned_blocks += 1;
                self.totals.planned_bytes += sum.size;
            }
        }
        Ok(())
    }

    fn find_obstacle(&mut self, block: BlockRef) -> Result<Option<SkipReason>, GpuError> {
        if !self.collect_regions(block)? {
            return Ok(Some(|to| &mut to.mapped));
        }
        let regions = self.regions.as_slice().iter();
        Ok(regions.filter_map(|region| self.movable(*region).err()).next())
    }

    fn collect_regions(&mut self, block: BlockRef) -> Result<bool, GpuError> {
        let pools = self.allocator.pools();
        collect(&mut self.regions, |push| pools.each_block_region(block, push))
    }

    fn movable(&self, at: RegionPlace) -> Result<MovingRoot, SkipReason> {
        let allocator = self.allocator;
        let (root, maps) = allocator.records.movable(at).ok_or(BUSY)?;
        if maps > 0 {
            return Err(|to| &mut to.mapped);
        }
        match root.view.resource {
            Some(resource) => check_resource(resource, root.description.as_ref())?,
            None if !self.options.move_bare_regions => return Err(|to| &mut to.bare),
            None => {}
        }
        let id = RegionId::new(allocator.tag, root.key);
        match self.options.filter {
            Some(may_move) if !may_move(id, root.tag) => Err(|to| &mut to.filter),
            _ => Ok(root),
        }
    }

    /// It reserves all of them or none.
    pub(super) fn reserve_block(&mut self, order: usize, of: BlockRef) -> Result<(), GpuError> {
        let first = self.ready.as_slice().len();
        let reserved = self.reserve_regions(order, of);
        // If the filter unwinds, those before it may move, and the others stay.
        if !matches!(reserved, Ok(true)) {
            while self.ready.as_slice().len() > first {
                self.cancel_last();
            }
        }
        reserved.map(|_| ())
    }

    fn reserve_regions(&mut self, order: usize, of: BlockRef) -> Result<bool, GpuError> {
        if !self.allocator.pools().is_draining(of) {
            return Ok(false);
        }
        if !self.collect_regions(of)? {
            self.skipped.add(|to| &mut to.mapped, 1);
            return Ok(false);
        }
        let count = self.regions.as_slice().len();
        self.ready.try_reserve(count)?;
        for at in 0..count {
            let Some(&region) = self.regions.as_slice().get(at) else {
                break;
            };
            let root = match self.movable(region) {
                Ok(root) => root,
                Err(reason) => {
                    self.skipped.add(reason, 1);
                    return Ok(false);
                }
            };
            match self.reserve_region(order, region, root) {
                Ok(Some(reserved)) => {
                    if let Err(rejected) = self.ready.try_push(reserved) {
                        self.allocator.pools().free_target(rejected.value.to.at);
                        return Err(rejected.error.into());
                    }
                }
                Ok(None) => {
                    self.skipped.add(|to| &mut to.no_room, 1);
                    return Ok(false);
                }
                // The region was freed meanwhile, so it is no obstacle.
                Err(GpuError::Misuse(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn reserve_region(
        &self,
        order: usize,
        place: RegionPlace,
        root: MovingRoot,
    ) -> Result<Option<RegionMove>, GpuError> {
        let allocator = self.allocator;
        let (from, target) = allocator.pools().prepare_move(place)?;
        Ok(target.map(|to| RegionMove {
            region: RegionId::new(allocator.tag, root.key),
            root,
            from,
            to,
            new_resource: None,
            outcome: MoveOutcome::Ignored,
            order,
        }))
    }

    pub(super) fn cancel_last(&mut self) {
        if let Some(waiting) = self.ready.pop() {
            self.allocator.pools().free_target(waiting.to.at);
        }
    }
}

/// `visit` runs under a lock, so memory is allocated between its runs.
fn collect<T, R, A: HostAllocator>(
    list: &mut MoveList<'_, T, A>,
    visit: impl Fn(&mut dyn FnMut(T)) -> R,
) -> Result<R, GpuError> {
    loop {
        let mut count = 0usize;
        list.clear();
        let result = visit(&mut |item| {
            count += 1;
            if count <= list.capacity() {
                let pushed = list.try_push(item);
                debug_assert!(pushed.is_ok(), "there is room");
            }
        });
        if count <= list.capacity() {
            return Ok(result);
        }
        list.clear();
        list.try_reserve(count)?;
    }
}

fn check_resource(resource: ResourceHandle, description: Option<&ResourceDescription>) -> Result<(), SkipReason> {
    let description = description.ok_or(BUSY)?;
    if description.leaves_device() {
        return Err(|to| &mut to.external);
    }
    if description.usage & TRANSFER != TRANSFER {
        return Err(|to| &mut to.no_transfer);
    }
    let address = BufferUsage::SHADER_DEVICE_ADDRESS.as_raw();
    if matches!(resource, ResourceHandle::Buffer(_)) && description.usage & address != 0 {
        return Err(|to| &mut to.device_address);
    }
    Ok(())
}
