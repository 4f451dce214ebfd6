//! Shared blocks: ranges allocated from them and freed, under the pool's lock.

#![forbid(unsafe_code)]

use super::turnover::Turnover;
use crate::device::MemoryHandle;
use crate::error::GpuMisuse;
use crate::growable_vec::Slots;
use crate::host_memory::GrowableTable;
use crate::id::RegionPlace;
use crate::map_count::MapCount;
use crate::range::{
    FreeIndex, FreeRange, GranuleRequest, LiveRange, NodeStore, RangeAllocator, RangeError,
    RangeRequest, Span,
};

/// The shared blocks of a pool.
pub(super) struct Blocks {
    pub(super) slots: Slots<LiveBlock>,
    /// The free ranges of all open blocks: a request gets the best fit of all of them.
    pub(super) open: FreeIndex,
    /// Those of closed blocks, which drain: nothing is allocated there while open blocks have room.
    pub(super) closed: FreeIndex,
    /// Those of blocks that a defragmentation empties: nothing is allocated there, so this has no memory and keeps no list.
    pub(super) draining: FreeIndex,
    /// Nodes of all cores: blocks fill and drain, a pool's population is steady.
    pub(super) store: NodeStore,
    /// Unused blocks: they have no node yet and are not listed.
    blank: u32,
    /// No block below is unused.
    first_blank: u32,
    /// Where the next search for an empty block begins: none searches what the one before it has searched.
    cursor: u32,
    pub(super) turnover: Turnover,
    granule_log2: u32,
    /// Bytes of blocks, and of those without a region.
    pub(super) bytes: u64,
    pub(super) empty_bytes: u64,
}

/// A block.
pub(super) struct LiveBlock {
    pub(super) object: Object,
    pub(super) core: RangeAllocator,
    pub(super) listing: BlockListing,
}

/// Where a block's free ranges are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockListing {
    Open,
    Closed,
    Draining,
}

impl LiveBlock {
    pub(super) const fn new(object: Object, core: RangeAllocator) -> Self {
        Self {
            object,
            core,
            listing: BlockListing::Open,
        }
    }

    /// Whether it is empty, not mapped, and not being drained.
    fn is_removable(&self) -> bool {
        self.core.is_empty() && self.object.map.is_idle() && self.listing != BlockListing::Draining
    }

    /// Bytes of it that are free and listed.
    pub(super) fn listed_bytes(&self) -> u64 {
        if self.core.is_blank() {
            0
        } else {
            self.core.free_bytes()
        }
    }
}

/// An allocated space. Written and read field by field: a copy of the whole struct would wait for the narrow stores before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSpace {
    pub(super) block: u32,
    pub(super) node: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// The requested bytes of it.
    pub(super) asked: u64,
}

impl BlockSpace {
    pub(super) const NOWHERE: Self = Self {
        block: 0,
        node: 0,
        offset: 0,
        size: 0,
        asked: 0,
    };
}

impl Blocks {
    pub(super) const fn new(granule_log2: u32, page: u32) -> Self {
        Self {
            slots: Slots::new(),
            open: FreeIndex::new(page),
            closed: FreeIndex::new(page),
            draining: FreeIndex::new(page),
            store: NodeStore::new(),
            blank: 0,
            first_blank: 0,
            cursor: 0,
            turnover: Turnover::new(),
            granule_log2,
            bytes: 0,
            empty_bytes: 0,
        }
    }

    /// An upper bound of the listed free ranges, those of draining blocks left out, in bytes.
    pub(super) fn largest_free_bound(&self) -> u64 {
        let granules = self.open.largest_bound().max(self.closed.largest_bound());
        u64::from(granules) << self.granule_log2
    }

    /// Permits a block of `granules`, once the indices have their reserve for it. A pool with one block closes none.
    pub(super) fn admit(&mut self, granules: u32) {
        self.open.admit(granules);
        if self.len() > 0 {
            self.closed.admit(self.open.largest_block());
        }
    }

    /// Allocates a range: the best fit of all blocks. Returns whether a block has the room.
    #[inline]
    pub(super) fn allocate(&mut self, want: &RangeRequest, space: &mut BlockSpace) -> bool {
        // A request that no existing block could hold needs a new one.
        let Ok(granules) = GranuleRequest::new(want, self.open.largest_block(), self.granule_log2)
        else {
            return false;
        };
        match self.open.find(&self.store, &granules) {
            Some(found) => self.carve(&found, want, space),
            None => {
                (self.find_slowly(&granules)).is_some_and(|found| self.carve(&found, want, space))
            }
        }
    }

    #[inline(always)]
    fn carve(&mut self, found: &FreeRange, want: &RangeRequest, space: &mut BlockSpace) -> bool {
        let Some(LiveBlock { object, core, .. }) = self.slots.get_mut(found.block) else {
            return false;
        };
        if core.is_empty() {
            self.empty_bytes = self.empty_bytes.saturating_sub(object.size);
        }
        let range = core.carve(&self.store, &self.open, found, want);
        space.block = found.block;
        space.node = range.id.node;
        space.offset = range.offset;
        space.size = range.size;
        space.asked = want.asked;
        if self.turnover.note_allocation(range.size) {
            self.end_turnover();
        }
        true
    }

    /// As [`allocate`](Self::allocate), of exactly `want.size`, in open blocks only: no other block is opened.
    pub(super) fn allocate_open(&mut self, want: &RangeRequest, space: &mut BlockSpace) -> bool {
        let largest = self.open.largest_block();
        let Ok(granules) = GranuleRequest::new(want, largest, self.granule_log2) else {
            return false;
        };
        let granules = granules.exact();
        let found = (self.open.find(&self.store, &granules))
            .or_else(|| self.open.find_full(&self.store, &granules));
        found.is_some_and(|found| self.carve(&found, want, space))
    }

    /// Allocates a range that begins at `offset` of a block. Visits each range and hole before it.
    pub(super) fn allocate_at(
        &mut self,
        (block, offset): (u32, u64),
        want: &RangeRequest,
        space: &mut BlockSpace,
    ) -> Result<(), GpuMisuse> {
        let live = self.block(block).map_err(|_| GpuMisuse::NoSuchPlace)?;
        let end = offset.checked_add(want.size);
        if end.is_none_or(|end| end > live.core.size()) {
            return Err(GpuMisuse::NoSuchPlace);
        }
        if live.listing == BlockListing::Draining {
            return Err(GpuMisuse::Defragmenting);
        }
        // An allocation opens a closed block: its free bytes count from now on.
        if live.listing == BlockListing::Closed && !self.list_as(block, BlockListing::Open) {
            return Err(GpuMisuse::NoSuchPlace);
        }
        self.begin_blank(block);
        let LiveBlock { object, core, .. } =
            (self.slots.get_mut(block)).ok_or(GpuMisuse::NoSuchPlace)?;
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
        *space = BlockSpace {
            block,
            node: range.id.node,
            offset: range.offset,
            size: range.size,
            asked: want.asked,
        };
        if self.turnover.note_allocation(range.size) {
            self.end_turnover();
        }
        Ok(())
    }

    /// Searches after the quick search failed: every range that might fit, then closed blocks, of which one with room is opened,
    /// then blocks that are not listed yet.
    #[cold]
    fn find_slowly(&mut self, want: &GranuleRequest) -> Option<FreeRange> {
        if let Some(found) = self.open.find_full(&self.store, want) {
            return Some(found);
        }
        let closed = self
            .closed
            .find(&self.store, want)
            .or_else(|| self.closed.find_full(&self.store, want));
        if let Some(found) = closed {
            self.list_as(found.block, BlockListing::Open);
            return Some(found);
        }
        if self.blank == 0 {
            return None;
        }
        let end = self.slots.len();
        let find = |from: u32, count: u32| {
            let is_it = |live: &LiveBlock| live.core.is_blank() && live.core.granules().0 >= count;
            (from..end).find(|block| self.block(*block).is_ok_and(is_it))
        };
        let first = find(self.first_blank, 0)?;
        let blank = find(first, want.count)?;
        self.first_blank = first;
        self.begin_blank(blank);
        // The quick search visits the first range of a few bins. With an alignment the block that was just listed may be behind another.
        self.open
            .find(&self.store, want)
            .or_else(|| self.open.find_full(&self.store, want))
    }

    /// Lists an unused block. The store must have the nodes for it.
    pub(super) fn begin_blank(&mut self, block: u32) {
        let live = self.slots.get_mut(block);
        let Some(live) = live.filter(|live| live.core.is_blank()) else {
            return;
        };
        if live.core.begin(&self.store, &self.open).is_ok() {
            self.turnover.note_opened(live.listed_bytes(), 0);
            self.blank = self.blank.saturating_sub(1);
        }
    }

    /// Frees a range. Returns its size, and whether the block is empty now.
    #[inline]
    pub(super) fn free(&mut self, at: RegionPlace) -> Result<(u64, bool), GpuMisuse> {
        let live = self.slots.get_mut(at.block()).ok_or(GpuMisuse::Stale)?;
        let index = match live.listing {
            BlockListing::Open => &self.open,
            BlockListing::Closed => &self.closed,
            BlockListing::Draining => &self.draining,
        };
        let id = live.core.id_in_pool(at.node);
        let freed = live
            .core
            .free(&self.store, index, id, Some(at.slot))
            .map_err(|_| GpuMisuse::Stale)?;
        let is_open = live.listing == BlockListing::Open;
        self.turnover.note_freed(1, freed.size, is_open);
        if freed.is_empty {
            self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        }
        Ok((freed.size, freed.is_empty))
    }

    /// A live block.
    pub(super) fn block(&self, block: u32) -> Result<&LiveBlock, GpuMisuse> {
        self.slots.get(block).ok_or(GpuMisuse::Stale)
    }

    pub(super) fn block_mut(&mut self, block: u32) -> Result<&mut LiveBlock, GpuMisuse> {
        self.slots.get_mut(block).ok_or(GpuMisuse::Stale)
    }

    /// The block of a live range, and the range.
    pub(super) fn range(&self, at: RegionPlace) -> Result<(&LiveBlock, LiveRange), GpuMisuse> {
        let live = self.block(at.block())?;
        let found = live.core.get(&self.store, live.core.id_in_pool(at.node));
        let found = found.ok().filter(|found| found.user_data == at.slot);
        Ok((live, found.ok_or(GpuMisuse::Stale)?))
    }

    /// Writes another slot into a live range.
    pub(super) fn set_slot(&self, at: RegionPlace, slot: u32) {
        if let Ok(live) = self.block(at.block()) {
            let id = live.core.id_in_pool(at.node);
            let set = live.core.set_user_data(&self.store, id, slot);
            debug_assert!(set.is_ok(), "looked up before: {set:?}");
        }
    }

    /// Every piece of a block, in order of offset.
    pub(super) fn for_each(&self, live: &LiveBlock, visit: &mut dyn FnMut(Span)) {
        live.core.for_each(&self.store, visit);
    }

    /// Installs a block in its reserved slot.
    pub(super) fn install(&mut self, block: u32, live: LiveBlock) {
        self.bytes = self.bytes.saturating_add(live.object.size);
        self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        self.blank = self.blank.saturating_add(1);
        self.first_blank = self.first_blank.min(block);
        self.slots.fill(block, live);
    }

    /// Removes a block, if it is empty, not mapped and not being drained.
    pub(super) fn remove(&mut self, block: u32) -> Option<Object> {
        if !self.block(block).is_ok_and(LiveBlock::is_removable) {
            return None;
        }
        self.make_blank(block);
        let live = self.slots.remove_if(block, |_| true)?;
        self.blank = self.blank.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(live.object.size);
        self.empty_bytes = self.empty_bytes.saturating_sub(live.object.size);
        Some(live.object)
    }

    /// Frees the nodes of an empty block that is not being drained, which is not listed any more then.
    fn make_blank(&mut self, block: u32) {
        let Some(live) = self.slots.get_mut(block) else {
            return;
        };
        if live.core.is_blank() {
            return;
        }
        if live.listing == BlockListing::Open {
            self.turnover.note_closed(live.listed_bytes(), 0);
            live.core.clear(&self.store, &self.open);
        } else {
            live.core.clear(&self.store, &self.closed);
        }
        live.listing = BlockListing::Open;
        self.blank = self.blank.saturating_add(1);
        self.first_blank = self.first_blank.min(block);
    }

    /// Without any range: detaches the nodes, if they have much memory, for the caller to free without the lock.
    pub(super) fn detach_idle_nodes(&mut self) -> Option<NodeStore> {
        let is_idle =
            |live: &LiveBlock| live.core.is_empty() && live.listing != BlockListing::Draining;
        if !self.store.is_large()
            || self.empty_bytes < self.bytes
            || !self.slots.each().all(|(_, live)| is_idle(live))
        {
            return None;
        }
        for block in 0..self.slots.len() {
            self.make_blank(block);
        }
        Some(core::mem::replace(&mut self.store, NodeStore::new()))
    }

    /// A block that [`remove`](Self::remove) would remove.
    pub(super) fn removable(&mut self) -> Option<u32> {
        if self.empty_bytes == 0 {
            return None;
        }
        let is_it = |block: &u32| self.block(*block).is_ok_and(LiveBlock::is_removable);
        let found = (self.cursor..self.slots.len())
            .chain(0..self.cursor)
            .find(is_it)?;
        self.cursor = found + 1;
        Some(found)
    }

    /// Free bytes of all blocks that are not being drained. Visits each block.
    pub(super) fn available_bytes(&self) -> u64 {
        self.slots
            .each()
            .filter(|(_, live)| live.listing != BlockListing::Draining)
            .fold(0, |sum, (_, live)| {
                sum.saturating_add(live.core.free_bytes())
            })
    }

    /// Whether the block exists and is not mapped.
    pub(super) fn is_unmapped(&self, block: u32) -> bool {
        self.block(block)
            .is_ok_and(|live| live.object.map.is_idle())
    }

    /// The number of live blocks.
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

/// A `VkDeviceMemory`: a shared block or a dedicated one.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) memory: MemoryHandle,
    /// Bytes.
    pub(super) size: u64,
    pub(super) map: MapCount,
}

impl Object {
    pub(super) const fn new(memory: MemoryHandle, size: u64) -> Self {
        Self {
            memory,
            size,
            map: MapCount::NONE,
        }
    }
}

/// A dedicated memory object and its region.
#[derive(Debug)]
pub(super) struct DedicatedRegion {
    pub(super) object: Object,
    /// The region's slot.
    pub(super) slot: u32,
    /// Freed while a flush was under way: no lookup finds it, and the object is freed when the flush ends.
    pub(super) is_freed: bool,
}

impl Slots<DedicatedRegion> {
    #[inline]
    pub(super) fn region(&self, at: RegionPlace) -> Result<&DedicatedRegion, GpuMisuse> {
        self.get(at.block())
            .filter(|region| region.slot == at.slot && !region.is_freed)
            .ok_or(GpuMisuse::Stale)
    }

    /// Frees a region. Returns its size, and its object if that is idle. The slot map has checked that the region is not mapped, so only a
    /// flush that began before may be under way: then the object is [detached](Self::detach_leftover) later.
    pub(super) fn free(&mut self, at: RegionPlace) -> Result<(u64, Option<Object>), GpuMisuse> {
        let size = self.region(at)?.object.size;
        if let Some(region) = self.get_mut(at.block()) {
            region.is_freed = true;
        }
        Ok((size, self.detach_leftover(at.block())))
    }

    /// Removes the object of a freed region, once it is idle.
    pub(super) fn detach_leftover(&mut self, place: u32) -> Option<Object> {
        let is_idle = |region: &mut DedicatedRegion| region.is_freed && region.object.map.is_idle();
        Some(self.remove_if(place, is_idle)?.object)
    }
}
