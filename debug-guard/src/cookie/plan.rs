//! The layout of a guarded block. Pure arithmetic.
//!
//! ```text
//!  base                          start - 32         start                start + size        base + total
//!   | pad, for alignments > 32     | header, 4 words  | object             | tail              |
//!   +------------------------------+------------------+--------------------+-------------------+
//!                                                     ^ aligned as asked   ^ at the first byte behind: 8 to 23 bytes,
//!                                                       (16 at least)        up to the next multiple of 16
//! ```
//! A header-only block has no tail: `total` ends with the object.

#![forbid(unsafe_code)]

use core::alloc::Layout;

/// Bytes of a header.
pub(super) const HEADER: usize = 32;
/// Minimum bytes of a tail.
pub(super) const TAIL: usize = 8;
/// Bytes of a pad, those nearest to the header, that are written and verified.
pub(super) const PAD_SEEN: usize = 256;
/// Objects stand at multiples of this, and a tail ends at one.
pub(super) const GRANULE: usize = 16;
/// A header has 48 bits for the size.
const MAX_SIZE: u64 = 1 << 48;

/// The layout that is requested of the allocator behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CookieLayout {
    /// The whole block.
    pub(super) whole: Layout,
    /// Bytes from its beginning to the object.
    pub(super) front: usize,
}

/// `None` if the size is too large for a header or a [`Layout`].
#[inline]
pub(super) fn plan(size: usize, align: usize, header_only: bool) -> Option<CookieLayout> {
    if size as u64 >= MAX_SIZE {
        return None;
    }
    let align = align.max(GRANULE);
    let front = align.max(HEADER);
    let end = front.checked_add(size)?;
    let total = if header_only { end } else { tail_stop(end) };
    let whole = Layout::from_size_align(total, align).ok()?;
    (total >= end).then_some(CookieLayout { whole, front })
}

/// Bytes of the tail behind an object of `size` bytes: 8 to 23.
#[inline]
pub(super) const fn tail_len(size: usize) -> usize {
    TAIL + ((size.wrapping_add(TAIL)).wrapping_neg() & (GRANULE - 1))
}

/// The end of the tail that begins at `end`; objects begin at multiples of 16.
#[inline(always)]
pub(super) const fn tail_stop(end: usize) -> usize {
    end.wrapping_add(TAIL + GRANULE - 1) & !(GRANULE - 1)
}

/// Bytes of the pad in front of the header that are written and verified; a multiple of 16.
#[inline]
pub(super) const fn pad_len(front: usize) -> usize {
    let pad = front.saturating_sub(HEADER);
    if pad < PAD_SEEN { pad } else { PAD_SEEN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_size_and_alignment_is_laid_out_as_drawn() {
        for size in 0..300 {
            for shift in 0..17 {
                let align = 1 << shift;
                let plan = plan(size, align, false).expect("small");
                let (start, tail) = (plan.front, tail_len(size));
                assert!((8..24).contains(&tail), "a tail of {tail}");
                assert_eq!(tail_stop(start + size), start + size + tail);
                assert!(
                    start >= HEADER && start.is_multiple_of(align) && start.is_multiple_of(GRANULE)
                );
                assert_eq!(plan.whole.size(), start + size + tail);
                assert!(
                    plan.whole.size().is_multiple_of(GRANULE)
                        && plan.whole.align() == align.max(GRANULE)
                );
                assert_eq!(
                    super::plan(size, align, true).expect("small").whole.size(),
                    start + size
                );
                assert!(pad_len(start) <= start - HEADER && pad_len(start).is_multiple_of(GRANULE));
            }
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for size in [
            usize::MAX,
            usize::MAX - 31,
            isize::MAX as usize,
            isize::MAX as usize - 40,
        ] {
            assert_eq!(plan(size, 1, false), None);
            assert_eq!(plan(size, 1, true), None);
        }
        assert_eq!(plan(1, 1 << (usize::BITS - 1), false), None);
        #[cfg(target_pointer_width = "64")]
        assert_eq!(
            (
                plan(1 << 48, 1, false),
                plan((1 << 48) - 1, 1, false).is_some()
            ),
            (None, true)
        );
    }
}
