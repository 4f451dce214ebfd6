#![forbid(unsafe_code)]

use super::VirtualBlockError;
use super::free_index::{FreeIndex, FreeRange};
use super::granule_request::{Fit, GranuleRequest, RangeRequest};
use super::node::{ALIGNMENT_BITS, ALIGNMENT_SHIFT, NIL, NodeStore, OPTIMAL, RangeNode, SLACK_BYTES};
use crate::request::BlockAlgorithm;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

/// Blocks may share a [`NodeStore`] and a [`FreeIndex`]: every call must get the same ones.
#[derive(Debug)]
pub(crate) struct RangeAllocator {
    /// [`NIL`] while the block is one hole that has no node yet.
    pub(super) edge: u32,
    /// Granules.
    pub(super) count: u32,
    pub(super) granule_log2: u32,
    /// Granules.
    pub(super) free: u32,
    pub(super) live: u32,
    pub(super) free_ranges: Cell<u32>,
    pub(super) number: u32,
    /// Only pools have granules that are small enough for it.
    pub(super) is_pooled: bool,
    pub(super) serial: u64,
    pub(super) algorithm: BlockAlgorithm,
    /// The newest live range of a stack's (lower) end or of a ring; the edge if there is none.
    newest: u32,
}

impl RangeAllocator {
    /// Bytes after the last whole granule are never allocated. `granule` is a power of two up to 2^31.
    pub(crate) fn new(size: u64, granule: u64, algorithm: BlockAlgorithm) -> Result<Self, VirtualBlockError> {
        if !granule.is_power_of_two() || granule > 1 << 31 {
            return Err(VirtualBlockError::Granule);
        }
        let granule_log2 = granule.trailing_zeros();
        let count = u32::try_from(size >> granule_log2).map_err(|_| VirtualBlockError::TooLarge)?;
        if count == 0 {
            return Err(VirtualBlockError::ZeroSize);
        }
        if count == u32::MAX {
            return Err(VirtualBlockError::TooLarge);
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
            algorithm,
            newest: NIL,
        })
    }

    pub(crate) fn numbered(self, number: u32) -> Self {
        Self { number, is_pooled: true, ..self }
    }

    #[inline]
    pub(super) fn bytes(&self, granules: u32) -> u64 {
        u64::from(granules) << self.granule_log2
    }

    #[inline(always)]
    pub(crate) fn allocate(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        want: &RangeRequest,
    ) -> Result<VirtualRange, VirtualBlockError> {
        let granules = GranuleRequest::new(want, self.count, self.granule_log2)?;
        self.prepare(store, index)?;
        if self.algorithm.is_linear() {
            let placed = self.allocate_at_end(store, index, &granules, want);
            return placed.ok_or(VirtualBlockError::Full);
        }
        let found = match index.find(store, &granules) {
            Some(found) => found,
            None => (index.find_full(store, &granules)).ok_or(VirtualBlockError::Full)?,
        };
        Ok(self.carve(store, index, &found, want))
    }

    /// The block is not blank. [`Fit::High`] allocates at the upper end.
    pub(crate) fn allocate_at_end(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        granules: &GranuleRequest,
        want: &RangeRequest,
    ) -> Option<VirtualRange> {
        let holes = self.end_holes(store).into_iter();
        let hole = holes.filter(|hole| store.at(*hole).is_free()).find_map(|hole| {
            let node = store.at(hole);
            let begin = granules.begin_in(node.first.get(), node.count.get())?;
            Some(FreeRange::new(hole, node, begin, granules.count))
        })?;
        let range = self.carve(store, index, &hole, want);
        if want.fit == Fit::Low {
            self.newest = range.allocation.node;
        }
        Some(range)
    }

    /// A ring goes on at the first node.
    fn end_holes(&self, store: &NodeStore) -> [u32; 2] {
        let behind = store.at(self.newest).after.get();
        let first = store.at(self.edge).after.get();
        let goes_on = self.algorithm == BlockAlgorithm::Ring
            && behind != first
            && self.live_after(store, self.newest) == self.edge;
        [behind, if goes_on { first } else { self.edge }]
    }

    fn live_after(&self, store: &NodeStore, node: u32) -> u32 {
        let next = store.at(node).after.get();
        if store.at(next).is_free() { store.at(next).after.get() } else { next }
    }

    fn live_before(&self, store: &NodeStore, node: u32) -> u32 {
        let next = store.at(node).before.get();
        if store.at(next).is_free() { store.at(next).before.get() } else { next }
    }

    /// True if the order of a stack or a ring allows to free the range.
    pub(crate) fn is_next(&self, store: &NodeStore, node: u32) -> bool {
        let next = self.live_after(store, self.newest);
        match self.algorithm {
            BlockAlgorithm::General => true,
            BlockAlgorithm::Stack => node == self.newest,
            BlockAlgorithm::DoubleStack => node == self.newest || node == next,
            BlockAlgorithm::Ring if next == self.edge => node == self.live_after(store, self.edge),
            BlockAlgorithm::Ring => node == next,
        }
    }

    pub(crate) fn available_bytes(&self, store: &NodeStore) -> u64 {
        if !self.algorithm.is_linear() || self.is_blank() {
            return self.free_bytes();
        }
        let holes = self.end_holes(store).map(|hole| store.at(hole));
        let free = holes.into_iter().filter(|hole| hole.is_free());
        free.map(|hole| self.bytes(hole.count.get())).sum()
    }

    #[inline]
    fn prepare(&mut self, store: &NodeStore, index: &FreeIndex) -> Result<(), VirtualBlockError> {
        if self.is_blank() {
            self.begin(store, index)?;
        }
        if store.spare_nodes() < NODES_PER_RANGE {
            return Err(VirtualBlockError::TooManyRanges);
        }
        Ok(())
    }

    pub(crate) fn allocate_at(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        offset: u64,
        want: &RangeRequest,
    ) -> Result<VirtualRange, VirtualBlockError> {
        let request = GranuleRequest::new(want, self.count, self.granule_log2)?;
        if !offset.is_multiple_of(want.alignment.max(self.bytes(1))) {
            return Err(VirtualBlockError::Alignment);
        }
        let begin = u32::try_from(offset >> self.granule_log2).map_err(|_| VirtualBlockError::Full)?;
        self.prepare(store, index)?;
        let mut nodes = self.nodes(store);
        let hole = nodes.find(|(_, node)| begin - node.first.get() < node.count.get());
        let (id, node) = hole.ok_or(VirtualBlockError::Full)?;
        let usable = index.usable(store, node, want.is_optimal);
        let room = usable.and_then(|(first, count)| count.checked_sub(begin.checked_sub(first)?));
        if !node.is_free() || room.is_none_or(|room| request.count > room) {
            return Err(VirtualBlockError::Full);
        }
        let hole = FreeRange::new(id, node, begin, request.count);
        Ok(self.carve(store, index, &hole, want))
    }

    /// There must be [`NODES_PER_RANGE`] spare nodes.
    #[inline(always)]
    pub(crate) fn carve(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        hole: &FreeRange,
        want: &RangeRequest,
    ) -> VirtualRange {
        let old = store.at(hole.id);
        let note = old.slack.get();
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
        VirtualRange { allocation: VirtualAllocation { node: id, serial }, offset: self.bytes(hole.begin), size, note }
    }

    /// The part behind becomes another hole, of the same block or note.
    #[inline(never)]
    fn carve_behind(&self, store: &NodeStore, index: &FreeIndex, hole: &FreeRange, old: &RangeNode) -> u32 {
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
            index.insert(store, (rest, node), old.slack.get(), behind, tail);
            self.free_ranges.set(self.free_ranges.get() + 1);
        }
        id
    }

    #[inline]
    fn insert(store: &NodeStore, id: u32, node: &RangeNode, before: u32, after: u32) {
        node.before.set(before);
        node.after.set(after);
        store.at(before).after.set(id);
        store.at(after).before.set(id);
    }

    /// It needs no memory. An error is [`VirtualBlockError::Stale`], also if the range has other user data than `word`.
    #[inline]
    pub(crate) fn free(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        id: VirtualAllocation,
        word: Option<u32>,
    ) -> Result<u64, VirtualBlockError> {
        let node = Self::check_live(store.at_to_free(id.node), id.serial)?;
        if word.is_some_and(|word| word != node.word.get()) {
            return Err(VirtualBlockError::Stale);
        }
        if id.node == self.newest {
            self.newest = match self.live_before(store, id.node) {
                before if before == self.edge && self.algorithm == BlockAlgorithm::Ring => {
                    self.live_before(store, self.edge)
                }
                before => before,
            };
        }
        let count = node.count.get();
        self.live -= 1;
        self.free += count;
        if self.live == 0 {
            self.newest = self.edge;
        }
        self.join(store, index, id.node, count);
        Ok(self.bytes(count))
    }

    /// The joined hole has `note`, merged with those of the holes on either side. `merge` is called before anything
    /// changes.
    pub(crate) fn free_noted(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        id: VirtualAllocation,
        mut note: u32,
        merge: &mut dyn FnMut(u32, u32) -> u32,
    ) -> Result<(), VirtualBlockError> {
        let node = Self::check_live(store.at(id.node), id.serial)?;
        let mut joined = id.node;
        for neighbour in [node.after.get(), node.before.get()] {
            if store.at(neighbour).is_free() {
                note = merge(store.at(neighbour).slack.get(), note);
                joined = neighbour;
            }
        }
        self.free(store, index, id, None)?;
        store.at(joined).slack.set(note);
        Ok(())
    }

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

    #[cold]
    pub(crate) fn begin(&mut self, store: &NodeStore, index: &FreeIndex) -> Result<(), VirtualBlockError> {
        if !index.holds(self.count) || store.spare_nodes() < NODES_PER_BLOCK {
            return Err(VirtualBlockError::TooManyRanges);
        }
        self.edge = store.allocate_node();
        self.newest = self.edge;
        let id = store.allocate_node();
        let node = store.at(id);
        Self::insert(store, id, node, self.edge, self.edge);
        index.insert(store, (id, node), self.number, 0, self.count);
        index.note_growth(self.count);
        Ok(())
    }

    fn nodes<'s>(&self, store: &'s NodeStore) -> impl Iterator<Item = (u32, &'s RangeNode)> + use<'s> {
        let edge = self.edge;
        let mut at = if self.is_blank() { edge } else { store.at(edge).after.get() };
        core::iter::from_fn(move || {
            let id = at;
            let node = store.at(id);
            at = node.after.get();
            (id != edge).then_some((id, node))
        })
    }

    pub(crate) fn relist(&self, store: &NodeStore, from: &FreeIndex, to: &FreeIndex) {
        for (id, node) in self.nodes(store).filter(|(_, node)| node.is_free()) {
            let (first, count) = (node.first.get(), node.count.get());
            from.remove(store, node, count);
            to.insert(store, (id, node), self.number, first, count);
            to.note_growth(count);
        }
    }

    #[inline]
    fn live_node<'s>(&self, store: &'s NodeStore, id: VirtualAllocation) -> Result<&'s RangeNode, VirtualBlockError> {
        Self::check_live(store.at(id.node), id.serial)
    }

    #[inline]
    fn check_live(node: &RangeNode, serial: u64) -> Result<&RangeNode, VirtualBlockError> {
        if node.is_live(serial) { Ok(node) } else { Err(VirtualBlockError::Stale) }
    }

    #[inline]
    pub(crate) fn id_in_pool(&self, node: u32) -> VirtualAllocation {
        VirtualAllocation { node, serial: self.edge.into() }
    }

    /// The block is one hole that has no node yet.
    #[inline]
    pub(crate) fn is_blank(&self) -> bool {
        self.edge == NIL
    }

    #[inline]
    pub(crate) fn get(&self, store: &NodeStore, id: VirtualAllocation) -> Result<LiveRange, VirtualBlockError> {
        Ok(self.live_range(id.node, self.live_node(store, id)?))
    }

    #[inline]
    fn live_range(&self, id: u32, node: &RangeNode) -> LiveRange {
        let (size, slack) = (self.bytes(node.count.get()), node.slack.get());
        let (rest, alignment) =
            if self.is_pooled { (slack & SLACK_BYTES, slack >> ALIGNMENT_SHIFT & ALIGNMENT_BITS) } else { (slack, 0) };
        LiveRange {
            id: VirtualAllocation { node: id, serial: node.serial() },
            offset: self.bytes(node.first.get()),
            size,
            asked: size - u64::from(rest),
            alignment: 1 << alignment,
            user_data: node.word.get(),
            is_optimal: node.is_live_of(true),
        }
    }

    pub(crate) fn set_user_data(
        &self,
        store: &NodeStore,
        id: VirtualAllocation,
        word: u32,
    ) -> Result<(), VirtualBlockError> {
        self.live_node(store, id)?.word.set(word);
        Ok(())
    }

    pub(crate) fn size(&self) -> u64 {
        self.bytes(self.count)
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.bytes(self.free)
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.bytes(self.count - self.free)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    #[inline]
    pub(crate) fn granules(&self) -> u32 {
        self.count
    }

    /// The index has only this block.
    #[inline]
    pub(crate) fn largest_free_bound(&self, index: &FreeIndex) -> u64 {
        self.bytes(if self.is_blank() { self.count } else { index.largest_bound().min(self.free) })
    }

    pub(crate) fn largest_free(&self, store: &NodeStore, index: &FreeIndex) -> u64 {
        self.bytes(if self.is_blank() { self.count } else { index.largest(store) })
    }

    #[inline]
    pub(crate) fn each_live(&self, store: &NodeStore, mut see: impl FnMut(u32, u32)) {
        for (id, node) in self.nodes(store).filter(|(_, node)| !node.is_free()) {
            see(id, node.word.get());
        }
    }

    pub(crate) fn for_each(&self, store: &NodeStore, see: &mut dyn FnMut(Span)) {
        if self.is_blank() {
            return see(Span { offset: 0, size: self.size(), used: None });
        }
        for (id, node) in self.nodes(store) {
            see(Span {
                offset: self.bytes(node.first.get()),
                size: self.bytes(node.count.get()),
                used: (!node.is_free()).then(|| self.live_range(id, node)),
            });
        }
    }

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
        (self.edge, self.newest) = (NIL, NIL);
        (self.free, self.live) = (self.count, 0);
        self.free_ranges.set(1);
    }
}

/// High bits that no other block of the process has, and the number of the range.
#[inline]
fn next_serial(last: u64) -> u64 {
    let next = last.wrapping_add(1);
    if next as u32 == 0 { new_serials() } else { next }
}

#[cold]
fn new_serials() -> u64 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // 30 bits of them are stored.
    u64::from(NEXT.fetch_add(1, Ordering::Relaxed) << 2 >> 2) << 32
}

pub(crate) const NODES_PER_ALLOCATION: u32 = NODES_PER_BLOCK + NODES_PER_RANGE;
pub(crate) const NODES_PER_BLOCK: u32 = 2;
pub(crate) const NODES_PER_RANGE: u32 = 2;

/// The id of a live range of one [`VirtualBlock`](crate::VirtualBlock), or of a pool. It is stale after the range is
/// freed, and is never reissued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VirtualAllocation {
    pub(super) serial: u64,
    pub(crate) node: u32,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VirtualRange {
    /// Its id, for freeing it.
    pub allocation: VirtualAllocation,
    /// Its offset, a multiple of the requested alignment.
    pub offset: u64,
    /// The requested size, rounded up to the granule, or to the alignment if it is at least four alignments long and
    /// there is room.
    pub size: u64,
    /// The note of the hole that it was in: [`free_noted`](crate::VirtualBlock::free_noted). 0 where there is none.
    pub note: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveRange {
    pub(crate) id: VirtualAllocation,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) asked: u64,
    /// The required alignment; 1 if it is not stored.
    pub(crate) alignment: u64,
    pub(crate) user_data: u32,
    pub(crate) is_optimal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) used: Option<LiveRange>,
}
