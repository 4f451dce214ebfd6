use super::{Defragmentation, MoveOutcome, MoveResult, RegionMove};
use crate::device::{
    BufferHandle, DeviceError, DeviceMemory, ImageHandle, ImageInfo, ResourceHandle, ResourceRequirements,
};
use crate::error::{GpuError, GpuMisuse};
use crate::flags::debug_fields;
use crate::id::RegionPlace;
use crate::pool::MOVE_TARGET;
use alloc_core::HostAllocator;

type MoveSink<'s> = &'s mut dyn FnMut(&RegionMove, MoveResult);

/// Regions to copy; after the copies, call [`finish`](Self::finish). Dropping the pass instead leaves every region at
/// its place, destroys the second resources and frees the reserved places: the device must have finished with them
/// then, too. After `core::mem::forget` the next pass or the end of the [`Defragmentation`] does so.
#[doc(alias("VmaDefragmentationPassMoveInfo"))]
#[must_use = "dropping it leaves every region where it is"]
pub struct DefragmentationPass<'p, 'a, D: DeviceMemory, A: HostAllocator> {
    pub(super) run: &'p mut Defragmentation<'a, D, A>,
}

impl<'a, D: DeviceMemory, A: HostAllocator> Defragmentation<'a, D, A> {
    /// The next regions to move, with reserved places; empty when everything is done.
    ///
    /// # Errors
    /// The host allocator's error, if the pass has no move yet. Such an error excludes its block, which
    /// [`skipped`](Self::skipped) does not count; the next call continues with the others.
    #[doc(alias("vmaBeginDefragmentationPass"))]
    pub fn next_pass(&mut self) -> Result<DefragmentationPass<'_, 'a, D, A>, GpuError> {
        // Ends a pass that was forgotten.
        self.end_pass(None);
        let mut bytes = 0u64;
        while self.current.as_slice().len() < self.options.max_moves_per_pass.max(1) {
            let is_first = self.current.as_slice().is_empty();
            let Some(next) = self.ready.as_slice().last() else {
                if self.reserve_next()? {
                    continue;
                }
                break;
            };
            bytes += next.from.reserved;
            if !is_first && bytes > self.options.max_bytes_per_pass {
                break;
            }
            if let Err(error) = self.current.try_reserve(1) {
                if is_first {
                    return Err(error.into());
                }
                break;
            }
            self.hand_out();
        }
        if self.current.as_slice().is_empty() {
            self.end_drained();
        }
        Ok(DefragmentationPass { run: self })
    }

    /// It skips a region that was freed, mapped or cropped meanwhile.
    fn hand_out(&mut self) {
        let Some(one) = self.ready.pop() else { return };
        if self.allocator.records.begin_move(one.region.key()) {
            let pushed = self.current.try_push(one);
            debug_assert!(pushed.is_ok(), "reserved");
        } else {
            self.allocator.pools().free_target(one.to.at);
        }
    }

    fn reserve_next(&mut self) -> Result<bool, GpuError> {
        let order = self.looked_at;
        let Some(&block) = self.blocks.as_slice().get(order) else {
            return Ok(false);
        };
        self.looked_at = order.saturating_add(1);
        let reserved = self.reserve_block(order, block);
        if self.current.as_slice().is_empty() {
            reserved?;
        }
        Ok(true)
    }

    pub(super) fn end_pass(&mut self, mut visit: Option<MoveSink<'_>>) {
        let mut any = false;
        self.current.as_mut_slice().reverse();
        // Removed first, so that a callback never sees the move that ends.
        while let Some(one) = self.current.pop() {
            any = true;
            let result = self.end_move(&one, visit.is_some());
            if let Some(visit) = &mut visit {
                visit(&one, result);
            }
        }
        if any {
            self.totals.passes += u32::from(visit.is_some());
            self.end_drained();
        }
    }

    pub(super) fn end_drained(&mut self) {
        let end = self.ready.as_slice().last().map_or(self.looked_at, |next| next.order);
        while self.done < end {
            if let Some(&block) = self.blocks.as_slice().get(self.done) {
                let allocator = self.allocator;
                let freed = allocator.pools().end_drain(block);
                self.totals.freed_blocks += u32::from(freed > 0);
                self.totals.freed_bytes += freed;
            }
            self.done += 1;
        }
    }

    fn end_move(&mut self, one: &RegionMove, is_seen: bool) -> MoveResult {
        let allocator = self.allocator;
        let key = one.region.key();
        let (from, to) = (one.from.at, one.to.at);
        let second = (to, one.new_resource);
        let (result, left) =
            (allocator.records).end_move(key, one.ending(is_seen), second, || allocator.pools().move_region(from, to));
        allocator.destroy_resource(left);
        if result == MoveResult::Moved {
            self.totals.moves += 1;
            self.totals.moved_bytes += one.from.reserved;
            allocator.pools().free_target(RegionPlace { slot: MOVE_TARGET, ..from });
            return result;
        }
        if result != MoveResult::Stayed
            && let Some(root) = allocator.records.removed_by_move(key)
        {
            allocator.destroy_removed_root(root);
        }
        allocator.pools().free_target(to);
        result
    }
}

impl RegionMove {
    fn ending(&self, is_seen: bool) -> MoveOutcome {
        // Without a second resource the region would lose its resource.
        let has_new = self.root.view.resource.is_none() || self.new_resource.is_some();
        match self.outcome {
            MoveOutcome::Copied if !has_new => MoveOutcome::Ignored,
            outcome if is_seen => outcome,
            _ => MoveOutcome::Ignored,
        }
    }
}

impl<D: DeviceMemory, A: HostAllocator> DefragmentationPass<'_, '_, D, A> {
    /// The moves. Neither the sources nor the targets of two moves overlap.
    #[must_use]
    pub fn moves(&self) -> &[RegionMove] {
        self.run.current.as_slice()
    }

    /// Whether nothing is left to move.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moves().is_empty()
    }

    /// Sets the outcome of a move; the default is [`MoveOutcome::Ignored`].
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`] if there is no such move.
    pub fn set_outcome(&mut self, index: usize, outcome: MoveOutcome) -> Result<(), GpuMisuse> {
        self.get_mut(index)?.outcome = outcome;
        Ok(())
    }

    /// Sets the outcome of all moves.
    pub fn set_outcomes(&mut self, outcome: MoveOutcome) {
        for one in self.run.current.as_mut_slice() {
            one.outcome = outcome;
        }
    }

    pub(super) fn get(&self, index: usize) -> Result<&RegionMove, GpuMisuse> {
        self.moves().get(index).ok_or(GpuMisuse::Outside)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Result<&mut RegionMove, GpuMisuse> {
        self.run.current.as_mut_slice().get_mut(index).ok_or(GpuMisuse::Outside)
    }

    /// Creates a buffer like the region's buffer, bound at the new place.
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`] if there is no such move, [`GpuMisuse::NoBuffer`], [`GpuMisuse::Held`] if the second
    /// buffer exists already, [`GpuMisuse::WrongPlace`] if the new place does not meet the buffer's requirements; the
    /// driver's error.
    pub fn make_buffer(&mut self, index: usize) -> Result<BufferHandle, GpuError> {
        let one = *self.get(index)?;
        let info = (one.old_buffer().and(one.root.description))
            .map(|description| description.buffer_info(one.root.view.asked))
            .ok_or(GpuMisuse::NoBuffer)?;
        let device = self.run.allocator.device();
        self.make(index, &one, || {
            // SAFETY: `info` describes the region's own buffer, so it is valid (`GpuAllocator::new`).
            unsafe { device.create_buffer(&info) }.map(ResourceHandle::Buffer)
        })?;
        Ok(self.get(index)?.new_buffer().ok_or(GpuMisuse::NoBuffer)?)
    }

    /// Creates an image, bound at the new place, from `info` of the region's image. Another info is detected only by
    /// usage, flags, sharing, tiling and what the driver requires. Layouts, views and descriptors are the user's
    /// responsibility.
    ///
    /// # Errors
    /// As [`make_buffer`](Self::make_buffer), but [`GpuMisuse::NoImage`]; [`GpuMisuse::WrongPlace`] also if `info` is
    /// another one.
    pub fn make_image(&mut self, index: usize, info: &ImageInfo) -> Result<ImageHandle, GpuError> {
        let one = *self.get(index)?;
        if one.old_image().is_none() {
            return Err(GpuMisuse::NoImage.into());
        }
        if !one.root.description.is_some_and(|description| description.is_like_image(info)) {
            return Err(GpuMisuse::WrongPlace.into());
        }
        let device = self.run.allocator.device();
        self.make(index, &one, || {
            // SAFETY: the info is valid (`GpuAllocator::new`).
            unsafe { device.create_image(info) }.map(ResourceHandle::Image)
        })?;
        Ok(self.get(index)?.new_image().ok_or(GpuMisuse::NoImage)?)
    }

    fn make(
        &mut self,
        index: usize,
        one: &RegionMove,
        make: impl FnOnce() -> Result<ResourceHandle, DeviceError>,
    ) -> Result<(), GpuError> {
        if one.new_resource.is_some() {
            return Err(GpuMisuse::Held.into());
        }
        let allocator = self.run.allocator;
        let made = make()?;
        let needs = allocator.requirements(made);
        // Equal infos have equal requirements.
        let is_alike = match made {
            ResourceHandle::Image(_) => {
                (one.root.view.resource).is_some_and(|old| is_alike(&allocator.requirements(old), &needs))
            }
            ResourceHandle::Buffer(_) => true,
        };
        let fits = is_alike
            && needs.size <= one.to.size
            && one.to.offset.is_multiple_of(needs.alignment.max(1))
            && needs.memory_type_bits >> (one.from.memory_type & 31) & 1 == 1
            && !needs.requires_dedicated;
        let bound = if fits {
            allocator.bind(made, one.to.memory, one.to.offset).map_err(GpuError::Device)
        } else {
            Err(GpuMisuse::WrongPlace.into())
        };
        if let Err(error) = bound {
            allocator.destroy_resource(Some(made));
            return Err(error);
        }
        self.get_mut(index)?.new_resource = Some(made);
        Ok(())
    }

    /// Ends the pass. A copied region is then at its new place, with the same id and the second resource; its old
    /// resource is destroyed and its old place freed. Calls `visit` with each move and its result, without a lock. The
    /// device must have finished the copies and any use of the old resources.
    #[doc(alias("vmaEndDefragmentationPass"))]
    pub fn finish(self, mut visit: impl FnMut(&RegionMove, MoveResult)) {
        self.run.end_pass(Some(&mut visit));
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for DefragmentationPass<'_, '_, D, A> {
    fn drop(&mut self) {
        self.run.end_pass(None);
    }
}

debug_fields!(
    [D: DeviceMemory, A: HostAllocator] DefragmentationPass<'_, '_, D, A>, "DefragmentationPass",
    |this| moves = this.moves()
);

fn is_alike(one: &ResourceRequirements, other: &ResourceRequirements) -> bool {
    let needs = |of: &ResourceRequirements| (of.size, of.alignment, of.memory_type_bits, of.requires_dedicated);
    needs(one) == needs(other)
}
