//! The free ranges of one block or of many blocks: a list for each bin, and the set of bins that are not empty.
//!
//! ```text
//!   bins:  1 2 3 .. 63 | 64 .. 95 | ..        a bit for each bin that is not empty
//!            |            |
//!   heads:   n            n                   the first free range of the bin
//!            |            |
//!            n -> n       n -> n -> n         nodes of any block; a free node's `slack` is the number of its block
//! ```
//!
//! All blocks of a pool share one index: the best fit among all blocks costs as much as in one block, and a block needs
//! no table.

#![forbid(unsafe_code)]

use super::granule_request::{Fit, GranuleRequest};
use super::node::{NIL, NodeState, NodeStore, RangeNode};
use crate::growable_vec::GrowableVec;
use crate::host_memory::{GrowableTable, HostBlock};
use core::alloc::Layout;
use core::cell::Cell;

/// How many free ranges are examined to insert one in order. Of 210 000 requests of a churn at 100, 102 and 105 % of
/// its peak 542, 239 and 14 are refused with 2; with 1 545, 279, 21; with 0 708, 343, 41. A crowded store examines
/// none: each is a cache miss.
const STEPS: u32 = 2;

/// The lists change through `&self`; memory is added and removed through `&mut self`. Without memory ranges may be
/// inserted and removed, but no search finds them.
#[derive(Debug)]
pub(crate) struct FreeIndex {
    pub(super) bins: Bins,
    heads: GrowableVec<Cell<u32>>,
    largest: u32,
    /// Granules: optimal images share no page of this size with other resources. 1 where kinds do not matter.
    page: u32,
    /// Granules and alignment of the last full search that failed, for an optimal image and for another resource.
    /// (`u32::MAX` granules: nothing is known.)
    failed_fit: [Cell<(u32, u32)>; 2],
}

impl FreeIndex {
    pub(crate) const fn new(page: u32) -> Self {
        Self {
            bins: Bins::new(),
            heads: GrowableVec::new(),
            largest: 0,
            page,
            failed_fit: [const { Cell::new((u32::MAX, 1)) }; 2],
        }
    }

    #[inline]
    pub(super) fn head(&self, bin: u32) -> Option<&Cell<u32>> {
        self.heads.get(bin)
    }

    pub(crate) fn admit(&mut self, granules: u32) {
        self.largest = self.largest.max(granules);
    }

    #[inline]
    pub(crate) fn largest_block(&self) -> u32 {
        self.largest
    }

    pub(crate) fn holds(&self, granules: u32) -> bool {
        self.head(bin_of(granules)).is_some()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.heads.memory_bytes()
    }

    /// The bound is exact below 64 granules and after a failed search, otherwise up to 1/32 too high.
    #[inline]
    pub(crate) fn largest_bound(&self) -> u32 {
        let Some(bin) = self.bins.last() else {
            return 0;
        };
        let [(count, alignment), _] = self.failed_fit.each_ref().map(Cell::get);
        let known = if alignment == 1 && self.page == 1 { count.saturating_sub(1) } else { u32::MAX };
        largest_of(bin).min(known)
    }

    pub(crate) fn largest(&self, store: &NodeStore) -> u32 {
        let mut largest = 0;
        let mut hole = self.bins.last().and_then(|bin| self.head(bin)).map_or(NIL, Cell::get);
        while hole != NIL {
            let node = store.at(hole);
            largest = largest.max(node.count.get());
            hole = node.link.get();
        }
        largest
    }

    #[inline]
    pub(super) fn note_growth(&self, granules: u32) {
        for failed in &self.failed_fit {
            let (count, alignment) = failed.get();
            if granules >= count {
                failed.set((u32::MAX, alignment));
            }
        }
    }

    #[inline]
    pub(super) fn insert(
        &self,
        store: &NodeStore,
        (hole, node): (u32, &RangeNode),
        block: u32,
        first: u32,
        count: u32,
    ) {
        node.set_state(NodeState::Free);
        node.set_range(first, count);
        node.slack.set(block);
        self.insert_into_bin(store, bin_of(count), hole, node);
    }

    /// The lowest range stays at the front, so that the high end of blocks, and the last blocks, get free.
    #[inline]
    fn insert_into_bin(&self, store: &NodeStore, bin: u32, hole: u32, node: &RangeNode) {
        let Some(head) = self.head(bin) else {
            return node.set_place(NIL, NIL);
        };
        let old = head.get();
        if old == NIL {
            node.set_place(NIL, NIL);
            head.set(hole);
            return self.bins.set(bin);
        }
        let (place, mut front) = (place_of(node), store.at(old));
        if store.is_crowded() || place < place_of(front) {
            front.word.set(hole);
            node.set_place(NIL, old);
            return head.set(hole);
        }
        let (mut ahead, mut behind) = (old, front.link.get());
        for _ in 0..STEPS {
            let next = store.at(behind);
            if behind == NIL || place < place_of(next) {
                break;
            }
            (ahead, front, behind) = (behind, next, next.link.get());
        }
        front.link.set(hole);
        node.set_place(ahead, behind);
        store.at(behind).word.set(hole);
    }

    #[inline]
    pub(super) fn remove(&self, store: &NodeStore, node: &RangeNode, count: u32) {
        self.remove_from_bin(store, bin_of(count), node);
    }

    #[inline]
    fn remove_from_bin(&self, store: &NodeStore, bin: u32, node: &RangeNode) {
        let (front, behind) = (node.word.get(), node.link.get());
        store.at(behind).word.set(front);
        if front != NIL {
            return store.at(front).link.set(behind);
        }
        if let Some(head) = self.head(bin) {
            head.set(behind);
        }
        if behind == NIL {
            self.bins.clear(bin);
        }
    }

    #[inline]
    pub(super) fn resize(
        &self,
        store: &NodeStore,
        (hole, node): (u32, &RangeNode),
        old_count: u32,
        first: u32,
        count: u32,
    ) {
        node.set_range(first, count);
        if self.heads.len() == 0 {
            return;
        }
        let (from, to) = (bin_of(old_count), bin_of(count));
        if from != to {
            self.remove_from_bin(store, from, node);
            self.insert_into_bin(store, to, hole, node);
        }
    }
}

impl GrowableTable for FreeIndex {
    fn missing(&self) -> Option<Layout> {
        let bins = bin_of(self.largest) + 1;
        if self.largest == 0 || self.heads.len() >= bins {
            return None;
        }
        GrowableVec::<Cell<u32>>::layout(bins)
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let unneeded = self.heads.grow_with(block);
        while self.heads.push(Cell::new(NIL)).is_ok() {}
        unneeded
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.bins = Bins::new();
        self.heads.detach_memory()
    }
}

/// Free ranges are in order of block or note, then of offset.
#[inline]
fn place_of(node: &RangeNode) -> u64 {
    u64::from(node.slack.get()) << 32 | u64::from(node.first.get())
}

// The bin of a hole, and the set of bins that have holes: two words are read to find the next such bin.
//
// Holes of up to 63 granules have a bin for each size. Above, each power of two has 32 bins, so that two holes of one
// bin differ by less than 1/32.
//
// ```text
//   granules  1 2 3 ... 63 | 64-65 66-67 ... 126-127 | 128-131 132-135 ... | ...
//   bin       1 2 3 ... 63 |   64    65  ...    95   |   96      97    ... | ...
// ```

#[inline]
pub(super) const fn bin_of(granules: u32) -> u32 {
    let shift = 26 - (granules | 32).leading_zeros();
    (shift << 5) + (granules >> shift)
}

#[derive(Debug)]
pub(super) struct Bins {
    rows: Cell<u32>,
    words: [Cell<u32>; 32],
}

impl Bins {
    pub(super) const fn new() -> Self {
        Self { rows: Cell::new(0), words: [const { Cell::new(0) }; 32] }
    }

    #[inline]
    fn word(&self, row: u32) -> u32 {
        self.words.get((row & 31) as usize).map_or(0, Cell::get)
    }

    #[inline]
    pub(super) fn set(&self, bin: u32) {
        let row = bin >> 5 & 31;
        if let Some(word) = self.words.get(row as usize) {
            word.set(word.get() | 1 << (bin & 31));
        }
        self.rows.set(self.rows.get() | 1 << row);
    }

    #[inline]
    pub(super) fn clear(&self, bin: u32) {
        let row = bin >> 5 & 31;
        if let Some(word) = self.words.get(row as usize) {
            word.set(word.get() & !(1 << (bin & 31)));
            if word.get() == 0 {
                self.rows.set(self.rows.get() & !(1 << row));
            }
        }
    }

    #[inline]
    pub(super) fn from(&self, bin: u32) -> Option<u32> {
        let row = bin >> 5;
        if row > 31 {
            return None;
        }
        let here = self.word(row) & (u32::MAX << (bin & 31));
        if here != 0 {
            return Some(row << 5 | here.trailing_zeros());
        }
        let above = self.rows.get() & (u32::MAX << row) & !(1 << row);
        if above == 0 {
            return None;
        }
        let row = above.trailing_zeros();
        Some(row << 5 | self.word(row).trailing_zeros())
    }

    #[inline]
    pub(super) fn last(&self) -> Option<u32> {
        if self.rows.get() == 0 {
            return None;
        }
        let row = 31 - self.rows.get().leading_zeros();
        Some(row << 5 | (31 - self.word(row).leading_zeros()))
    }
}

const fn largest_of(bin: u32) -> u32 {
    if bin < 64 {
        return bin;
    }
    let shift = (bin >> 5) - 1;
    let first = ((bin & 31) | 32) << shift;
    first + ((1 << shift) - 1)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeRange {
    pub(super) id: u32,
    pub(crate) block: u32,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) begin: u32,
    pub(super) granted: u32,
}

impl FreeRange {
    #[inline]
    pub(super) fn new(id: u32, node: &RangeNode, begin: u32, granted: u32) -> Self {
        Self { id, block: node.slack.get(), first: node.first.get(), count: node.count.get(), begin, granted }
    }
}

impl FreeIndex {
    /// It leaves out the pages that would be shared with a neighbour of the other kind.
    #[inline]
    pub(super) fn usable(&self, store: &NodeStore, node: &RangeNode, is_optimal: bool) -> Option<(u32, u32)> {
        let (first, count) = (node.first.get(), node.count.get());
        if self.page == 1 {
            return Some((first, count));
        }
        let differs = |neighbour: u32| store.at(neighbour).is_live_of(!is_optimal);
        let mut begin = first;
        let mut end = first.checked_add(count)?;
        if differs(node.before.get()) {
            begin = begin.checked_next_multiple_of(self.page)?;
        }
        if differs(node.after.get()) {
            end -= end % self.page;
        }
        Some((begin, end.checked_sub(begin)?))
    }

    fn fit(&self, store: &NodeStore, id: u32, want: &GranuleRequest) -> Option<FreeRange> {
        let node = store.at(id);
        let (begin, room) = self.usable(store, node, want.is_optimal)?;
        Some(FreeRange::new(id, node, want.begin_in(begin, room)?, want.count))
    }

    fn sure_count(&self, want: &GranuleRequest) -> u32 {
        let seams = 2 * (self.page - 1);
        (want.count).saturating_add(want.alignment - 1).saturating_add(seams)
    }
}

impl FreeIndex {
    /// The best fit: it may miss a range that is less than 1/32 larger than the request, or aligned by chance.
    #[inline(always)]
    pub(crate) fn find(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        // The result stays in registers.
        if want.alignment == 1 && self.page == 1 {
            self.find_unaligned(store, want.count, want.fit)
        } else {
            self.find_aligned(store, want)
        }
    }

    #[inline(always)]
    fn find_unaligned(&self, store: &NodeStore, count: u32, fit: Fit) -> Option<FreeRange> {
        let own = bin_of(count);
        let mut id = self.head(own)?.get();
        let mut node = store.at(id);
        // `NIL` has size 0, so the comparison also rejects an empty bin.
        if node.count.get() < count {
            id = self.head(self.bins.from(own + 1)?)?.get();
            node = store.at(id);
        }
        let (first, size) = (node.first.get(), node.count.get());
        let begin = if fit == Fit::Low { first } else { first + (size - count) };
        Some(FreeRange::new(id, node, begin, count))
    }

    #[inline(never)]
    fn find_aligned(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        if want.rounded != want.count {
            let rounded = GranuleRequest { count: want.rounded, ..*want };
            if let Some(found) = self.find_best_aligned(store, &rounded) {
                return Some(found);
            }
        }
        self.find_best_aligned(store, want)
    }

    fn find_best_aligned(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        let front = |bin| self.fit(store, self.head(bin)?.get(), want);
        let sure = bin_of(self.sure_count(want)) + 1;
        // Many holes are of no use, so each bin is tried, or the large holes would be cut up.
        let mut tries = if self.page == 1 { 2u32 } else { u32::MAX };
        let mut at = self.bins.from(bin_of(want.count));
        while let Some(bin) = at.filter(|&bin| bin < sure && tries > 0) {
            tries -= 1;
            if let Some(hole) = front(bin) {
                return Some(hole);
            }
            at = self.bins.from(bin + 1);
        }
        front(self.bins.from(sure)?)
    }

    /// Until a range as large as the request appears, further such requests fail at once.
    #[cold]
    pub(crate) fn find_full(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        let [linear, optimal] = &self.failed_fit;
        let failed = if want.is_optimal && self.page > 1 { optimal } else { linear };
        let (count, alignment) = failed.get();
        if want.count >= count && want.alignment >= alignment {
            return None;
        }
        let sure = bin_of(self.sure_count(want));
        let mut at = self.bins.from(bin_of(want.count));
        while let Some(bin) = at.filter(|&bin| bin <= sure) {
            let mut id = self.head(bin).map_or(NIL, Cell::get);
            while id != NIL {
                if let Some(hole) = self.fit(store, id, want) {
                    return Some(hole);
                }
                id = store.at(id).link.get();
            }
            at = self.bins.from(bin + 1);
        }
        failed.set((want.count, want.alignment));
        None
    }
}
