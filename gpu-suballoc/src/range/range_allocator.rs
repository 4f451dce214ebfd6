//! The ranges of one block, in order of offset. Allocates from a free range and frees in constant time.

#![forbid(unsafe_code)]

use core::cell::Cell;

use super::free_index::FreeIndex;
use super::free_search::{FreeRange, GranuleRequest};
use super::node::{ALIGNMENT_BITS, ALIGNMENT_SHIFT, NIL, NodeState, RangeNode, SLACK_BYTES};
use super::node_store::NodeStore;
use super::types::{
    AllocatedRange, FreedRange, MAX_GENERATION, NODES_PER_ALLOCATION, RangeError, RangeRequest,
};

/// The live and free ranges of a block. It uses no locks and allocates no memory. Its nodes are in a [`NodeStore`] and its free ranges in a
/// [`FreeIndex`], which it may share with other blocks: every call must receive the same store and index.
#[derive(Debug)]
pub(crate) struct RangeAllocator {
    /// The node between the last node and the first; [`NIL`]: the block is one hole that has no node yet.
    pub(super) edge: u32,
    /// Granules.
    pub(super) count: u32,
    pub(super) granule_log2: u32,
    /// Granules.
    pub(super) free: u32,
    pub(super) live: u32,
    pub(super) free_ranges: Cell<u32>,
    /// The block's number in its index.
    pub(super) number: u32,
    /// Whether nodes store the required alignment of their ranges. Only in pools, whose granules are small enough for it.
    pub(super) is_pooled: bool,
}

impl RangeAllocator {
    /// A block of `size` bytes; bytes after the last whole granule are never allocated. Offsets start at 0 and are multiples of `granule`,
    /// a power of two up to 2^31.
    ///
    /// # Errors
    /// [`RangeError::Granule`], [`RangeError::ZeroSize`] if `size` is less than one granule, [`RangeError::TooLarge`] above 2^32 - 2
    /// granules.
    pub(crate) fn new(size: u64, granule: u64) -> Result<Self, RangeError> {
        if !granule.is_power_of_two() || granule > 1 << 31 {
            return Err(RangeError::Granule);
        }
        let granule_log2 = granule.trailing_zeros();
        let count = u32::try_from(size >> granule_log2).map_err(|_| RangeError::TooLarge)?;
        if count == 0 {
            return Err(RangeError::ZeroSize);
        }
        if count == u32::MAX {
            return Err(RangeError::TooLarge);
        }
        Ok(Self {
            edge: NIL,
            count,
            granule_log2,
            free: count,
            live: 0,
            free_ranges: Cell::new(1),
            number: 0,
            is_pooled: false,
        })
    }

    /// The same block as block `number` of a pool, whose blocks share an index.
    pub(crate) fn numbered(self, number: u32) -> Self {
        Self {
            number,
            is_pooled: true,
            ..self
        }
    }

    #[inline]
    pub(super) fn bytes(&self, granules: u32) -> u64 {
        u64::from(granules) << self.granule_log2
    }

    /// Allocates a range, for an index of only this block. Constant time if the quick search finds a free range; otherwise examines each
    /// free range that might fit.
    ///
    /// # Errors
    /// [`RangeError::ZeroSize`], [`RangeError::Alignment`]; [`RangeError::TooLarge`] for a size above the block's size, or an alignment of
    /// 2^32 granules or more; [`RangeError::NoNodes`] if memory is missing: see [`FreeIndex::missing_capacity`] and
    /// [`NodeStore::missing_capacity`]; [`RangeError::Full`].
    #[inline(always)]
    pub(crate) fn allocate(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        want: &RangeRequest,
    ) -> Result<AllocatedRange, RangeError> {
        let granules = GranuleRequest::new(want, self.count, self.granule_log2)?;
        if store.spare_nodes() < NODES_PER_ALLOCATION {
            return Err(RangeError::NoNodes);
        }
        let found = match index.find(store, &granules) {
            Some(found) => found,
            None => self.find_slowly(store, index, &granules)?,
        };
        Ok(self.carve(store, index, &found, want))
    }

    #[cold]
    fn find_slowly(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        want: &GranuleRequest,
    ) -> Result<FreeRange, RangeError> {
        if self.is_blank() {
            self.begin(store, index)?;
            return index.find(store, want).ok_or(RangeError::Full);
        }
        index.find_full(store, want).ok_or(RangeError::Full)
    }

    /// Makes a part of a free range of this block a live range; the parts on either side stay free. There must be [`NODES_PER_ALLOCATION`]
    /// spare nodes.
    #[inline(always)]
    pub(crate) fn carve(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        hole: &FreeRange,
        want: &RangeRequest,
    ) -> AllocatedRange {
        let old = store.at(hole.id);
        let count = hole.granted;
        let tail = hole.count - count;
        let id = if hole.begin != hole.first {
            self.carve_behind(store, index, hole, old)
        } else if tail == 0 {
            index.remove(store, old, count);
            self.free_ranges.set(self.free_ranges.get() - 1);
            Self::own_or_fresh(store, hole.id, old)
        } else {
            let id = store.allocate_node();
            Self::insert(store, id, store.at(id), old.before.get(), hole.id);
            let behind = hole.begin + count;
            index.resize(store, (hole.id, old), hole.count, behind, tail);
            id
        };
        let node = store.at(id);
        node.set_range(hole.begin, count);
        node.word.set(want.user_data);
        node.link.set(self.edge);
        let size = self.bytes(count);
        let rest = (size - want.size) as u32;
        node.slack.set(if self.is_pooled {
            let alignment = want.alignment.trailing_zeros().min(ALIGNMENT_BITS);
            rest.min(SLACK_BYTES) | alignment << ALIGNMENT_SHIFT
        } else {
            rest
        });
        node.set_state(NodeState::Used);
        self.free -= count;
        self.live += 1;
        AllocatedRange {
            node: id,
            generation: node.generation(),
            offset: self.bytes(hole.begin),
            size,
        }
    }

    /// Carves a range inside of a hole. The hole keeps the part in front of the range; the part behind the range becomes another hole.
    #[inline(never)]
    fn carve_behind(
        &self,
        store: &NodeStore,
        index: &FreeIndex,
        hole: &FreeRange,
        old: &RangeNode,
    ) -> u32 {
        let lead = hole.begin - hole.first;
        let tail = hole.count - lead - hole.granted;
        let (id, after) = (store.allocate_node(), old.after.get());
        Self::insert(store, id, store.at(id), hole.id, after);
        index.resize(store, (hole.id, old), hole.count, hole.first, lead);
        if tail > 0 {
            let rest = store.allocate_node();
            let node = store.at(rest);
            Self::insert(store, rest, node, id, after);
            let behind = hole.begin + hole.granted;
            index.insert(store, (rest, node), self.number, behind, tail);
            self.free_ranges.set(self.free_ranges.get() + 1);
        }
        id
    }

    /// The node for a hole that is allocated completely: the hole's node, or a fresh node if its generations are used up.
    #[inline]
    fn own_or_fresh(store: &NodeStore, hole: u32, old: &RangeNode) -> u32 {
        if old.generation() <= MAX_GENERATION {
            return hole;
        }
        let node = store.allocate_node();
        Self::insert(
            store,
            node,
            store.at(node),
            old.before.get(),
            old.after.get(),
        );
        store.free_node(hole, old);
        node
    }

    /// Inserts a node between two neighbours.
    #[inline]
    fn insert(store: &NodeStore, id: u32, node: &RangeNode, before: u32, after: u32) {
        node.before.set(before);
        node.after.set(after);
        store.at(before).after.set(id);
        store.at(after).before.set(id);
    }

    /// Frees a range and joins it with the holes on either side. Needs no memory and no nodes.
    ///
    /// # Errors
    /// [`RangeError::Stale`]; [`RangeError::OtherUserData`] if `word` is given and the range has other user data.
    #[inline]
    pub(crate) fn free(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        (id, generation): (u32, u32),
        word: Option<u32>,
    ) -> Result<FreedRange, RangeError> {
        let node = self.check_live(store.named_to_free(id), generation)?;
        if word.is_some_and(|word| word != node.word.get()) {
            return Err(RangeError::OtherUserData);
        }
        let (count, word) = (node.count.get(), node.word.get());
        let offset = self.bytes(node.first.get());
        node.outdate(NodeState::Leaving);
        self.live -= 1;
        self.free += count;
        let (size, empty) = (self.bytes(count), self.live == 0);
        let (before, after) = (node.before.get(), node.after.get());
        self.join(store, index, id, count, (before, after));
        Ok(FreedRange {
            offset,
            size,
            user_data: word,
            is_empty: empty,
        })
    }

    /// Makes a node that is no longer live a hole of `count` granules, or joins it with the holes before and after it.
    #[inline]
    pub(super) fn join(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        id: u32,
        count: u32,
        (before, after): (u32, u32),
    ) {
        let (node, left, right) = (store.at(id), store.at(before), store.at(after));
        let first = node.first.get();
        let (left_count, right_count) = (left.count.get(), right.count.get());
        let mut sum = count;
        if right.is_free() {
            sum += right_count;
            if left.is_free() {
                index.remove(store, right, right_count);
                let beyond = right.after.get();
                left.after.set(beyond);
                store.at(beyond).before.set(before);
                sum += left_count;
                let start = left.first.get();
                index.resize(store, (before, left), left_count, start, sum);
                store.free_node(after, right);
                self.free_ranges.set(self.free_ranges.get() - 1);
            } else {
                left.after.set(after);
                right.before.set(before);
                index.resize(store, (after, right), right_count, first, sum);
            }
            store.free_node(id, node);
        } else if left.is_free() {
            left.after.set(after);
            right.before.set(before);
            sum += left_count;
            let start = left.first.get();
            index.resize(store, (before, left), left_count, start, sum);
            store.free_node(id, node);
        } else {
            index.insert(store, (id, node), self.number, first, count);
            self.free_ranges.set(self.free_ranges.get() + 1);
        }
        index.note_growth(sum);
    }

    /// Creates the nodes of a blank block and lists its hole.
    ///
    /// # Errors
    /// [`RangeError::NoNodes`] if nodes are missing, or the index has no memory for a hole of this size.
    pub(crate) fn begin(&mut self, store: &NodeStore, index: &FreeIndex) -> Result<(), RangeError> {
        if index.missing_capacity(self.count).is_some()
            || store.spare_nodes() < NODES_PER_ALLOCATION
        {
            return Err(RangeError::NoNodes);
        }
        self.edge = store.allocate_node();
        store.at(self.edge).word.set(self.number);
        let id = store.allocate_node();
        let node = store.at(id);
        Self::insert(store, id, node, self.edge, self.edge);
        index.insert(store, (id, node), self.number, 0, self.count);
        index.note_growth(self.count);
        Ok(())
    }

    /// Moves the block's free ranges from one index to another. Examines each node.
    pub(crate) fn relist(&self, store: &NodeStore, from: &FreeIndex, to: &FreeIndex) {
        let mut at = store.at(self.edge).after.get();
        while !self.is_blank() && at != self.edge {
            let node = store.at(at);
            if node.is_free() {
                let (first, count) = (node.first.get(), node.count.get());
                from.remove(store, node, count);
                to.insert(store, (at, node), self.number, first, count);
                to.note_growth(count);
            }
            at = node.after.get();
        }
    }
}
