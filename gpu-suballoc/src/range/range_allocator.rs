//! Taking and giving back, in constant time.

#![forbid(unsafe_code)]

use core::cell::Cell;

use super::bin_heads::BinHeads;
use super::bins::{Bins, bin_of};
use super::node::{NIL, NodeState, RangeNode};
use super::node_store::NodeStore;
use super::rounding::{align_down, align_up, round_request};
use super::types::{
    AllocatedRange, Fit, FreedRange, MAX_GENERATION, NODES_PER_ALLOCATION, RangeError,
    RangeRequest, Search,
};

/// Who has which bytes of a block. It knows nothing of locks and takes no memory: that is [donated](RangeAllocator::grow_with). Its nodes are in
/// a [`NodeStore`], always the same one, which it may share with others.
#[derive(Debug)]
pub(crate) struct RangeAllocator {
    pub(super) bins: Bins,
    pub(super) bin_heads: BinHeads,
    /// The node between the last one and the first; [`NIL`]: the whole range is one hole, which has no node yet.
    pub(super) edge: u32,
    /// Granules.
    pub(super) count: u32,
    pub(super) granule_log2: u32,
    /// Granules.
    pub(super) free: u32,
    pub(super) live: u32,
    pub(super) free_ranges: Cell<u32>,
    /// No hole fits a request of so many granules and so great an alignment, or more: what the last full search in vain learnt.
    /// (`u32::MAX` granules: it knows nothing.)
    pub(super) failed_fit: (u32, u32),
}

/// A hole that a request fits into.
#[derive(Clone, Copy)]
struct FreeRange {
    id: u32,
    first: u32,
    count: u32,
    /// Where the request begins.
    begin: u32,
}

impl FreeRange {
    fn of(store: &NodeStore, id: u32, count: u32, alignment: u32, fit: Fit) -> Option<Self> {
        let node = store.at(id);
        Self::fits(
            id,
            node.first.get(),
            node.count.get(),
            count,
            alignment,
            fit,
        )
    }

    fn fits(id: u32, first: u32, size: u32, count: u32, alignment: u32, fit: Fit) -> Option<Self> {
        let room = size.checked_sub(count)?;
        let last = u64::from(first) + u64::from(room);
        let begin = match fit {
            Fit::Low => align_up(u64::from(first), u64::from(alignment))?,
            Fit::High => align_down(last, u64::from(alignment))?,
        };
        if u64::from(first) <= begin && begin <= last {
            Some(Self {
                id,
                first,
                count: size,
                begin: begin as u32,
            })
        } else {
            None
        }
    }
}

impl RangeAllocator {
    /// For `size` bytes, of which what is left of the last whole granule is never given out. Offsets begin at 0 and are multiples
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
            bins: Bins::default(),
            bin_heads: BinHeads::new(bin_of(count) + 1),
            edge: NIL,
            count,
            granule_log2,
            free: count,
            live: 0,
            free_ranges: Cell::new(1),
            failed_fit: (u32::MAX, 1),
        })
    }

    #[inline]
    pub(super) fn bytes(&self, granules: u32) -> u64 {
        u64::from(granules) << self.granule_log2
    }

    /// Size and alignment in granules.
    #[inline(always)]
    fn granules(&self, want: &RangeRequest) -> Result<(u32, u32), RangeError> {
        let conformed = round_request(want.size, want.alignment, self.granule_log2)?;
        let (count, alignment) = (
            conformed.size >> self.granule_log2,
            conformed.alignment >> self.granule_log2,
        );
        if count > u64::from(self.count) || alignment > u64::from(u32::MAX) {
            return Err(RangeError::TooLarge);
        }
        // Above the core's size offset 0 alone is a multiple: what memory objects promise, of whatever alignment.
        let alignment = alignment.min(u64::from(self.count).next_power_of_two());
        Ok((count as u32, alignment as u32))
    }

    /// Takes a range. Constant time, but for what [`Search::Full`] does before it says [`RangeError::Full`].
    ///
    /// # Errors
    /// [`RangeError::ZeroSize`], [`RangeError::Alignment`]; [`RangeError::TooLarge`] for a size above the core's own, or an alignment of 2^32 granules;
    /// [`RangeError::NoNodes`] where [`missing_capacity`](Self::missing_capacity) and [`NodeStore::missing_capacity`] were not asked before; [`RangeError::Full`].
    #[inline(always)]
    pub(crate) fn allocate(
        &mut self,
        store: &NodeStore,
        want: &RangeRequest,
    ) -> Result<AllocatedRange, RangeError> {
        let (count, alignment) = self.granules(want)?;
        if store.spare_nodes() < NODES_PER_ALLOCATION {
            return Err(RangeError::NoNodes);
        }
        // What is found here stays in registers all the way.
        if alignment == 1
            && let Some(found) = self.find(store, count, want.fit)
        {
            return Ok(self.carve(store, found, count, want));
        }
        self.allocate_slowly(store, want, count, alignment)
    }

    /// Where an alignment matters, or the quick search found nothing.
    #[inline(never)]
    fn allocate_slowly(
        &mut self,
        store: &NodeStore,
        want: &RangeRequest,
        count: u32,
        alignment: u32,
    ) -> Result<AllocatedRange, RangeError> {
        let quick = if alignment > 1 {
            self.find_aligned(store, count, alignment, want.fit)
        } else {
            None
        };
        let found = match quick {
            Some(found) => found,
            None => self.find_full(store, count, alignment, want)?,
        };
        Ok(self.carve(store, found, count, want))
    }

    /// The quick search: the first hole of the request's own bin, or the first of the next bin, where all are large enough.
    #[inline(always)]
    fn find(&self, store: &NodeStore, count: u32, fit: Fit) -> Option<FreeRange> {
        let own = bin_of(count);
        let mut id = self.bin_heads.at(own)?.get();
        let mut node = store.at(id);
        // No node is of no size: an empty bin is passed over by the same comparison.
        if node.count.get() < count {
            id = self.bin_heads.at(self.bins.from(own + 1)?)?.get();
            node = store.at(id);
        }
        let (first, size) = (node.first.get(), node.count.get());
        let begin = if fit == Fit::Low {
            first
        } else {
            first + (size - count)
        };
        Some(FreeRange {
            id,
            first,
            count: size,
            begin,
        })
    }

    /// For an alignment the same, and then the first of a bin where any hole does.
    #[inline]
    fn find_aligned(
        &self,
        store: &NodeStore,
        count: u32,
        alignment: u32,
        fit: Fit,
    ) -> Option<FreeRange> {
        let front =
            |bin| FreeRange::of(store, self.bin_heads.at(bin)?.get(), count, alignment, fit);
        let own = bin_of(count);
        if let Some(hole) = front(own) {
            return Some(hole);
        }
        if let Some(hole) = front(self.bins.from(own + 1)?) {
            return Some(hole);
        }
        let sure = bin_of(count.checked_add(alignment - 1)?) + 1;
        front(self.bins.from(sure)?)
    }

    /// Every hole that might do. It costs one look at each hole of the request's own bin; for an alignment above the granule, at each
    /// hole between the request's size and the size with which it fits anyhow. A search in vain is remembered: until a hole appears
    /// that is as large as the request, the next one of its kind costs nothing.
    #[cold]
    fn find_full(
        &mut self,
        store: &NodeStore,
        count: u32,
        alignment: u32,
        want: &RangeRequest,
    ) -> Result<FreeRange, RangeError> {
        if self.is_blank() {
            self.begin(store)?;
            return self
                .find_aligned(store, count, alignment, want.fit)
                .ok_or(RangeError::Full);
        }
        if want.search == Search::Quick
            || (count >= self.failed_fit.0 && alignment >= self.failed_fit.1)
        {
            return Err(RangeError::Full);
        }
        let sure = bin_of(count.saturating_add(alignment - 1));
        let mut at = self.bins.from(bin_of(count));
        while let Some(bin) = at.filter(|&bin| bin <= sure) {
            let mut id = self.bin_heads.at(bin).map_or(NIL, Cell::get);
            while id != NIL {
                if let Some(hole) = FreeRange::of(store, id, count, alignment, want.fit) {
                    return Ok(hole);
                }
                id = store.at(id).link.get();
            }
            at = self.bins.from(bin + 1);
        }
        self.failed_fit = (count, alignment);
        Err(RangeError::Full)
    }

    /// Makes `count` granules of a hole a live range; what is left on either side stays free. The nodes are there.
    #[inline(always)]
    fn carve(
        &mut self,
        store: &NodeStore,
        hole: FreeRange,
        count: u32,
        want: &RangeRequest,
    ) -> AllocatedRange {
        let old = store.at(hole.id);
        let tail = hole.count - count;
        let id = if hole.begin != hole.first {
            self.carve_behind(store, hole, old, count)
        } else if tail == 0 {
            self.remove_free(store, old, count);
            self.free_ranges.set(self.free_ranges.get() - 1);
            Self::own_or_fresh(store, hole.id, old)
        } else {
            let id = store.allocate_node();
            Self::insert(store, id, store.at(id), old.before.get(), hole.id);
            self.resize_free(store, hole.id, old, hole.count, hole.begin + count, tail);
            id
        };
        let node = store.at(id);
        node.set_range(hole.begin, count);
        node.word.set(want.user_data);
        node.link.set(self.edge);
        let size = self.bytes(count);
        node.slack.set((size - want.size) as u32);
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
    fn carve_behind(&self, store: &NodeStore, hole: FreeRange, old: &RangeNode, count: u32) -> u32 {
        let lead = hole.begin - hole.first;
        let tail = hole.count - lead - count;
        let (id, after) = (store.allocate_node(), old.after.get());
        Self::insert(store, id, store.at(id), hole.id, after);
        self.resize_free(store, hole.id, old, hole.count, hole.first, lead);
        if tail > 0 {
            let rest = store.allocate_node();
            let node = store.at(rest);
            Self::insert(store, rest, node, id, after);
            self.insert_free(store, rest, node, hole.begin + count, tail);
            self.free_ranges.set(self.free_ranges.get() + 1);
        }
        id
    }

    /// The node of a hole that is taken whole: its own, unless its generations are used up.
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

    /// Gives a range back and joins it with the holes on either side. Takes nothing, cannot fail for lack of anything.
    ///
    /// # Errors
    /// [`RangeError::Stale`]; [`RangeError::OtherUserData`] where the range has another word than `word`, if there is one.
    #[inline]
    pub(crate) fn free(
        &mut self,
        store: &NodeStore,
        id: u32,
        generation: u32,
        word: Option<u32>,
    ) -> Result<FreedRange, RangeError> {
        let node = self.live_node(store, id, generation)?;
        if word.is_some_and(|word| word != node.word.get()) {
            return Err(RangeError::OtherUserData);
        }
        let (first, count, word) = (node.first.get(), node.count.get(), node.word.get());
        node.outdate(NodeState::Leaving);
        self.live -= 1;
        self.free += count;
        let (offset, size, empty) = (self.bytes(first), self.bytes(count), self.live == 0);
        let (before, after) = (node.before.get(), node.after.get());
        self.join(store, id, first, count, before, after);
        Ok(FreedRange {
            offset,
            size,
            user_data: word,
            is_empty: empty,
        })
    }

    /// Makes a node that is no longer live a hole, or a part of the holes beside it.
    #[inline]
    pub(super) fn join(
        &mut self,
        store: &NodeStore,
        id: u32,
        first: u32,
        count: u32,
        before: u32,
        after: u32,
    ) {
        let (node, left, right) = (store.at(id), store.at(before), store.at(after));
        let (left_count, right_count) = (left.count.get(), right.count.get());
        let mut sum = count;
        if right.is_free() {
            sum += right_count;
            if left.is_free() {
                self.remove_free(store, right, right_count);
                let beyond = right.after.get();
                left.after.set(beyond);
                store.at(beyond).before.set(before);
                sum += left_count;
                self.resize_free(store, before, left, left_count, left.first.get(), sum);
                store.free_node(after, right);
                self.free_ranges.set(self.free_ranges.get() - 1);
            } else {
                left.after.set(after);
                right.before.set(before);
                self.resize_free(store, after, right, right_count, first, sum);
            }
            store.free_node(id, node);
        } else if left.is_free() {
            left.after.set(after);
            right.before.set(before);
            sum += left_count;
            self.resize_free(store, before, left, left_count, left.first.get(), sum);
            store.free_node(id, node);
        } else {
            self.insert_free(store, id, node, first, count);
            self.free_ranges.set(self.free_ranges.get() + 1);
        }
        if sum >= self.failed_fit.0 {
            self.failed_fit.0 = u32::MAX;
        }
    }

    /// The whole range is one hole for the first time, or again.
    fn begin(&mut self, store: &NodeStore) -> Result<(), RangeError> {
        if self.bin_heads.missing_capacity().is_some() || store.spare_nodes() < NODES_PER_ALLOCATION
        {
            return Err(RangeError::NoNodes);
        }
        (self.edge, self.failed_fit) = (store.allocate_node(), (u32::MAX, 1));
        let id = store.allocate_node();
        let node = store.at(id);
        Self::insert(store, id, node, self.edge, self.edge);
        self.insert_free(store, id, node, 0, self.count);
        Ok(())
    }
}
