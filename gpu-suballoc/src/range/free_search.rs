//! Finds a free range for a request: the best fit in constant time, or by a full search.

#![forbid(unsafe_code)]

use super::allocator::{Fit, RangeError, RangeRequest};
use super::free_index::{FreeIndex, bin_of};
use super::node::{NIL, NodeStore};
use core::cell::Cell;

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

// Rounds sizes and offsets to multiples of powers of two, with overflow checks. Rounding is idempotent.
//
// A size near 2^64 is an error and does not wrap; an alignment that is not a power of two is an error and is not adjusted. The same
// function rounds the size of a block and the size of its region, so that both always agree.

/// The next multiple of `alignment` at or above `value`. `None` if `alignment` is not a power of two, or the result overflows 64 bits.
#[inline]
pub(crate) const fn align_up(value: u64, alignment: u64) -> Option<u64> {
    if !alignment.is_power_of_two() {
        return None;
    }
    match value.checked_add(alignment - 1) {
        Some(sum) => Some(sum & !(alignment - 1)),
        None => None,
    }
}

/// The last multiple of `alignment` at or below `value`. `None` if `alignment` is not a power of two.
#[inline]
pub(crate) const fn align_down(value: u64, alignment: u64) -> Option<u64> {
    if alignment.is_power_of_two() {
        Some(value & !(alignment - 1))
    } else {
        None
    }
}

/// A rounded request: `size` is a multiple of the granule, and `alignment` is at least the granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundedRequest {
    pub(crate) size: u64,
    pub(crate) alignment: u64,
}

/// Rounds a request to granules of `1 << granule_log2` bytes. Rounding the result again changes nothing, so a block that was created for a
/// rounded size can contain the region of the same request.
///
/// Granule and alignment are powers of two, so the greater of the two satisfies both.
#[inline(always)]
pub(crate) const fn round_request(
    size: u64,
    alignment: u64,
    granule_log2: u32,
) -> Result<RoundedRequest, RangeError> {
    if size == 0 {
        return Err(RangeError::ZeroSize);
    }
    if !alignment.is_power_of_two() {
        return Err(RangeError::Alignment);
    }
    let granule = 1 << (granule_log2 & 63);
    let Some(sum) = size.checked_add(granule - 1) else {
        return Err(RangeError::TooLarge);
    };
    Ok(RoundedRequest {
        size: sum & !(granule - 1),
        alignment: if alignment > granule {
            alignment
        } else {
            granule
        },
    })
}

#[cfg(test)]
mod rounding_tests {
    use super::*;

    /// Sizes around every power of two, and values with which other allocators failed.
    fn sizes() -> impl Iterator<Item = u64> {
        let near = (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
        near.chain([96, 9_338_976, 15_630_480, u64::MAX - 15, u64::MAX])
            .filter(|&size| size > 0)
    }

    #[test]
    fn h100_conforming_twice_changes_nothing() {
        let mut conformed = 0;
        for size in sizes() {
            for (alignment, log2) in [
                (64, 5),
                (1, 5),
                (16, 8),
                (1 << 16, 0),
                (1, 0),
                (131_072, 8),
                (1, 31),
            ] {
                let Ok(once) = round_request(size, alignment, log2) else {
                    continue;
                };
                let granule = 1 << log2;
                conformed += 1;
                assert_eq!(round_request(once.size, once.alignment, log2), Ok(once));
                assert!(
                    once.size >= size
                        && once.size - size < granule
                        && once.size.is_multiple_of(granule)
                );
                assert!(once.alignment >= alignment && once.alignment >= granule);
                let offset = align_up(size / 2 + 1, once.alignment).unwrap_or(0);
                assert!(offset.is_multiple_of(alignment) && offset.is_multiple_of(granule));
            }
        }
        assert!(conformed > 1000);
        // The regressions of Halide: (96, 64, 32) and (9338976, 64, 32).
        assert_eq!(
            round_request(96, 64, 5),
            Ok(RoundedRequest {
                size: 96,
                alignment: 64
            })
        );
        assert_eq!(
            round_request(9_338_976, 64, 5),
            Ok(RoundedRequest {
                size: 9_338_976,
                alignment: 64
            })
        );
    }

    #[test]
    fn h101_a_block_for_a_request_holds_the_region_of_the_request() {
        for size in sizes() {
            for log2 in [4, 5, 6, 8, 12] {
                let (Ok(block), Ok(region)) =
                    (round_request(size, 1, log2), round_request(size, 64, log2))
                else {
                    continue;
                };
                let Ok(core) = super::super::RangeAllocator::new(block.size, 1 << log2) else {
                    continue;
                };
                assert!(core.size() >= region.size, "{size} in granules of 2^{log2}");
            }
        }
        // A regression of Halide: 15630480 bytes, granules of 32 and of 64.
        assert_eq!(
            round_request(15_630_480, 64, 6).map(|region| region.size),
            Ok(15_630_528)
        );
    }

    #[test]
    fn h102_two_alignments_make_their_maximum_and_never_something_odd() {
        for (alignment, log2, most) in [(32, 4, 32), (256, 6, 256), (16, 8, 256), (1, 0, 1)] {
            assert_eq!(
                round_request(1, alignment, log2).map(|conformed| conformed.alignment),
                Ok(most)
            );
        }
        for odd in [0, 3, 48, 272, 320, u64::MAX] {
            assert_eq!(round_request(1, odd, 0), Err(RangeError::Alignment));
        }
    }

    #[test]
    fn h103_offsets_are_aligned_with_a_checked_addition() {
        assert_eq!(align_up(65, 64), Some(128));
        assert_eq!((align_up(0, 64), align_down(127, 64)), (Some(0), Some(64)));
        assert_eq!(align_up(u64::MAX, 1), Some(u64::MAX));
        assert_eq!(align_up(u64::MAX - 62, 64), None, "beyond 64 bits");
        assert_eq!(align_up(u64::MAX - 63, 64), Some(u64::MAX - 63));
        for odd in [0, 3, 48] {
            assert_eq!((align_up(64, odd), align_down(64, odd)), (None, None));
        }
    }

    #[test]
    fn h104_a_size_that_overflows_is_an_error_and_not_zero() {
        assert_eq!(
            round_request(u64::MAX - 15, 16, 5),
            Err(RangeError::TooLarge)
        );
        assert_eq!(round_request(u64::MAX, 1, 1), Err(RangeError::TooLarge));
        assert_eq!(
            round_request(u64::MAX, 1, 0),
            Ok(RoundedRequest {
                size: u64::MAX,
                alignment: 1
            })
        );
        assert_eq!(round_request(0, 16, 5), Err(RangeError::ZeroSize));
    }
}
