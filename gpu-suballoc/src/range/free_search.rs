//! Finds a free range for a request: the best fit in constant time, or by a full search.

#![forbid(unsafe_code)]

use core::cell::Cell;

use super::bins::bin_of;
use super::free_index::FreeIndex;
use super::node::NIL;
use super::node_store::NodeStore;
use super::rounding::{align_down, align_up, round_request};
use super::types::{Fit, RangeError, RangeRequest};

/// A size of at least so many alignments is rounded up to whole alignments if there is room. This costs at most a quarter of the smallest
/// such range, and leaves no sliver that other requests of this alignment could not use.
const ALIGNMENTS_TO_ROUND: u64 = 4;
/// Bytes. With a larger alignment, the unrequested rest could exceed the bits that a node has for it.
const MAX_ROUNDED_ALIGNMENT: u64 = 1 << 24;

/// A request in granules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GranuleRequest {
    pub(crate) count: u32,
    pub(crate) alignment: u32,
    /// The count that is tried first: rounded up to whole alignments if that adds little.
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
    /// The first granule of the request. `granted`: its number of granules.
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
    /// Converts a request for blocks of at most `largest` granules of `1 << granule_log2` bytes.
    ///
    /// # Errors
    /// [`RangeError::ZeroSize`], [`RangeError::Alignment`]; [`RangeError::TooLarge`] for a size above `largest`, or an alignment of 2^32
    /// granules or more.
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
        // Only offset 0 is a multiple of an alignment above the block's size; memory objects guarantee every alignment at offset 0.
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

    /// The same request without rounding up to whole alignments.
    pub(crate) const fn exact(self) -> Self {
        Self {
            rounded: self.count,
            ..self
        }
    }

    /// The first granule of the request in a free range, if it fits.
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
    /// The best fit: the first range of the request's own bin, or the first range of the next bin, in which all ranges are large enough. If
    /// the request has an alignment and neither fits, the first range of a bin whose ranges fit at any offset. Constant time. It may miss a
    /// range that is less than 1/32 larger than the request, or that fits only because its offset happens to be aligned.
    #[inline(always)]
    pub(crate) fn find(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        // The result stays in registers.
        if want.alignment == 1 {
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
        // `NIL` is a node of size 0, so the same comparison also rejects an empty bin.
        if node.count.get() < count {
            id = self.head(self.bins.from(own + 1)?)?.get();
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
        let front = |bin| FreeRange::of(store, self.head(bin)?.get(), want);
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

    /// Finds a free range by a full search. Examines each range of the request's own bin and, for an alignment above the granule, each
    /// range below the size that fits at any offset. Remembers a failed search: until a range as large as the request appears, further such
    /// requests fail at once.
    #[cold]
    pub(crate) fn find_full(&self, store: &NodeStore, want: &GranuleRequest) -> Option<FreeRange> {
        let (count, alignment) = self.failed_fit.get();
        if want.count >= count && want.alignment >= alignment {
            return None;
        }
        let sure = bin_of(want.count.saturating_add(want.alignment - 1));
        let mut at = self.bins.from(bin_of(want.count));
        while let Some(bin) = at.filter(|&bin| bin <= sure) {
            let mut id = self.head(bin).map_or(NIL, Cell::get);
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
