//! Places regions at given offsets of a custom pool: for restoring captures, and for plans of offsets.

#![forbid(unsafe_code)]

use super::Pools;
use super::blocks::{BlockListing, BlockSpace, Blocks, LiveBlock};
use super::device_and_host::DeviceAndHost;
use super::request::{AllocationRequest, Suballocation};
use super::state::PoolState;
use crate::error::{GpuError, GpuMisuse};
use crate::id::PlaceKind;
use crate::range::{Fit, NODES_PER_ALLOCATION, NodeShortage, RangeError, RangeRequest};

/// Why a range was not allocated at its offset.
enum PlaceMiss {
    /// Missing memory for nodes.
    Records(NodeShortage),
    Misuse(GpuMisuse),
}

impl From<GpuMisuse> for PlaceMiss {
    fn from(rule: GpuMisuse) -> Self {
        Self::Misuse(rule)
    }
}

impl Pools {
    /// Places a region at `offset` of an existing block. Does not call the driver.
    ///
    /// # Errors
    /// What is wrong with the request, the pool or the place; what the host allocator refused.
    pub(crate) fn place_at(
        &self,
        device_and_host: DeviceAndHost<'_>,
        request: &AllocationRequest,
        block: u32,
        offset: u64,
    ) -> Result<Suballocation, GpuError> {
        request.check()?;
        let id = request.pool.ok_or(GpuMisuse::NoSuchPool)?;
        let (pool, config, _) = self.custom_for(request, id)?;
        if request.must_be_dedicated() {
            return Err(GpuMisuse::BadOptions.into());
        }
        if config.algorithm.is_linear() {
            return Err(GpuMisuse::PlacesItself.into());
        }
        loop {
            let mut state = pool.lock();
            if !state.is_named(id.generation) {
                return Err(GpuMisuse::NoSuchPool.into());
            }
            let shortage = match state.place_at(request, block, offset) {
                Ok(placed) => return Ok(placed),
                Err(PlaceMiss::Misuse(rule)) => return Err(rule.into()),
                Err(PlaceMiss::Records(shortage)) => shortage,
            };
            drop(state);
            device_and_host.grow(shortage.layout(), |memory| {
                pool.lock().blocks.store.grow_with(shortage, memory)
            })?;
        }
    }
}

impl PoolState {
    fn place_at(
        &mut self,
        request: &AllocationRequest,
        block: u32,
        offset: u64,
    ) -> Result<Suballocation, PlaceMiss> {
        let (size, alignment) = self.config.padded(request);
        let want = RangeRequest {
            size,
            alignment,
            user_data: request.slot,
            fit: Fit::Low,
        };
        let mut space = BlockSpace::NOWHERE;
        self.blocks.allocate_at(block, offset, &want, &mut space)?;
        space.kind = PlaceKind::General;
        space.block = block;
        self.regions = self.regions.saturating_add(1);
        self.used_bytes = self.used_bytes.saturating_add(space.size);
        Ok(self
            .region(&space, request.slot)
            .ok_or(GpuMisuse::NoSuchPlace)?)
    }
}

impl Blocks {
    /// Allocates a range that begins at `offset` of a block. Visits each range and hole before it.
    fn allocate_at(
        &mut self,
        block: u32,
        offset: u64,
        want: &RangeRequest,
        space: &mut BlockSpace,
    ) -> Result<(), PlaceMiss> {
        if let Some(shortage) = self.store.missing_capacity(NODES_PER_ALLOCATION) {
            return Err(PlaceMiss::Records(shortage));
        }
        let live = self.block(block).map_err(|_| GpuMisuse::NoSuchPlace)?;
        let end = offset.checked_add(want.size);
        if end.is_none_or(|end| end > live.core.size()) {
            return Err(GpuMisuse::NoSuchPlace.into());
        }
        if live.listing == BlockListing::Draining {
            return Err(GpuMisuse::Defragmenting.into());
        }
        // An allocation opens a closed block: its free bytes count from now on.
        if live.listing == BlockListing::Closed && !self.list_as(block, BlockListing::Open) {
            return Err(GpuMisuse::NoSuchPlace.into());
        }
        self.begin_blank(block);
        let Some(LiveBlock { object, core, .. }) = self
            .slots
            .get_mut(block)
            .and_then(|slot| slot.live.as_mut())
        else {
            return Err(GpuMisuse::NoSuchPlace.into());
        };
        let was_empty = core.is_empty();
        let range = core
            .allocate_at(&self.store, &self.open, offset, want)
            .map_err(|refusal| match refusal {
                RangeError::Full | RangeError::NoNodes => GpuMisuse::PlaceTaken,
                RangeError::Alignment => GpuMisuse::PlaceMisaligned,
                RangeError::ZeroSize => GpuMisuse::ZeroSize,
                _ => GpuMisuse::NoSuchPlace,
            })?;
        if was_empty {
            self.empty_bytes = self.empty_bytes.saturating_sub(object.size);
        }
        space.containing_block = block;
        space.node = range.node;
        space.offset = range.offset;
        space.size = range.size;
        if self.turnover.note_allocation(range.size) {
            self.end_turnover();
        }
        Ok(())
    }
}
