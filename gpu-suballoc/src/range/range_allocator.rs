//! The ranges of one block, in order of offset: allocation from a free range that was found, and freeing, in constant time.

#![forbid(unsafe_code)]

use core::cell::Cell;

use super::free_index::FreeIndex;
use super::free_search::{FreeRange, GranuleRequest};
use super::node::{ALIGNMENT_BITS, ALIGNMENT_SHIFT, NIL, NodeState, RangeNode, SLACK_BYTES};
use super::node_store::NodeStore;
use super::types::{
    AllocatedRange, FreedRange, MAX_GENERATION, NODES_PER_ALLOCATION, RangeError, RangeRequest,
};

/// Who has which bytes of a block. It knows nothing of locks and allocates no memory. Its nodes are in a [`NodeStore`] and its free ranges
/// in a [`FreeIndex`], which it may share with other blocks: every call is handed the same ones.
#[derive(Debug)]
pub(crate) struct RangeAllocator {
    /// The node between the last one and the first; [`NIL`]: the whole range is one hole, which has no node yet.
    pub(super) edge: u32,
    /// Granules.
    pub(super) count: u32,
    pub(super) granule_log2: u32,
    /// Granules.
    pub(super) free: u32,
    pub(super) live: u32,
    pub(super) free_ranges: Cell<u32>,
    /// Among the blocks of its index.
    pub(super) number: u32,
    /// Nodes remember the alignment that their ranges need: those of pools, whose granules are small enough for it.
    pub(super) is_pooled: bool,
}

impl RangeAllocator {
    /// For `size` bytes, of which what is left of the last whole granule is never allocated. Offsets begin at 0 and are multiples
    /// of `granule`, a power of two up to 2^31.
    ///
    /// # Errors
    /// [`RangeError::Granule`], [`RangeError::ZeroSize`] where not even one granule fits, [`RangeError::TooLarge`] above 2^32 - 2 granules.
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

    /// The same, as block `number` of a pool, whose blocks share an index.
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

    /// Allocates a range of the one block of an index. Constant time where there is room; else each free range that might fit is
    /// examined once.
    ///
    /// # Errors
    /// [`RangeError::ZeroSize`], [`RangeError::Alignment`]; [`RangeError::TooLarge`] for a size above the block's own, or an alignment of 2^32 granules;
    /// [`RangeError::NoNodes`] where [`FreeIndex::missing_capacity`] and [`NodeStore::missing_capacity`] were not asked before; [`RangeError::Full`].
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

    /// Makes a free range of this block a live range; what is left on either side stays free. [`NODES_PER_ALLOCATION`] nodes are there.
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

    /// The hole keeps its beginning; what is behind the range becomes another hole.
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

    /// The node of a hole that is allocated whole: its own, unless its generations are used up.
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

    /// Puts a node between two neighbours.
    #[inline]
    fn insert(store: &NodeStore, id: u32, node: &RangeNode, before: u32, after: u32) {
        node.before.set(before);
        node.after.set(after);
        store.at(before).after.set(id);
        store.at(after).before.set(id);
    }

    /// Frees a range and joins it with the holes on either side. Allocates nothing, cannot fail for lack of anything.
    ///
    /// # Errors
    /// [`RangeError::Stale`]; [`RangeError::OtherUserData`] where the range has another word than `word`, if there is one.
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

    /// Makes a node that is no longer live a hole of `count` granules, or a part of the holes before and after it.
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

    /// The whole range is one hole for the first time, or again, and listed.
    ///
    /// # Errors
    /// [`RangeError::NoNodes`] where the nodes for it are not there, or the index has no memory for its size.
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

    /// Lists the block's free ranges in another index than before. It costs a look at each node.
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
