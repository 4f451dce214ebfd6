//! Shared blocks: ranges allocated from them and freed, under the pool's lock.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::object::Object;
use super::turnover::Turnover;
use crate::error::GpuMisuse;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;
use crate::id::{PlaceKind, RegionPlace};
use crate::range::{
    Fit, FreeIndex, FreeRange, GranuleRequest, LiveRange, NODES_PER_ALLOCATION, NodeShortage,
    NodeStore, RangeAllocator, RangeRequest, Span,
};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The shared blocks of a pool.
pub(super) struct Blocks {
    pub(super) slots: GrowableVec<BlockSlot>,
    /// The free ranges of all open blocks: a request gets the best fit of all of them.
    pub(super) open: FreeIndex,
    /// Those of closed blocks, which drain: nothing is allocated there while open blocks have room.
    pub(super) closed: FreeIndex,
    /// Those of blocks that a defragmentation empties: nothing is allocated there, so this has no memory and keeps no list.
    pub(super) draining: FreeIndex,
    /// Nodes of all cores: blocks fill and drain, a pool's population is steady, so that few chunks are half empty.
    pub(super) store: NodeStore,
    /// The first slot without a block.
    spare: u32,
    /// Live blocks, and the unused ones among them: they have no node yet and are not listed.
    live: u32,
    blank: u32,
    pub(super) turnover: Turnover,
    granule_log2: u32,
    /// Bytes of blocks, and of those without a region.
    pub(super) bytes: u64,
    pub(super) empty_bytes: u64,
    /// A chunk that the store does not need any more; freed when the lock is released.
    pub(super) spare_memory: Option<HostBlock>,
}

/// A slot for a block.
pub(super) struct BlockSlot {
    /// Of a spare slot: the next one.
    link: u32,
    pub(super) live: Option<LiveBlock>,
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

/// Host memory that an index needs before another block can be installed.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexShortage {
    is_closed: bool,
    pub(super) layout: Layout,
}

/// An allocated space. Written and read field by field: a copy of the whole struct would wait for the narrow stores before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSpace {
    pub(super) kind: PlaceKind,
    /// The block number in the region's place.
    pub(super) block: u32,
    pub(super) node: u32,
    /// The block that the space lies in.
    pub(super) containing_block: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl BlockSpace {
    pub(super) const NOWHERE: Self = Self {
        kind: PlaceKind::General,
        block: 0,
        node: 0,
        containing_block: 0,
        offset: 0,
        size: 0,
    };
}

/// Why no range was allocated.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockMiss {
    /// Missing memory for nodes.
    Records(NodeShortage),
    /// No block has the room.
    Full,
}

impl Blocks {
    pub(super) const fn new(granule_log2: u32) -> Self {
        Self {
            slots: GrowableVec::new(),
            open: FreeIndex::new(),
            closed: FreeIndex::new(),
            draining: FreeIndex::new(),
            store: NodeStore::new(1),
            spare: NONE,
            live: 0,
            blank: 0,
            turnover: Turnover::new(),
            granule_log2,
            bytes: 0,
            empty_bytes: 0,
            spare_memory: None,
        }
    }

    /// An upper bound of the listed free ranges, those of draining blocks left out, in bytes.
    pub(super) fn largest_free_bound(&self) -> u64 {
        let granules = self.open.largest_bound().max(self.closed.largest_bound());
        u64::from(granules) << self.granule_log2
    }

    /// The memory to supply before a block of `granules` can be installed. A pool with one block closes none.
    pub(super) fn missing_index(&self, granules: u32) -> Option<IndexShortage> {
        let shortage = |is_closed| move |layout| IndexShortage { is_closed, layout };
        let open = self.open.missing_capacity(granules).map(shortage(false));
        open.or_else(|| {
            let closed = self.closed.missing_capacity(granules);
            closed.filter(|_| self.live > 0).map(shortage(true))
        })
    }

    /// Takes over memory for [`missing_index`](Self::missing_index). Returns memory that must be freed.
    pub(super) fn grow_index(
        &mut self,
        shortage: IndexShortage,
        block: HostBlock,
    ) -> Option<HostBlock> {
        if shortage.is_closed {
            self.closed.grow_with(block)
        } else {
            self.open.grow_with(block)
        }
    }

    /// Allocates a range: the best fit of all blocks.
    #[inline]
    pub(super) fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        user_data: u32,
        fit: Fit,
        space: &mut BlockSpace,
    ) -> Result<(), BlockMiss> {
        if let Some(shortage) = self.store.missing_capacity(NODES_PER_ALLOCATION) {
            return Err(BlockMiss::Records(shortage));
        }
        let want = RangeRequest {
            size,
            alignment,
            user_data,
            fit,
        };
        // A request that no existing block could hold needs a new one.
        let granules = GranuleRequest::new(&want, self.open.largest_block(), self.granule_log2)
            .map_err(|_| BlockMiss::Full)?;
        match self.open.find(&self.store, &granules) {
            Some(found) => self.carve(&found, &want, space),
            None => {
                let found = self.find_slowly(&granules).ok_or(BlockMiss::Full)?;
                self.carve(&found, &want, space)
            }
        }
    }

    #[inline(always)]
    fn carve(
        &mut self,
        found: &FreeRange,
        want: &RangeRequest,
        space: &mut BlockSpace,
    ) -> Result<(), BlockMiss> {
        let LiveBlock { object, core, .. } = self
            .slots
            .get_mut(found.block)
            .and_then(|slot| slot.live.as_mut())
            .ok_or(BlockMiss::Full)?;
        if core.is_empty() {
            self.empty_bytes = self.empty_bytes.saturating_sub(object.size);
        }
        let range = core.carve(&self.store, &self.open, found, want);
        let is_over = self.turnover.note_allocation(range.size);
        space.containing_block = found.block;
        space.node = range.node;
        space.offset = range.offset;
        space.size = range.size;
        if is_over {
            self.end_turnover();
        }
        Ok(())
    }

    /// As [`allocate`](Self::allocate), of exactly `want.size`, in open blocks only: no other block is opened. Returns whether there was room.
    pub(super) fn allocate_open(
        &mut self,
        want: &RangeRequest,
        space: &mut BlockSpace,
    ) -> Result<bool, NodeShortage> {
        if let Some(shortage) = self.store.missing_capacity(NODES_PER_ALLOCATION) {
            return Err(shortage);
        }
        let largest = self.open.largest_block();
        let Ok(granules) = GranuleRequest::new(want, largest, self.granule_log2) else {
            return Ok(false);
        };
        let granules = granules.exact();
        let found = self
            .open
            .find(&self.store, &granules)
            .or_else(|| self.open.find_full(&self.store, &granules));
        Ok(found.is_some_and(|found| self.carve(&found, want, space).is_ok()))
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
        let is_it = |slot: &BlockSlot| {
            slot.live
                .as_ref()
                .is_some_and(|live| live.core.is_blank() && live.core.granules().0 >= want.count)
        };
        let blank = self.slots.as_slice().iter().position(is_it)?;
        self.begin_blank(blank as u32);
        // The quick search visits the first range of a few bins. With an alignment the block that was just listed may be behind another.
        self.open
            .find(&self.store, want)
            .or_else(|| self.open.find_full(&self.store, want))
    }

    /// Lists an unused block. The store must have the nodes for it.
    pub(super) fn begin_blank(&mut self, block: u32) {
        let live = self
            .slots
            .get_mut(block)
            .and_then(|slot| slot.live.as_mut());
        let Some(live) = live.filter(|live| live.core.is_blank()) else {
            return;
        };
        if live.core.begin(&self.store, &self.open).is_ok() {
            self.turnover.note_opened(live.listed_bytes(), 0);
            self.blank = self.blank.saturating_sub(1);
        }
    }

    /// Frees a range. Returns its size, and whether the block is empty now. A chunk that the store does not need any more is kept in
    /// [`spare_memory`](Blocks::spare_memory).
    #[inline]
    pub(super) fn free(&mut self, at: RegionPlace) -> Result<(u64, bool), GpuMisuse> {
        let slot = self.slots.get_mut(at.block()).ok_or(GpuMisuse::Stale)?;
        let live = slot.live.as_mut().ok_or(GpuMisuse::Stale)?;
        let index = match live.listing {
            BlockListing::Open => &self.open,
            BlockListing::Closed => &self.closed,
            BlockListing::Draining => &self.draining,
        };
        let node = (at.node, self.store.generation(at.node));
        let freed = live
            .core
            .free(&self.store, index, node, Some(at.slot))
            .map_err(|_| GpuMisuse::Stale)?;
        let is_open = live.listing == BlockListing::Open;
        self.turnover.note_freed(1, freed.size, is_open);
        if self.spare_memory.is_none() {
            self.spare_memory = self.store.detach_spare_chunk();
        }
        if freed.is_empty {
            self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        }
        Ok((freed.size, freed.is_empty))
    }

    /// A live block.
    pub(super) fn block(&self, block: u32) -> Result<&LiveBlock, GpuMisuse> {
        self.slots
            .get(block)
            .and_then(|slot| slot.live.as_ref())
            .ok_or(GpuMisuse::Stale)
    }

    pub(super) fn block_mut(&mut self, block: u32) -> Result<&mut LiveBlock, GpuMisuse> {
        self.slots
            .get_mut(block)
            .and_then(|slot| slot.live.as_mut())
            .ok_or(GpuMisuse::Stale)
    }

    /// The block of a live range, and the range.
    pub(super) fn range(&self, at: RegionPlace) -> Result<(&LiveBlock, LiveRange), GpuMisuse> {
        let live = self.block(at.block())?;
        let generation = self.store.generation(at.node);
        let found = live.core.get(&self.store, at.node, generation);
        let found = found.ok().filter(|found| found.user_data == at.slot);
        Ok((live, found.ok_or(GpuMisuse::Stale)?))
    }

    /// Writes another slot into a live range.
    pub(super) fn set_slot(&self, at: RegionPlace, slot: u32) {
        if let Ok(live) = self.block(at.block()) {
            let generation = self.store.generation(at.node);
            let set = live
                .core
                .set_user_data(&self.store, at.node, generation, slot);
            debug_assert!(set.is_ok(), "looked up before: {set:?}");
        }
    }

    /// Every piece of a block, in order of offset.
    pub(super) fn for_each(&self, live: &LiveBlock, visit: &mut dyn FnMut(Span)) {
        live.core.for_each(&self.store, visit);
    }

    /// Reserves a slot for a block in creation; `None` if there are `limit`, or the table has no room.
    pub(super) fn reserve(&mut self, limit: u32) -> Option<u32> {
        let block = if self.spare == NONE {
            let block = self.slots.len();
            if block >= limit
                || self
                    .slots
                    .push(BlockSlot {
                        link: NONE,
                        live: None,
                    })
                    .is_err()
            {
                return None;
            }
            block
        } else {
            self.spare
        };
        let slot = self.slots.get_mut(block)?;
        if self.spare == block {
            self.spare = slot.link;
        }
        slot.link = NONE;
        Some(block)
    }

    /// Whether there is a slot to reuse.
    pub(super) fn has_spare(&self) -> bool {
        self.spare != NONE
    }

    /// Frees a slot. The next block in it needs no new generation: the store never repeats a node's id.
    pub(super) fn unreserve(&mut self, block: u32) {
        if let Some(slot) = self.slots.get_mut(block) {
            slot.link = self.spare;
            self.spare = block;
        }
    }

    /// Installs a block in its reserved slot.
    pub(super) fn install(&mut self, block: u32, live: LiveBlock) {
        if let Some(slot) = self.slots.get_mut(block) {
            self.bytes = self.bytes.saturating_add(live.object.size);
            self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
            self.live = self.live.saturating_add(1);
            self.open.admit(live.core.granules().0);
            self.closed.admit(live.core.granules().0);
            self.blank = self.blank.saturating_add(1);
            slot.live = Some(live);
        }
    }

    /// Removes a block, if it is empty, not mapped and not being drained.
    pub(super) fn remove(&mut self, block: u32) -> Option<Object> {
        let slot = self.slots.get_mut(block)?;
        let mut live = slot.live.take_if(|live| live.is_removable())?;
        self.blank = self.blank.saturating_sub(u32::from(live.core.is_blank()));
        if live.listing == BlockListing::Open {
            self.turnover.note_closed(live.listed_bytes(), 0);
            live.core.clear(&self.store, &self.open);
        } else {
            live.core.clear(&self.store, &self.closed);
        }
        self.bytes = self.bytes.saturating_sub(live.object.size);
        self.empty_bytes = self.empty_bytes.saturating_sub(live.object.size);
        self.live = self.live.saturating_sub(1);
        self.unreserve(block);
        Some(live.object)
    }

    /// A block that [`remove`](Self::remove) would remove.
    pub(super) fn removable(&self) -> Option<u32> {
        if self.empty_bytes == 0 {
            return None;
        }
        (0u32..)
            .zip(self.slots.as_slice())
            .filter_map(|(block, slot)| Some((block, slot.live.as_ref()?)))
            .find(|(_, live)| live.is_removable())
            .map(|(block, _)| block)
    }

    /// Free bytes of all blocks that are not being drained. Visits each block.
    pub(super) fn available_bytes(&self) -> u64 {
        let live = self
            .slots
            .as_slice()
            .iter()
            .filter_map(|slot| slot.live.as_ref())
            .filter(|live| live.listing != BlockListing::Draining);
        live.fold(0, |sum, live| sum.saturating_add(live.core.free_bytes()))
    }

    /// Whether the block exists and is not mapped.
    pub(super) fn is_unmapped(&self, block: u32) -> bool {
        self.block(block)
            .is_ok_and(|live| live.object.map.is_idle())
    }

    /// The number of live blocks.
    pub(super) fn len(&self) -> u32 {
        self.live
    }
}
