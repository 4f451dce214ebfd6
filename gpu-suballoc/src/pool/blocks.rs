//! Shared blocks: ranges taken out of them and given back, under the pool's lock.

#![forbid(unsafe_code)]

use super::block_order::{BlockOrder, BlockRank};
use super::object::Object;
use crate::error::GpuMisuse;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;
use crate::id::RegionPlaceKind;
use crate::range::{
    Fit, LiveRange, NODES_PER_ALLOCATION, NodeShortage, NodeStore, RangeAllocator, RangeError,
    RangeRequest, Search, Span,
};

/// No slot, no rank.
pub(super) const NONE: u32 = u32::MAX;

/// The shared blocks of a pool.
pub(super) struct Blocks {
    pub(super) slots: GrowableVec<BlockSlot>,
    pub(super) order: BlockOrder,
    /// Nodes of all cores: blocks fill and drain, a pool's population is steady, so that few chunks are half empty.
    pub(super) store: NodeStore,
    /// The first slot without a block.
    spare: u32,
    granule_log2: u32,
    /// Bytes of blocks without a region.
    pub(super) empty_bytes: u64,
    /// Of the store, which needs it no more; to be given back when the lock is.
    pub(super) spare_memory: Option<HostBlock>,
}

/// Where a block is, or was, or will be.
pub(super) struct BlockSlot {
    /// Of a live block: its place in the order. Of a spare slot: the next one.
    pub(super) link: u32,
    pub(super) live: Option<LiveBlock>,
}

/// A block.
pub(super) struct LiveBlock {
    pub(super) object: Object,
    pub(super) core: RangeAllocator,
}

/// Where room was found. Written and read field by field: a structure that is copied whole is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSpace {
    pub(super) kind: RegionPlaceKind,
    /// As the region's name has it.
    pub(super) block: u32,
    pub(super) slot: u32,
    pub(super) generation: u32,
    /// The block that it is in.
    pub(super) containing_block: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl BlockSpace {
    pub(super) const NOWHERE: Self = Self {
        kind: RegionPlaceKind::General,
        block: 0,
        slot: 0,
        generation: 0,
        containing_block: 0,
        offset: 0,
        size: 0,
    };
}

/// Why no range was taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockMiss {
    /// Memory for records is lacking.
    Records(NodeShortage),
    /// No block has the room.
    Full,
}

impl Blocks {
    pub(super) const fn new(granule_log2: u32) -> Self {
        Self {
            slots: GrowableVec::new(),
            order: BlockOrder::new(),
            store: NodeStore::new(1),
            spare: NONE,
            granule_log2,
            empty_bytes: 0,
            spare_memory: None,
        }
    }

    fn granules(&self, bytes: u64) -> u32 {
        u32::try_from(bytes >> self.granule_log2).unwrap_or(u32::MAX)
    }

    /// Takes a range out of the fullest block that has one: all blocks are asked before there is to be another.
    #[inline]
    pub(super) fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        word: u32,
        fit: Fit,
        spot: &mut BlockSpace,
    ) -> Result<(), BlockMiss> {
        if let Some(lack) = self.store.missing_capacity(NODES_PER_ALLOCATION) {
            return Err(BlockMiss::Records(lack));
        }
        if self.search::<true>(
            &RangeRequest {
                size,
                alignment,
                user_data: word,
                fit,
                search: Search::Quick,
            },
            spot,
        ) {
            return Ok(());
        }
        self.allocate_slowly(size, alignment, word, fit, spot)
    }

    #[cold]
    fn allocate_slowly(
        &mut self,
        size: u64,
        alignment: u64,
        word: u32,
        fit: Fit,
        spot: &mut BlockSpace,
    ) -> Result<(), BlockMiss> {
        let found = self.search::<false>(
            &RangeRequest {
                size,
                alignment,
                user_data: word,
                fit,
                search: Search::Full,
            },
            spot,
        );
        if found { Ok(()) } else { Err(BlockMiss::Full) }
    }

    /// Whether a block has it; asked `QUICK` for nothing that costs more than a look.
    #[inline(always)]
    fn search<const QUICK: bool>(&mut self, want: &RangeRequest, spot: &mut BlockSpace) -> bool {
        let granule = 1u64 << self.granule_log2;
        let granules = self.granules(want.size.saturating_add(granule - 1));
        let mut at = 0u32;
        while let Some(rank) = self.order.ranks.get(at).copied() {
            if rank.bound >= granules
                && (!QUICK || granules < rank.failed_fit)
                && let Some(LiveBlock { object, core }) = self
                    .slots
                    .get_mut(rank.block)
                    .and_then(|slot| slot.live.as_mut())
            {
                let was_empty = core.is_empty();
                match core.allocate(&self.store, want) {
                    Ok(taken) => {
                        spot.containing_block = rank.block;
                        spot.slot = taken.node;
                        spot.generation = taken.generation;
                        spot.offset = taken.offset;
                        spot.size = taken.size;
                        if was_empty {
                            self.empty_bytes = self.empty_bytes.saturating_sub(object.size);
                        }
                        let (free, bound) = core.room();
                        self.rebalance(at, free, bound.min(rank.bound), rank.failed_fit);
                        return true;
                    }
                    Err(RangeError::Full) if want.alignment <= granule => {
                        if let Some(rank) = self.order.ranks.get_mut(at) {
                            rank.failed_fit = rank.failed_fit.min(granules);
                            // Every hole was looked at: none is that large, until something is given back.
                            if !QUICK {
                                rank.bound = granules.saturating_sub(1);
                            }
                        }
                    }
                    Err(_) => {}
                }
            }
            at = at.saturating_add(1);
        }
        false
    }

    /// Gives a range back that has `word`: its size, and whether the block is empty now. HostBlock for records that is not needed any more
    /// waits in [`spare_memory`](Blocks::spare_memory).
    #[inline]
    pub(super) fn free(
        &mut self,
        block: u32,
        node: u32,
        generation: u32,
        word: u32,
    ) -> Result<(u64, bool), GpuMisuse> {
        let slot = self.slots.get_mut(block).ok_or(GpuMisuse::Stale)?;
        let (at, live) = (slot.link, slot.live.as_mut().ok_or(GpuMisuse::Stale)?);
        let given = live
            .core
            .free(&self.store, node, generation, Some(word))
            .map_err(misuse)?;
        if self.spare_memory.is_none() {
            self.spare_memory = self.store.detach_spare_chunk();
        }
        if given.is_empty {
            self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        }
        let (free, bound) = live.core.room();
        self.rebalance(at, free, bound, u32::MAX);
        Ok((given.size, given.is_empty))
    }

    /// Gives several ranges of one block back that have `word`, all or none: neighbours among them are joined first. Their bytes, and
    /// whether the block is empty now; `None` where one of them is not there, is there twice, or has another word.
    pub(super) fn free_run(
        &mut self,
        block: u32,
        run: &[(u32, u32)],
        word: u32,
    ) -> Option<(u64, bool)> {
        let slot = self.slots.get_mut(block)?;
        let (at, live) = (slot.link, slot.live.as_mut()?);
        let mut bytes = 0u64;
        for (node, generation) in run {
            let found = live
                .core
                .get(&self.store, *node, *generation)
                .ok()
                .filter(|found| found.user_data == word)?;
            bytes = bytes.saturating_add(found.size);
        }
        let empty = live.core.free_batch(&self.store, run).ok()?;
        if self.spare_memory.is_none() {
            self.spare_memory = self.store.detach_spare_chunk();
        }
        if empty {
            self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        }
        let (free, bound) = live.core.room();
        self.rebalance(at, free, bound, u32::MAX);
        Some((bytes, empty))
    }

    /// After something was taken from the block at `at` or given back: its new numbers. What a search in vain has learnt holds as long as
    /// holes only get smaller.
    #[inline]
    fn rebalance(&mut self, at: u32, free: u32, bound: u32, missed: u32) {
        if let Some(rank) = self.order.ranks.get_mut(at) {
            rank.free = free;
            rank.bound = bound;
            rank.failed_fit = missed;
        }
        self.order.rebalance(&mut self.slots, at);
    }

    /// The live block, and its core.
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
    pub(super) fn range(
        &self,
        block: u32,
        node: u32,
        generation: u32,
    ) -> Result<(&LiveBlock, LiveRange), GpuMisuse> {
        let live = self.block(block)?;
        Ok((
            live,
            live.core
                .get(&self.store, node, generation)
                .map_err(misuse)?,
        ))
    }

    /// Changes the word of a live range.
    pub(super) fn set_user_data(
        &mut self,
        block: u32,
        node: u32,
        generation: u32,
        word: u32,
    ) -> Result<(), GpuMisuse> {
        let live = self
            .slots
            .get_mut(block)
            .and_then(|slot| slot.live.as_mut())
            .ok_or(GpuMisuse::Stale)?;
        live.core
            .set_user_data(&self.store, node, generation, word)
            .map_err(misuse)
    }

    /// Gives a live range its next generation.
    pub(super) fn renew(
        &mut self,
        block: u32,
        node: u32,
        generation: u32,
    ) -> Result<u32, GpuMisuse> {
        let live = self
            .slots
            .get_mut(block)
            .and_then(|slot| slot.live.as_mut())
            .ok_or(GpuMisuse::Stale)?;
        live.core
            .renew(&self.store, node, generation)
            .map_err(misuse)
    }

    /// Every piece of a block, in order of offset.
    pub(super) fn for_each(&self, live: &LiveBlock, see: &mut dyn FnMut(Span)) {
        live.core.for_each(&self.store, see);
    }

    /// A slot for a block that is to be made; `None` where there are `limit`, or the table has no room.
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

    /// There is a slot to reuse.
    pub(super) fn has_spare(&self) -> bool {
        self.spare != NONE
    }

    /// The block was not made after all, or is gone. The next one in its slot needs no other ids: the store never repeats one.
    pub(super) fn unreserve(&mut self, block: u32) {
        if let Some(slot) = self.slots.get_mut(block) {
            slot.link = self.spare;
            self.spare = block;
        }
    }

    /// Puts a block into the slot that was reserved for it.
    pub(super) fn install(&mut self, block: u32, live: LiveBlock) {
        let (free, bound) = live.core.room();
        let rank = BlockRank {
            free,
            bound,
            failed_fit: u32::MAX,
            block,
        };
        self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        if let Some(slot) = self.slots.get_mut(block) {
            slot.live = Some(live);
            self.order.insert(&mut self.slots, rank);
        }
    }

    /// Takes a block out, if nothing lies in it and nobody has it mapped; and its core's memory.
    pub(super) fn remove(&mut self, block: u32) -> Option<(Object, Option<HostBlock>)> {
        let slot = self.slots.get_mut(block)?;
        slot.live
            .as_ref()
            .filter(|live| live.core.is_empty() && live.object.map.is_idle())?;
        let (at, mut live) = (slot.link, slot.live.take()?);
        let memory = live.core.detach_memory(&self.store);
        self.empty_bytes = self.empty_bytes.saturating_sub(live.object.size);
        self.order.remove(&mut self.slots, at);
        self.unreserve(block);
        Some((live.object, memory))
    }

    /// The emptiest block, if it is empty and may go: the one that was tried last.
    pub(super) fn removable(&self) -> Option<u32> {
        let empty = |rank: &&BlockRank| {
            self.block(rank.block)
                .is_ok_and(|live| live.core.is_empty() && live.object.map.is_idle())
        };
        self.order
            .ranks
            .as_slice()
            .iter()
            .rev()
            .find(empty)
            .map(|rank| rank.block)
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> u32 {
        self.order.ranks.len()
    }
}

/// What a core's refusal says about the caller.
pub(super) const fn misuse(refusal: RangeError) -> GpuMisuse {
    match refusal {
        RangeError::ZeroSize => GpuMisuse::ZeroSize,
        RangeError::Alignment | RangeError::Granule => GpuMisuse::BadAlignment,
        RangeError::OtherUserData => GpuMisuse::Held,
        _ => GpuMisuse::Stale,
    }
}
