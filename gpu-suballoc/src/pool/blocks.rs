//! Shared blocks: ranges taken out of them and given back, under the pool's lock.

#![forbid(unsafe_code)]

use super::object::Object;
use super::order::{Order, Rank};
use super::table::Table;
use crate::error::Misuse;
use crate::id::PlaceKind;
use crate::range::{Fit, Found, Lack, Memory, NODES_PER_TAKE, RangeCore, Refusal, Search, Span, Store, Want};

/// No slot, no rank.
pub(super) const NONE: u32 = u32::MAX;

/// The shared blocks of a pool.
pub(super) struct Blocks {
    pub(super) slots: Table<BlockSlot>,
    pub(super) order: Order,
    /// Nodes of all cores: blocks fill and drain, a pool's population is steady, so that few chunks are half empty.
    pub(super) store: Store,
    /// The first slot without a block.
    spare: u32,
    granule_log2: u32,
    /// Bytes of blocks without a region.
    pub(super) empty_bytes: u64,
    /// Of the store, which needs it no more; to be given back when the lock is.
    pub(super) spare_memory: Option<Memory>,
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
    pub(super) core: RangeCore,
}

/// Where room was found. Written and read field by field: a structure that is copied whole is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) kind: PlaceKind,
    /// As the region's name has it.
    pub(super) block: u32,
    pub(super) slot: u32,
    pub(super) generation: u32,
    /// The block that it is in.
    pub(super) home: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Spot {
    pub(super) const NOWHERE: Self =
        Self { kind: PlaceKind::General, block: 0, slot: 0, generation: 0, home: 0, offset: 0, size: 0 };
}

/// Why no range was taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Miss {
    /// Memory for records is lacking.
    Records(Lack),
    /// No block has the room.
    Full,
}

impl Blocks {
    pub(super) const fn new(granule_log2: u32) -> Self {
        Self {
            slots: Table::new(),
            order: Order::new(),
            store: Store::new(1),
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
    pub(super) fn take(&mut self, size: u64, alignment: u64, word: u32, fit: Fit, spot: &mut Spot) -> Result<(), Miss> {
        if let Some(lack) = self.store.lacks(NODES_PER_TAKE) {
            return Err(Miss::Records(lack));
        }
        if self.search::<true>(&Want { size, alignment, word, fit, search: Search::Quick }, spot) {
            return Ok(());
        }
        self.take_slowly(size, alignment, word, fit, spot)
    }

    #[cold]
    fn take_slowly(&mut self, size: u64, alignment: u64, word: u32, fit: Fit, spot: &mut Spot) -> Result<(), Miss> {
        let found = self.search::<false>(&Want { size, alignment, word, fit, search: Search::Full }, spot);
        if found { Ok(()) } else { Err(Miss::Full) }
    }

    /// Whether a block has it; asked `QUICK` for nothing that costs more than a look.
    #[inline(always)]
    fn search<const QUICK: bool>(&mut self, want: &Want, spot: &mut Spot) -> bool {
        let granule = 1u64 << self.granule_log2;
        let granules = self.granules(want.size.saturating_add(granule - 1));
        let mut at = 0u32;
        while let Some(rank) = self.order.ranks.get(at).copied() {
            if rank.bound >= granules
                && (!QUICK || granules < rank.missed)
                && let Some(LiveBlock { object, core }) = self.slots.get_mut(rank.block).and_then(|slot| slot.live.as_mut())
            {
                let was_empty = core.is_empty();
                match core.take(&self.store, want) {
                    Ok(taken) => {
                        spot.home = rank.block;
                        spot.slot = taken.node;
                        spot.generation = taken.generation;
                        spot.offset = taken.offset;
                        spot.size = taken.size;
                        if was_empty {
                            self.empty_bytes = self.empty_bytes.saturating_sub(object.size);
                        }
                        let (free, bound) = core.room();
                        self.resettle(at, free, bound.min(rank.bound), rank.missed);
                        return true;
                    }
                    Err(Refusal::Full) if want.alignment <= granule => {
                        if let Some(rank) = self.order.ranks.get_mut(at) {
                            rank.missed = rank.missed.min(granules);
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

    /// Gives a range back that has `word`: its size, and whether the block is empty now. Memory for records that is not needed any more
    /// waits in [`spare_memory`](Blocks::spare_memory).
    #[inline]
    pub(super) fn give(&mut self, block: u32, node: u32, generation: u32, word: u32) -> Result<(u64, bool), Misuse> {
        let slot = self.slots.get_mut(block).ok_or(Misuse::Stale)?;
        let (at, live) = (slot.link, slot.live.as_mut().ok_or(Misuse::Stale)?);
        let given = live.core.give(&self.store, node, generation, Some(word)).map_err(misuse)?;
        if self.spare_memory.is_none() {
            self.spare_memory = self.store.spare();
        }
        if given.empty {
            self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        }
        let (free, bound) = live.core.room();
        self.resettle(at, free, bound, u32::MAX);
        Ok((given.size, given.empty))
    }

    /// Gives several ranges of one block back that have `word`, all or none: neighbours among them are joined first. Their bytes, and
    /// whether the block is empty now; `None` where one of them is not there, is there twice, or has another word.
    pub(super) fn give_run(&mut self, block: u32, run: &[(u32, u32)], word: u32) -> Option<(u64, bool)> {
        let slot = self.slots.get_mut(block)?;
        let (at, live) = (slot.link, slot.live.as_mut()?);
        let mut bytes = 0u64;
        for (node, generation) in run {
            let found = live.core.get(&self.store, *node, *generation).ok().filter(|found| found.word == word)?;
            bytes = bytes.saturating_add(found.size);
        }
        let empty = live.core.give_batch(&self.store, run).ok()?;
        if self.spare_memory.is_none() {
            self.spare_memory = self.store.spare();
        }
        if empty {
            self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        }
        let (free, bound) = live.core.room();
        self.resettle(at, free, bound, u32::MAX);
        Some((bytes, empty))
    }

    /// After something was taken from the block at `at` or given back: its new numbers. What a search in vain has learnt holds as long as
    /// holes only get smaller.
    #[inline]
    fn resettle(&mut self, at: u32, free: u32, bound: u32, missed: u32) {
        if let Some(rank) = self.order.ranks.get_mut(at) {
            rank.free = free;
            rank.bound = bound;
            rank.missed = missed;
        }
        self.order.settle(&mut self.slots, at);
    }

    /// The live block, and its core.
    pub(super) fn block(&self, block: u32) -> Result<&LiveBlock, Misuse> {
        self.slots.get(block).and_then(|slot| slot.live.as_ref()).ok_or(Misuse::Stale)
    }

    pub(super) fn block_mut(&mut self, block: u32) -> Result<&mut LiveBlock, Misuse> {
        self.slots.get_mut(block).and_then(|slot| slot.live.as_mut()).ok_or(Misuse::Stale)
    }

    /// The block of a live range, and the range.
    pub(super) fn range(&self, block: u32, node: u32, generation: u32) -> Result<(&LiveBlock, Found), Misuse> {
        let live = self.block(block)?;
        Ok((live, live.core.get(&self.store, node, generation).map_err(misuse)?))
    }

    /// Changes the word of a live range.
    pub(super) fn set_word(&mut self, block: u32, node: u32, generation: u32, word: u32) -> Result<(), Misuse> {
        let live = self.slots.get_mut(block).and_then(|slot| slot.live.as_mut()).ok_or(Misuse::Stale)?;
        live.core.set_word(&self.store, node, generation, word).map_err(misuse)
    }

    /// Gives a live range its next generation.
    pub(super) fn renew(&mut self, block: u32, node: u32, generation: u32) -> Result<u32, Misuse> {
        let live = self.slots.get_mut(block).and_then(|slot| slot.live.as_mut()).ok_or(Misuse::Stale)?;
        live.core.renew(&self.store, node, generation).map_err(misuse)
    }

    /// Every piece of a block, in order of offset.
    pub(super) fn for_each(&self, live: &LiveBlock, see: &mut dyn FnMut(Span)) {
        live.core.for_each(&self.store, see);
    }

    /// A slot for a block that is to be made; `None` where there are `limit`, or the table has no room.
    pub(super) fn reserve(&mut self, limit: u32) -> Option<u32> {
        let block = if self.spare == NONE {
            let block = self.slots.len();
            if block >= limit || self.slots.push(BlockSlot { link: NONE, live: None }).is_err() {
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
        let rank = Rank { free, bound, missed: u32::MAX, block };
        self.empty_bytes = self.empty_bytes.saturating_add(live.object.size);
        if let Some(slot) = self.slots.get_mut(block) {
            slot.live = Some(live);
            self.order.insert(&mut self.slots, rank);
        }
    }

    /// Takes a block out, if nothing lies in it and nobody has it mapped; and its core's memory.
    pub(super) fn remove(&mut self, block: u32) -> Option<(Object, Option<Memory>)> {
        let slot = self.slots.get_mut(block)?;
        slot.live.as_ref().filter(|live| live.core.is_empty() && live.object.map.is_idle())?;
        let (at, mut live) = (slot.link, slot.live.take()?);
        let memory = live.core.dismantle(&self.store);
        self.empty_bytes = self.empty_bytes.saturating_sub(live.object.size);
        self.order.remove(&mut self.slots, at);
        self.unreserve(block);
        Some((live.object, memory))
    }

    /// The emptiest block, if it is empty and may go: the one that was tried last.
    pub(super) fn removable(&self) -> Option<u32> {
        let empty = |rank: &&Rank| self.block(rank.block).is_ok_and(|live| live.core.is_empty() && live.object.map.is_idle());
        self.order.ranks.as_slice().iter().rev().find(empty).map(|rank| rank.block)
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> u32 {
        self.order.ranks.len()
    }
}

/// What a core's refusal says about the caller.
pub(super) const fn misuse(refusal: Refusal) -> Misuse {
    match refusal {
        Refusal::ZeroSize => Misuse::ZeroSize,
        Refusal::Alignment | Refusal::Granule => Misuse::BadAlignment,
        Refusal::Word => Misuse::Held,
        _ => Misuse::Stale,
    }
}
