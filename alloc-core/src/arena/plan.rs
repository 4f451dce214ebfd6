//! ```text
//!   chunk        low                   top       end
//!   |<- HEADER ->|  blocks, newest last |  free   |
//!   | prev, size |                      |         |
//!                                                 multiple of CHUNK_ALIGN
//! ```

#![forbid(unsafe_code)]

use core::alloc::Layout;

pub(super) const HEADER: usize = 16;
pub(super) const CHUNK_ALIGN: usize = 16;
/// Common alignments need no second branch.
pub(super) const BLOCK_ALIGN: usize = 8;
/// The allocator behind usually has so many bytes in front of a block: a chunk stays within a power of two.
pub(super) const SLACK: usize = 32;
pub(super) const FIRST: usize = 1024 - SLACK;
/// Growing for ever would waste most of a budget.
pub(super) const MAX_SHARED: usize = 65536 - SLACK;
/// The smallest chunk under pressure, before a block gets one of its own.
pub(super) const MIN_SHARED: usize = 512 - SLACK;
/// The smallest request that gets a chunk of its own.
pub(super) const OWN: usize = MAX_SHARED / 4;

/// The result and `top` are multiples of [`BLOCK_ALIGN`]. `top` and `end` are 0 without a chunk.
#[inline(always)]
pub(super) const fn place(top: usize, end: usize, layout: Layout) -> Option<usize> {
    let mut start = top;
    if layout.align() > BLOCK_ALIGN {
        start = round_up(top, layout.align());
        if start < top || start > end {
            return None;
        }
    }
    // Start and end are multiples of `BLOCK_ALIGN`, and so is the room.
    if layout.size() <= end.wrapping_sub(start) { Some(start) } else { None }
}

/// The top moves here with a new block.
#[inline(always)]
pub(super) const fn end(start: usize, layout: Layout) -> usize {
    start.wrapping_add(round_up(layout.size(), BLOCK_ALIGN))
}

/// `None` past `isize::MAX`.
pub(super) fn exact(layout: Layout) -> Option<usize> {
    let padding = layout.align().saturating_sub(CHUNK_ALIGN);
    let size = layout.size().checked_add(padding)?.checked_add(HEADER)?.checked_next_multiple_of(CHUNK_ALIGN)?;
    chunk_layout(size).map(|layout| layout.size())
}

pub(super) fn chunk_layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, CHUNK_ALIGN).ok()
}

/// `current` is 0 without a chunk. `None`: the block gets a chunk of its own.
pub(super) fn shared(current: usize, exact: usize) -> Option<usize> {
    if exact >= OWN {
        return None;
    }
    // Sizes plus slack are powers of two.
    let grown = current.saturating_add(SLACK).saturating_mul(4).clamp(FIRST + SLACK, MAX_SHARED + SLACK);
    let needed = exact.saturating_add(SLACK);
    Some(grown.max(needed).checked_next_power_of_two()?.min(MAX_SHARED + SLACK).saturating_sub(SLACK))
}

pub(super) fn halved(size: usize, exact: usize) -> Option<usize> {
    let half = (size.saturating_add(SLACK) / 2).saturating_sub(SLACK);
    (half >= MIN_SHARED && half > exact).then_some(half)
}

const fn round_up(size: usize, align: usize) -> usize {
    size.wrapping_add(align.wrapping_sub(1)) & !align.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn every_small_placement_lies_in_its_chunk_and_is_aligned() {
        for stop in (1024..1024 + 64).step_by(16) {
            for top in (stop - 160..=stop).step_by(BLOCK_ALIGN) {
                for align in [1, 2, 4, 8, 16, 32, 64, 128] {
                    for size in 0..170 {
                        let l = layout(size, align);
                        let fits = |start: &usize| start.is_multiple_of(align.max(BLOCK_ALIGN)) && start + size <= stop;
                        let naive = (top..=stop).find(fits);
                        assert_eq!(place(top, stop, l), naive, "top {top} end {stop} size {size} align {align}");
                        if let Some(start) = naive {
                            assert!((start + size..=stop).contains(&end(start, l)));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_room_at_all_holds_nothing_but_size_zero() {
        // No block lies at 0: the arena answers a request of size 0 otherwise.
        assert_eq!((place(0, 0, layout(1, 1)), place(0, 0, layout(0, 1))), (None, Some(0)));
        assert_eq!((place(64, 64, layout(0, 8)), place(64, 64, layout(0, 128))), (Some(64), None));
        assert_eq!(place(64, 64, layout(1, 1)), None);
        assert_eq!(place(64, 64, layout(isize::MAX as usize, 1)), None);
        let last = usize::MAX & !15;
        let huge = layout(isize::MAX as usize & !7, 8);
        assert_eq!(place(last - huge.size(), last, huge), Some(last - huge.size()));
        assert_eq!(place(last - huge.size() + 8, last, huge), None);
        // Aligned, the start would be beyond all addresses.
        assert_eq!(place(last - 16, last, layout(0, 1 << (usize::BITS - 1))), None);
    }

    #[test]
    fn every_exact_chunk_holds_its_block_wherever_it_lies() {
        for align in [1, 2, 8, 16, 32, 256, 4096] {
            for size in [0, 1, 7, 8, 9, 15, 16, 17, 100, 4096] {
                let l = layout(size, align);
                let chunk = exact(l).unwrap();
                assert_eq!(chunk % CHUNK_ALIGN, 0);
                for base in (8192..8192 + 2 * align.max(16)).step_by(CHUNK_ALIGN) {
                    assert!(place(base + HEADER, base + chunk, l).is_some(), "{l:?} in {chunk} at {base}");
                }
            }
        }
        for size in [isize::MAX as usize, isize::MAX as usize - 15, isize::MAX as usize - 30] {
            assert_eq!(exact(layout(size, 1)), None, "{size}");
        }
        assert_eq!(exact(layout(isize::MAX as usize - 31, 1)), Some(isize::MAX as usize - 15));
    }

    #[test]
    fn chunks_grow_to_64_kib_and_stay_there() {
        let mut sizes = [0; 6];
        let mut current = 0;
        for size in &mut sizes {
            current = shared(current, 64).unwrap();
            *size = current + SLACK;
        }
        assert_eq!(sizes, [1024, 4096, 16384, 65536, 65536, 65536]);
        assert_eq!(shared(0, 5000), Some(8192 - SLACK));
        assert_eq!(shared(MAX_SHARED, OWN), None);
        assert_eq!(shared(MIN_SHARED, 64), Some(2048 - SLACK));
    }

    #[test]
    fn halving_ends_and_never_goes_below_the_need() {
        let mut size = MAX_SHARED;
        let mut steps = 0;
        while let Some(half) = halved(size, 200) {
            assert!(half < size && half > 200);
            (size, steps) = (half, steps + 1);
        }
        assert_eq!((size, steps), (MIN_SHARED, 7));
        assert_eq!(halved(4096 - SLACK, 3000), None);
    }
}
