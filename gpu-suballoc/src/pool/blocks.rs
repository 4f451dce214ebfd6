#![forbid(unsafe_code)]

use super::turnover::Turnover;
use crate::device::MemoryHandle;
use crate::error::GpuMisuse;
use crate::growable_vec::Slots;
use crate::host_memory::GrowableTable;
use crate::id::{BlockRef, RegionPlace};
use crate::map_count::MapCount;
use crate::range::{
    FreeIndex, FreeRange, GranuleRequest, LiveRange, NODES_PER_ALLOCATION, NODES_PER_BLOCK, NodeStore, RangeAllocator,
    RangeRequest, VirtualBlockError, VirtualRange,
};

pub(super) struct Blocks {
    pub(super) slots: Slots<LiveBlock>,
    pub(super) open: FreeIndex,
    /// They drain or were made ahead: nothing is allocated there while open blocks have room.
    pub(super) closed: FreeIndex,
    /// A defragmentation empties them: nothing is allocated there, so this has no memory and keeps no list.
    pub(super) draining: FreeIndex,
    pub(super) store: NodeStore,
    cursor: u32,
    pub(super) turnover: Turnover,
    granule_log2: u32,
    pub(super) bytes: u64,
    pub(super) empty_bytes: u64,
}

pub(super) struct LiveBlock {
    pub(super) object: Object,
    pub(super) core: RangeAllocator,
    pub(super) listing: BlockListing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockListing {
    Open,
    Closed,
    Draining,
}

impl LiveBlock {
    #[inline]
    fn empty_bytes(&self) -> u64 {
        if self.core.is_empty() { self.object.size } else { 0 }
    }

    fn is_removable(&self) -> bool {
        self.core.is_empty() && self.object.map.is_idle() && self.listing != BlockListing::Draining
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSpace {
    pub(super) block: u32,
    pub(super) node: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) asked: u64,
}

impl Blocks {
    pub(super) const fn new(granule_log2: u32, page: u32) -> Self {
        Self {
            slots: Slots::up_to(BlockRef::BLOCKS),
            open: FreeIndex::new(page),
            closed: FreeIndex::new(page),
            draining: FreeIndex::new(page),
            store: NodeStore::new(),
            cursor: 0,
            turnover: Turnover::new(),
            granule_log2,
            bytes: 0,
            empty_bytes: 0,
        }
    }

    /// Draining blocks do not count.
    pub(super) fn largest_free_bound(&self) -> u64 {
        let granules = self.open.largest_bound().max(self.closed.largest_bound());
        u64::from(granules) << self.granule_log2
    }

    /// The indices must have their reserve for it.
    pub(super) fn admit(&mut self, granules: u32) {
        self.open.admit(granules);
        self.closed.admit(granules);
    }

    #[inline]
    pub(super) fn allocate(&mut self, want: &RangeRequest) -> Option<BlockSpace> {
        // A request that no existing block could hold needs a new one.
        let granules = GranuleRequest::new(want, self.open.largest_block(), self.granule_log2);
        self.carve(&granules.ok()?, want)
    }

    pub(super) fn allocate_exact(&mut self, want: &RangeRequest) -> Option<BlockSpace> {
        let granules = GranuleRequest::new(want, self.open.largest_block(), self.granule_log2);
        self.carve(&granules.ok()?.exact(), want)
    }

    #[inline(always)]
    fn carve(&mut self, granules: &GranuleRequest, want: &RangeRequest) -> Option<BlockSpace> {
        let found = match self.open.find(&self.store, granules) {
            Some(found) => found,
            None => self.find_slowly(granules)?,
        };
        let live = self.slots.get_mut(found.block)?;
        let emptied = live.empty_bytes();
        let range = live.core.carve(&self.store, &self.open, &found, want);
        Some(self.note_placed(found.block, emptied, range, want))
    }

    #[inline(always)]
    fn note_placed(&mut self, block: u32, emptied: u64, range: VirtualRange, want: &RangeRequest) -> BlockSpace {
        self.empty_bytes -= emptied;
        if self.turnover.note_allocation(range.size) {
            self.end_turnover();
        }
        BlockSpace { block, node: range.allocation.node, offset: range.offset, size: range.size, asked: want.asked }
    }

    pub(super) fn allocate_at_end(&mut self, want: &RangeRequest) -> Option<BlockSpace> {
        let (block, _) = self.slots.each().next()?;
        let live = self.slots.get_mut(block)?;
        let emptied = live.empty_bytes();
        let granules = GranuleRequest::new(want, live.core.granules(), self.granule_log2).ok()?;
        let range = (live.core).allocate_at_end(&self.store, &self.open, &granules, want)?;
        Some(self.note_placed(block, emptied, range, want))
    }

    pub(super) fn allocate_at(
        &mut self,
        (block, offset): (u32, u64),
        want: &RangeRequest,
    ) -> Result<BlockSpace, GpuMisuse> {
        let live = self.block(block).map_err(|_| GpuMisuse::NoSuchPlace)?;
        let end = offset.checked_add(want.size);
        if end.is_none_or(|end| end > live.core.size()) {
            return Err(GpuMisuse::NoSuchPlace);
        }
        if live.listing == BlockListing::Draining {
            return Err(GpuMisuse::Defragmenting);
        }
        // The free bytes of an opened block count from now on.
        self.list_as(block, BlockListing::Open);
        let live = (self.slots.get_mut(block)).ok_or(GpuMisuse::NoSuchPlace)?;
        let emptied = live.empty_bytes();
        let placed = (live.core).allocate_at(&self.store, &self.open, offset, want);
        let range = placed.map_err(|refusal| match refusal {
            VirtualBlockError::Full | VirtualBlockError::TooManyRanges => GpuMisuse::PlaceTaken,
            VirtualBlockError::Alignment => GpuMisuse::PlaceMisaligned,
            VirtualBlockError::ZeroSize => GpuMisuse::ZeroSize,
            _ => GpuMisuse::NoSuchPlace,
        })?;
        Ok(self.note_placed(block, emptied, range, want))
    }

    pub(super) fn check_order(&self, at: RegionPlace) -> Result<(), GpuMisuse> {
        let (live, _) = self.range(at)?;
        let is_next = live.core.is_next(&self.store, at.node);
        is_next.then_some(()).ok_or(GpuMisuse::OutOfOrder)
    }

    /// It opens a closed block if only that has room.
    #[cold]
    fn find_slowly(&mut self, want: &GranuleRequest) -> Option<FreeRange> {
        if let Some(found) = self.open.find_full(&self.store, want) {
            return Some(found);
        }
        let closed = self.closed.find(&self.store, want).or_else(|| self.closed.find_full(&self.store, want));
        let found = closed?;
        self.list_as(found.block, BlockListing::Open);
        Some(found)
    }

    /// Returns the size, and whether the block is empty now.
    #[inline]
    pub(super) fn free(&mut self, at: RegionPlace) -> Result<(u64, bool), GpuMisuse> {
        let live = self.slots.get_mut(at.block()).ok_or(GpuMisuse::Stale)?;
        let index = match live.listing {
            BlockListing::Open => &self.open,
            BlockListing::Closed => &self.closed,
            BlockListing::Draining => &self.draining,
        };
        let id = live.core.id_in_pool(at.node);
        let freed = live.core.free(&self.store, index, id, Some(at.slot));
        let size = freed.map_err(|_| GpuMisuse::Stale)?;
        let is_open = live.listing == BlockListing::Open;
        self.turnover.note_freed(size, is_open);
        self.empty_bytes += live.empty_bytes();
        Ok((size, live.core.is_empty()))
    }

    pub(super) fn block(&self, block: u32) -> Result<&LiveBlock, GpuMisuse> {
        self.slots.get(block).ok_or(GpuMisuse::Stale)
    }

    pub(super) fn block_mut(&mut self, block: u32) -> Result<&mut LiveBlock, GpuMisuse> {
        self.slots.get_mut(block).ok_or(GpuMisuse::Stale)
    }

    pub(super) fn range(&self, at: RegionPlace) -> Result<(&LiveBlock, LiveRange), GpuMisuse> {
        let live = self.block(at.block())?;
        let found = live.core.get(&self.store, live.core.id_in_pool(at.node));
        let found = found.ok().filter(|found| found.user_data == at.slot);
        Ok((live, found.ok_or(GpuMisuse::Stale)?))
    }

    pub(super) fn set_slot(&self, at: RegionPlace, slot: u32) {
        if let Ok(live) = self.block(at.block()) {
            let id = live.core.id_in_pool(at.node);
            let set = live.core.set_user_data(&self.store, id, slot);
            debug_assert!(set.is_ok(), "looked up before: {set:?}");
        }
    }

    /// The nodes that the block begins with are in the store's reserve then.
    pub(super) fn reserve(&mut self) -> Option<u32> {
        let block = self.slots.reserve()?;
        self.store.reserve += NODES_PER_BLOCK;
        Some(block)
    }

    pub(super) fn unreserve(&mut self, block: u32) {
        self.slots.unreserve(block);
        self.store.reserve -= NODES_PER_BLOCK;
    }

    pub(super) fn install(&mut self, block: u32, mut live: LiveBlock) {
        self.store.reserve -= NODES_PER_BLOCK;
        let index = if live.listing == BlockListing::Open {
            self.turnover.note_opened(live.core.free_bytes(), 0);
            &self.open
        } else {
            &self.closed
        };
        let begun = live.core.begin(&self.store, index);
        debug_assert!(begun.is_ok(), "reserved: {begun:?}");
        self.bytes += live.object.size;
        self.empty_bytes += live.object.size;
        self.slots.fill(block, live);
    }

    pub(super) fn remove(&mut self, block: u32) -> Option<Object> {
        let mut live = (self.slots).remove_if(block, |live| live.is_removable())?;
        if live.listing == BlockListing::Open {
            self.turnover.note_closed(live.core.free_bytes(), 0);
            live.core.clear(&self.store, &self.open);
        } else {
            live.core.clear(&self.store, &self.closed);
        }
        self.bytes -= live.object.size;
        self.empty_bytes -= live.object.size;
        Some(live.object)
    }

    pub(super) fn detach_idle_nodes(&mut self) -> Option<NodeStore> {
        let is_idle = self.slots.filled() == 0 && self.store.reserve == NODES_PER_ALLOCATION;
        (is_idle && self.store.is_large()).then(|| core::mem::replace(&mut self.store, NodeStore::new()))
    }

    pub(super) fn removable(&mut self) -> Option<u32> {
        if self.empty_bytes == 0 {
            return None;
        }
        let is_it = |block: &u32| self.block(*block).is_ok_and(LiveBlock::is_removable);
        let found = (self.cursor..self.slots.len()).chain(0..self.cursor).find(is_it)?;
        self.cursor = found + 1;
        Some(found)
    }

    /// Draining blocks do not count.
    pub(super) fn available_bytes(&self) -> u64 {
        self.slots
            .each()
            .filter(|(_, live)| live.listing != BlockListing::Draining)
            .fold(0, |sum, (_, live)| sum.saturating_add(live.core.available_bytes(&self.store)))
    }

    pub(super) fn is_draining(&self, block: u32) -> bool {
        self.block(block).is_ok_and(|live| live.listing == BlockListing::Draining)
    }

    pub(super) const fn len(&self) -> u32 {
        self.slots.filled()
    }

    pub(super) fn visit_tables(&mut self, visit: &mut dyn FnMut(&mut dyn GrowableTable)) {
        visit(&mut self.store);
        visit(&mut self.open);
        visit(&mut self.closed);
        visit(&mut self.slots);
    }
}

#[derive(Debug)]
pub(super) struct Object {
    pub(super) memory: MemoryHandle,
    pub(super) size: u64,
    pub(super) map: MapCount,
}

impl Object {
    pub(super) const fn new(memory: MemoryHandle, size: u64) -> Self {
        Self { memory, size, map: MapCount::NONE }
    }
}

#[derive(Debug)]
pub(super) struct DedicatedRegion {
    pub(super) object: Object,
    pub(super) slot: u32,
    /// No lookup finds it; the end of the flush that is under way frees the object.
    pub(super) is_freed: bool,
}

impl Slots<DedicatedRegion> {
    #[inline]
    pub(super) fn region(&self, at: RegionPlace) -> Result<&DedicatedRegion, GpuMisuse> {
        self.get(at.block()).filter(|region| region.slot == at.slot && !region.is_freed).ok_or(GpuMisuse::Stale)
    }

    /// Only a flush may be under way, at whose end the object is [detached](Self::detach_leftover): the region is not
    /// mapped.
    pub(super) fn free(&mut self, at: RegionPlace) -> Result<(u64, Option<Object>), GpuMisuse> {
        let size = self.region(at)?.object.size;
        if let Some(region) = self.get_mut(at.block()) {
            region.is_freed = true;
        }
        Ok((size, self.detach_leftover(at.block())))
    }

    pub(super) fn detach_leftover(&mut self, place: u32) -> Option<Object> {
        let is_idle = |region: &mut DedicatedRegion| region.is_freed && region.object.map.is_idle();
        Some(self.remove_if(place, is_idle)?.object)
    }
}
