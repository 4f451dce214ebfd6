//! The arithmetic of a reserve: two size classes for each power of two, and an end that moves up.

#![forbid(unsafe_code)]

use super::MAX_ALIGN;

/// The smallest block, room for the link of a free one.
const SMALLEST: usize = 32;
/// Two a power of two, from [`SMALLEST`] to 2 GiB. Larger blocks are not used again.
pub(super) const CLASSES: usize = 53;

/// The class of a request, and the bytes of all blocks of that class; `None` on overflow.
pub(super) fn class_of(size: usize) -> Option<(usize, usize)> {
    let size = size.max(SMALLEST);
    let power = size.checked_next_power_of_two()?;
    let number = 2 * (power.ilog2() - SMALLEST.ilog2()) as usize;
    let between = power / 4 * 3;
    if size <= between {
        Some((number - 1, between))
    } else {
        Some((number, power))
    }
}

/// The offset of `bytes` aligned to `align` from `first + used` on, and `used` afterwards; `None` where `capacity` is too small.
pub(super) fn place(
    first: usize,
    used: usize,
    capacity: usize,
    bytes: usize,
    align: usize,
) -> Option<(usize, usize)> {
    let start = first
        .checked_add(used)?
        .checked_next_multiple_of(align.max(MAX_ALIGN))?;
    let offset = start.checked_sub(first)?;
    let end = offset.checked_add(bytes)?;
    (end <= capacity).then_some((offset, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_all_sizes_and_waste_less_than_a_third() {
        let mut former = 0;
        for size in (0..5000).chain([1 << 20, (1 << 31) - 1, 1 << 31]) {
            let (number, bytes) = class_of(size).expect("no overflow");
            assert!(number < CLASSES && number >= former, "{size}: {number}");
            assert!(
                bytes >= size && bytes % MAX_ALIGN == 0,
                "{size} in {bytes} bytes"
            );
            let (size_of, bytes_of) = (size as u64, bytes as u64);
            assert!(
                bytes <= SMALLEST
                    || 3 * bytes_of <= 4 * size_of + 3 * 16 * 2
                    || 2 * bytes_of < 3 * size_of
            );
            assert_eq!(class_of(bytes), Some((number, bytes)));
            former = number;
        }
        let not_used_again = class_of((1 << 31) + 1).is_none_or(|(number, _)| number >= CLASSES);
        assert!(not_used_again);
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn places_are_aligned_and_end_within_the_capacity() {
        assert_eq!(place(0x1000, 0, 100, 48, 8), Some((0, 48)));
        assert_eq!(place(0x1000, 48, 100, 48, 16), Some((48, 96)));
        assert_eq!(place(0x1000, 48, 95, 32, 64), None);
        assert_eq!(place(0x1000, 48, 96, 32, 64), Some((64, 96)));
        assert_eq!(place(0x1010, 0, 100, 32, 64), Some((48, 80)));
        assert_eq!(place(0x1000, 96, 100, 5, 1), None);
        assert_eq!(place(usize::MAX - 20, 10, usize::MAX, 32, 64), None);
        assert_eq!(place(0x1000, 8, usize::MAX, usize::MAX - 8, 1), None);
    }
}
