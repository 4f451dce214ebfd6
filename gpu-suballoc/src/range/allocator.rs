//! The ranges of one block, in order of offset. Allocates from a free range and frees in constant time.

#![forbid(unsafe_code)]

use super::free_index::FreeIndex;
use super::free_index::{FreeRange, GranuleRequest};
use super::node::{
    ALIGNMENT_BITS, ALIGNMENT_SHIFT, NIL, NodeStore, OPTIMAL, RangeNode, SLACK_BYTES,
};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

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
    /// The serial of the last range, unless it is pooled.
    pub(super) serial: u64,
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
            serial: u64::MAX,
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
    /// 2^32 granules or more; [`RangeError::NoNodes`] without the reserve of store and index; [`RangeError::Full`].
    #[inline(always)]
    pub(crate) fn allocate(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        want: &RangeRequest,
    ) -> Result<AllocatedRange, RangeError> {
        let granules = GranuleRequest::new(want, self.count, self.granule_log2)?;
        self.prepare(store, index)?;
        let found = match index.find(store, &granules) {
            Some(found) => found,
            None => index.find_full(store, &granules).ok_or(RangeError::Full)?,
        };
        Ok(self.carve(store, index, &found, want))
    }

    /// Lists a blank block, and checks that there are nodes for a range.
    #[inline]
    fn prepare(&mut self, store: &NodeStore, index: &FreeIndex) -> Result<(), RangeError> {
        if self.is_blank() {
            self.begin(store, index)?;
        }
        if store.spare_nodes() < NODES_PER_RANGE {
            return Err(RangeError::NoNodes);
        }
        Ok(())
    }

    /// As [`allocate`](Self::allocate), at `offset`. Examines each range and hole in front of it.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); [`RangeError::Alignment`] if the offset is not a multiple of the alignment and the granule;
    /// [`RangeError::Full`] if the range is not completely free, or shares a page with a resource of the other kind.
    pub(crate) fn allocate_at(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        offset: u64,
        want: &RangeRequest,
    ) -> Result<AllocatedRange, RangeError> {
        let request = GranuleRequest::new(want, self.count, self.granule_log2)?;
        if !offset.is_multiple_of(want.alignment.max(self.bytes(1))) {
            return Err(RangeError::Alignment);
        }
        let begin = u32::try_from(offset >> self.granule_log2).map_err(|_| RangeError::Full)?;
        self.prepare(store, index)?;
        let mut nodes = self.nodes(store);
        let hole = nodes.find(|(_, node)| begin - node.first.get() < node.count.get());
        let (id, node) = hole.ok_or(RangeError::Full)?;
        let usable = index.usable(store, node, want.is_optimal);
        let room = usable.and_then(|(first, count)| count.checked_sub(begin.checked_sub(first)?));
        if !node.is_free() || room.is_none_or(|room| request.count > room) {
            return Err(RangeError::Full);
        }
        let hole = FreeRange {
            id,
            block: self.number,
            first: node.first.get(),
            count: node.count.get(),
            begin,
            granted: request.count,
        };
        Ok(self.carve(store, index, &hole, want))
    }

    /// Makes a part of a free range of this block a live range; the parts on either side stay free. There must be [`NODES_PER_RANGE`]
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
            hole.id
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
        let size = self.bytes(count);
        let rest = (size - want.asked) as u32;
        node.slack.set(if self.is_pooled {
            let alignment = want.alignment.trailing_zeros().min(ALIGNMENT_BITS);
            let kind = if want.is_optimal { OPTIMAL } else { 0 };
            rest.min(SLACK_BYTES) | alignment << ALIGNMENT_SHIFT | kind
        } else {
            rest
        });
        let serial = if self.is_pooled {
            u64::from(self.edge)
        } else {
            self.serial = next_serial(self.serial);
            self.serial
        };
        node.set_used(serial);
        self.free -= count;
        self.live += 1;
        AllocatedRange {
            id: RangeId { node: id, serial },
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
        id: RangeId,
        word: Option<u32>,
    ) -> Result<FreedRange, RangeError> {
        let node = Self::check_live(store.at_to_free(id.node), id.serial)?;
        if word.is_some_and(|word| word != node.word.get()) {
            return Err(RangeError::OtherUserData);
        }
        let (count, word) = (node.count.get(), node.word.get());
        let offset = self.bytes(node.first.get());
        self.live -= 1;
        self.free += count;
        self.join(store, index, id.node, count);
        Ok(FreedRange {
            offset,
            size: self.bytes(count),
            user_data: word,
            is_empty: self.live == 0,
        })
    }

    /// Makes a node that is no longer live a hole of `count` granules, or joins it with the holes before and after it.
    #[inline]
    fn join(&mut self, store: &NodeStore, index: &FreeIndex, id: u32, count: u32) {
        let node = store.at(id);
        let (before, after) = (node.before.get(), node.after.get());
        let (left, right) = (store.at(before), store.at(after));
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
    #[cold]
    pub(crate) fn begin(&mut self, store: &NodeStore, index: &FreeIndex) -> Result<(), RangeError> {
        if !index.holds(self.count) || store.spare_nodes() < NODES_PER_ALLOCATION {
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

    /// The nodes of the block in order of offset.
    fn nodes<'s>(
        &self,
        store: &'s NodeStore,
    ) -> impl Iterator<Item = (u32, &'s RangeNode)> + use<'s> {
        let edge = self.edge;
        let mut at = if self.is_blank() {
            edge
        } else {
            store.at(edge).after.get()
        };
        core::iter::from_fn(move || {
            let id = at;
            let node = store.at(id);
            at = node.after.get();
            (id != edge).then_some((id, node))
        })
    }

    /// Moves the block's free ranges from one index to another. Examines each node.
    pub(crate) fn relist(&self, store: &NodeStore, from: &FreeIndex, to: &FreeIndex) {
        for (id, node) in self.nodes(store).filter(|(_, node)| node.is_free()) {
            let (first, count) = (node.first.get(), node.count.get());
            from.remove(store, node, count);
            to.insert(store, (id, node), self.number, first, count);
            to.note_growth(count);
        }
    }

    /// The node of a live range of this block.
    #[inline]
    fn live_node<'s>(
        &self,
        store: &'s NodeStore,
        id: RangeId,
    ) -> Result<&'s RangeNode, RangeError> {
        Self::check_live(store.at(id.node), id.serial)
    }

    #[inline]
    fn check_live(node: &RangeNode, serial: u64) -> Result<&RangeNode, RangeError> {
        if node.is_live(serial) {
            Ok(node)
        } else {
            Err(RangeError::Stale)
        }
    }

    /// The id of a range of a pool: the id of its node in this block.
    #[inline]
    pub(crate) fn id_in_pool(&self, node: u32) -> RangeId {
        RangeId {
            node,
            serial: self.edge.into(),
        }
    }

    /// Whether the block is one hole that has no node yet.
    #[inline]
    pub(crate) fn is_blank(&self) -> bool {
        self.edge == NIL
    }

    /// The bytes at the end of a live range that were not requested, and its required alignment, which is 1 if it is not stored.
    #[inline]
    fn rest_and_alignment(&self, node: &RangeNode) -> (u64, u64) {
        let slack = node.slack.get();
        if self.is_pooled {
            let alignment = slack >> ALIGNMENT_SHIFT & ALIGNMENT_BITS;
            (u64::from(slack & SLACK_BYTES), 1 << alignment)
        } else {
            (u64::from(slack), 1)
        }
    }

    /// A live range.
    ///
    /// # Errors
    /// [`RangeError::Stale`].
    #[inline]
    pub(crate) fn get(&self, store: &NodeStore, id: RangeId) -> Result<LiveRange, RangeError> {
        let found = self.live_node(store, id)?;
        let size = self.bytes(found.count.get());
        Ok(LiveRange {
            offset: self.bytes(found.first.get()),
            size,
            asked: size - self.rest_and_alignment(found).0,
            alignment: self.rest_and_alignment(found).1,
            user_data: found.word.get(),
            is_optimal: found.is_live_of(true),
        })
    }

    /// Changes the user data of a live range.
    ///
    /// # Errors
    /// [`RangeError::Stale`].
    pub(crate) fn set_user_data(
        &self,
        store: &NodeStore,
        id: RangeId,
        word: u32,
    ) -> Result<(), RangeError> {
        self.live_node(store, id)?.word.set(word);
        Ok(())
    }

    /// Bytes of the block, in whole granules.
    pub(crate) fn size(&self) -> u64 {
        self.bytes(self.count)
    }

    /// Bytes of all holes.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.bytes(self.free)
    }

    /// Bytes of live ranges, rounded.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.bytes(self.count - self.free)
    }

    /// Number of live ranges.
    pub(crate) fn live_count(&self) -> u32 {
        self.live
    }

    /// Number of holes.
    pub(crate) fn free_range_count(&self) -> u32 {
        self.free_ranges.get()
    }

    /// Whether there is no live range.
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Granules of the block, and free granules.
    #[inline]
    pub(crate) fn granules(&self) -> (u32, u32) {
        (self.count, self.free)
    }

    /// An upper bound of the bytes of a hole, for an index of only this block: exact below 64 granules and after a failed search, otherwise
    /// up to 1/32 too high. Constant time.
    #[inline]
    pub(crate) fn largest_free_bound(&self, index: &FreeIndex) -> u64 {
        self.bytes(if self.is_blank() {
            self.count
        } else {
            index.largest_bound().min(self.free)
        })
    }

    /// Bytes of the largest hole, for an index of only this block. Examines each hole of the last bin.
    pub(crate) fn largest_free(&self, store: &NodeStore, index: &FreeIndex) -> u64 {
        self.bytes(if self.is_blank() {
            self.count
        } else {
            index.largest(store)
        })
    }

    /// Visits the live ranges in order of offset: node and user data.
    #[inline]
    pub(crate) fn each_live(&self, store: &NodeStore, mut see: impl FnMut(u32, u32)) {
        for (id, node) in self.nodes(store).filter(|(_, node)| !node.is_free()) {
            see(id, node.word.get());
        }
    }

    /// Visits every range and hole in order of offset.
    pub(crate) fn for_each(&self, store: &NodeStore, see: &mut dyn FnMut(Span)) {
        if self.is_blank() {
            return see(Span {
                offset: 0,
                size: self.size(),
                state: SpanState::Free,
            });
        }
        for (id, node) in self.nodes(store) {
            let size = self.bytes(node.count.get());
            let state = if node.is_free() {
                SpanState::Free
            } else {
                let (rest, alignment) = self.rest_and_alignment(node);
                SpanState::Used {
                    id: RangeId {
                        node: id,
                        serial: node.serial(),
                    },
                    asked: size - rest,
                    alignment,
                    user_data: node.word.get(),
                }
            };
            see(Span {
                offset: self.bytes(node.first.get()),
                size,
                state,
            });
        }
    }

    /// Frees all ranges: every id is stale from now on. Examines each node. Frees all nodes to the store and removes the block's holes from
    /// the index.
    pub(crate) fn clear(&mut self, store: &NodeStore, index: &FreeIndex) {
        if self.is_blank() {
            return;
        }
        for (id, node) in self.nodes(store) {
            if node.is_free() {
                index.remove(store, node, node.count.get());
            }
            store.free_node(id, node);
        }
        store.free_node(self.edge, store.at(self.edge));
        self.edge = NIL;
        (self.free, self.live) = (self.count, 0);
        self.free_ranges.set(1);
    }
}

/// The serial after `last`: high bits that no other block of the process has, and the number of the range. A block that has used its numbers
/// gets other high bits.
#[inline]
pub(super) fn next_serial(last: u64) -> u64 {
    let next = last.wrapping_add(1);
    if next as u32 == 0 {
        new_serials()
    } else {
        next
    }
}

#[cold]
fn new_serials() -> u64 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // 30 bits of them are stored.
    u64::from(NEXT.fetch_add(1, Ordering::Relaxed) << 2 >> 2) << 32
}

// Requests and results of a [`RangeAllocator`](super::RangeAllocator).

/// The most nodes that one allocation needs, and the reserve of a store: the first hole of a blank block and its edge, the range inside of
/// the hole, and the hole behind the range.
pub(crate) const NODES_PER_ALLOCATION: u32 = 2 + NODES_PER_RANGE;
/// Of these, those of the range inside of the hole, and of the hole behind it.
pub(crate) const NODES_PER_RANGE: u32 = 2;

/// The id of a live range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RangeId {
    pub(crate) serial: u64,
    pub(crate) node: u32,
}

/// A request for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeRequest {
    /// Bytes, at least 1.
    pub(crate) size: u64,
    /// The bytes of them that were requested: less a margin, and what keeps pages apart.
    pub(crate) asked: u64,
    /// Bytes, a power of two: the alignment of the offset in the block.
    pub(crate) alignment: u64,
    /// Stored with the range and returned when it is freed; not interpreted.
    pub(crate) user_data: u32,
    /// The end of the hole to allocate.
    pub(crate) fit: Fit,
    /// For an optimal image: in a pool where that matters, kept off the pages of other resources.
    pub(crate) is_optimal: bool,
}

/// The end of a hole to allocate: low for long-lived ranges, high for short-lived ranges, so that they do not fragment each other's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The lowest aligned offset.
    Low,
    /// The highest aligned offset.
    High,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllocatedRange {
    pub(crate) id: RangeId,
    /// Bytes, a multiple of the requested alignment.
    pub(crate) offset: u64,
    /// Bytes: the requested size, rounded up to granules, and to alignments if that adds at most a quarter.
    pub(crate) size: u64,
}

/// A freed range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedRange {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) user_data: u32,
    /// The block has no live range any more.
    pub(crate) is_empty: bool,
}

/// A live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveRange {
    pub(crate) offset: u64,
    /// In whole granules.
    pub(crate) size: u64,
    /// The requested size.
    pub(crate) asked: u64,
    /// The required alignment; 1 if it is not stored.
    pub(crate) alignment: u64,
    pub(crate) user_data: u32,
    /// As requested; false if it is not stored.
    pub(crate) is_optimal: bool,
}

/// A range or a hole of a block; together they tile the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) state: SpanState,
}

/// Whether a [`Span`] is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanState {
    Free,
    Used {
        id: RangeId,
        /// The requested size.
        asked: u64,
        /// The required alignment; 1 if it is not stored.
        alignment: u64,
        user_data: u32,
    },
}

/// Errors of a range allocator. An error changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeError {
    /// A size of 0.
    ZeroSize,
    /// An alignment that is not a power of two.
    Alignment,
    /// A granule that is not a power of two up to 2^31.
    Granule,
    /// More than the block could hold if it were empty, or a block with too many granules.
    TooLarge,
    /// No hole fits.
    Full,
    /// The store or the index lacks its reserve.
    NoNodes,
    /// The id is not that of a live range of this block.
    Stale,
    /// The range has other user data.
    OtherUserData,
}
