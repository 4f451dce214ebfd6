//! Finds a free range for a request: the best fit in constant time, else every one that might do.

#![forbid(unsafe_code)]

use core::cell::Cell;

use super::bins::bin_of;
use super::free_index::FreeIndex;
use super::node::NIL;
use super::node_store::NodeStore;
use super::rounding::{align_down, align_up, round_request};
use super::types::{Fit, RangeError, RangeRequest};

/// From so many alignments on, a size is rounded up to whole ones where there is room: it costs a quarter of the smallest such range at
/// most, and no sliver is left beside it that nothing else of that alignment could use.
const ALIGNMENTS_TO_ROUND: u64 = 4;
/// Bytes. Above, the rest that a node would have to remember is too large for it.
const MAX_ROUNDED_ALIGNMENT: u64 = 1 << 24;

/// A request in granules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GranuleRequest {
    pub(crate) count: u32,
    pub(crate) alignment: u32,
    /// As many as are tried first: whole alignments, where that is little more.
    pub(crate) rounded: u32,
    pub(crate) fit: Fit,
}

/// A free range that a request fits into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeRange {
    pub(super) id: u32,
    /// The number of its block.
    pub(crate) block: u32,
    pub(super) first: u32,
    pub(super) count: u32,
    /// Where the request begins, and how many granules it gets.
    pub(super) begin: u32,
    pub(super) granted: u32,
}

impl FreeRange {
    fn of(store: &NodeStore, id: u32, want: &GranuleRequest) -> Option<Self> {
        let node = store.at(id);
        let (first, count) = (node.first.get(), node.count.get());
        let begin = want.begin_in(first, count)?;
        Some(Self {
            id,
            block: node.slack.get(),
            first,
            count,
            begin,
            granted: want.count,
        })
    }
}

impl GranuleRequest {
    /// Of a request, for blocks of at most `largest` granules of `1 << granule_log2` bytes.
    ///
    /// # Errors
    /// [`RangeError::ZeroSize`], [`RangeError::Alignment`]; [`RangeError::TooLarge`] for a size above `largest`, or an alignment of 2^32
    /// granules.
    #[inline(always)]
    pub(crate) fn new(
        want: &RangeRequest,
        largest: u32,
        granule_log2: u32,
    ) -> Result<Self, RangeError> {
        let rounded = round_request(want.size, want.alignment, granule_log2)?;
        let (count, alignment) = (
            rounded.size >> granule_log2,
            rounded.alignment >> granule_log2,
        );
        if count > u64::from(largest) || alignment > u64::from(u32::MAX) {
            return Err(RangeError::TooLarge);
        }
        // Above a block's size offset 0 alone is a multiple: what memory objects promise, of whatever alignment.
        let alignment = alignment.min(u64::from(largest).next_power_of_two());
        let is_long = alignment > 1
            && count / ALIGNMENTS_TO_ROUND >= alignment
            && alignment << granule_log2 <= MAX_ROUNDED_ALIGNMENT;
        let whole = if is_long {
            count.next_multiple_of(alignment)
        } else {
            count
        };
        Ok(Self {
            count: count as u32,
            alignment: alignment as u32,
            rounded: u32::try_from(whole).unwrap_or(count as u32),
            fit: want.fit,
        })
    }

    /// The same, never rounded up to whole alignments.
    pub(crate) const fn exact(self) -> Self {
        Self {
            rounded: self.count,
            ..self
        }
    }

    /// Where it lies in a free range, if it fits there.
    fn begin_in(&self, first: u32, size: u32) -> Option<u32> {
        let room = size.checked_sub(self.count)?;
        let last = u64::from(first) + u64::from(room);
        let begin = match self.fit {
            Fit::Low => align_up(u64::from(first), u64::from(self.alignment))?,
            Fit::High => align_down(last, u64::from(self.alignment))?,
        };
        (u64::from(first) <= begin && begin <= last).then_some(begin as u32)
    }
}

impl FreeIndex {
    /// The best fit: the first range of the request's own bin, or the first of the next bin, where all are large enough. With an
    /// alignment, else the first of a bin where any range does. Constant time; it may miss a range of less than 1/32 more than the
    /// request, or one that fits by the luck of its alignment.
    #[inline(always)]
    pub(crate) fn find(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        // What is found here stays in registers all the way.
        if want.alignment == 1 {
            self.find_unaligned(store, want.count, want.fit)
        } else {
            self.find_aligned(store, want)
        }
    }

    #[inline(always)]
    fn find_unaligned(&self, store: &NodeStore, count: u32, fit: Fit) -> Option<FreeRange> {
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
            block: node.slack.get(),
            first,
            count: size,
            begin,
            granted: count,
        })
    }

    #[inline(never)]
    fn find_aligned(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        if want.rounded != want.count {
            let rounded = GranuleRequest {
                count: want.rounded,
                ..*want
            };
            if let Some(found) = self.find_best_aligned(store, &rounded) {
                return Some(found);
            }
        }
        self.find_best_aligned(store, want)
    }

    fn find_best_aligned(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        let front = |bin| FreeRange::of(store, self.bin_heads.at(bin)?.get(), want);
        let own = bin_of(want.count);
        if let Some(hole) = front(own) {
            return Some(hole);
        }
        if let Some(hole) = front(self.bins.from(own + 1)?) {
            return Some(hole);
        }
        let sure = bin_of(want.count.checked_add(want.alignment - 1)?) + 1;
        front(self.bins.from(sure)?)
    }

    /// Every free range that might do. It costs one look at each of the request's own bin; for an alignment above the granule, at each
    /// between the request's size and the size with which it fits anyhow. A search in vain is remembered: until a range appears that is
    /// as large as the request, the next one of its kind costs nothing.
    #[cold]
    pub(crate) fn find_full(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        let (count, alignment) = self.failed_fit.get();
        if want.count >= count && want.alignment >= alignment {
            return None;
        }
        let sure = bin_of(want.count.saturating_add(want.alignment - 1));
        let mut at = self.bins.from(bin_of(want.count));
        while let Some(bin) = at.filter(|&bin| bin <= sure) {
            let mut id = self.bin_heads.at(bin).map_or(NIL, Cell::get);
            while id != NIL {
                if let Some(hole) = FreeRange::of(store, id, want) {
                    return Some(hole);
                }
                id = store.at(id).link.get();
            }
            at = self.bins.from(bin + 1);
        }
        self.failed_fit.set((want.count, want.alignment));
        None
    }
}
