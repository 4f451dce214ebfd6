//! The bin of a hole, and the set of bins that have holes: two words are read to find the next such bin.
//!
//! Holes of up to 63 granules have a bin for each size. Above, each power of two is divided into 32 bins, so that two holes of one bin
//! differ by less than 1/32. Sizes of 32 bits have 896 bins.
//!
//! ```text
//!   granules  1 2 3 ... 63 | 64-65 66-67 ... 126-127 | 128-131 132-135 ... | ...
//!   bin       1 2 3 ... 63 |   64    65  ...    95   |   96      97    ... | ...
//! ```

#![forbid(unsafe_code)]

use core::cell::Cell;

/// The bin of a hole of `granules`.
#[inline]
pub(super) const fn bin_of(granules: u32) -> u32 {
    let shift = 26 - (granules | 32).leading_zeros();
    (shift << 5) + (granules >> shift)
}

/// Granules of the largest hole that belongs to `bin`.
pub(super) const fn largest_of(bin: u32) -> u32 {
    if bin < 64 {
        return bin;
    }
    let shift = (bin >> 5) - 1;
    let first = ((bin & 31) | 32) << shift;
    first + ((1 << shift) - 1)
}

/// The set of bins that have holes.
#[derive(Debug)]
pub(super) struct Bins {
    /// A bit for each word of `words` that is not 0.
    rows: Cell<u32>,
    words: [Cell<u32>; 32],
}

impl Bins {
    pub(super) const fn new() -> Self {
        Self {
            rows: Cell::new(0),
            words: [const { Cell::new(0) }; 32],
        }
    }

    #[inline]
    fn word(&self, row: u32) -> u32 {
        self.words.get((row & 31) as usize).map_or(0, Cell::get)
    }

    /// Adds a bin, after its first hole was inserted.
    #[inline]
    pub(super) fn set(&self, bin: u32) {
        let row = bin >> 5 & 31;
        if let Some(word) = self.words.get(row as usize) {
            word.set(word.get() | 1 << (bin & 31));
        }
        self.rows.set(self.rows.get() | 1 << row);
    }

    /// Removes a bin, after its last hole was removed.
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

    /// The first bin at or above `bin` that has holes.
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

    /// The last bin that has holes.
    #[inline]
    pub(super) fn last(&self) -> Option<u32> {
        if self.rows.get() == 0 {
            return None;
        }
        let row = 31 - self.rows.get().leading_zeros();
        Some(row << 5 | (31 - self.word(row).leading_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_lies_in_its_bin_and_bins_ascend() {
        let mut sizes = std::vec![1u32, 31, 32, 63, 64, 65, u32::MAX];
        sizes.extend((0..32).flat_map(|e| {
            [
                1u32 << e,
                (1 << e) - 1,
                (1 << e) + 1,
                (1 << e) | (1 << e >> 3),
            ]
        }));
        sizes.retain(|&size| size > 0);
        sizes.sort_unstable();
        let mut last = 0;
        for size in sizes {
            let bin = bin_of(size);
            assert!(bin >= last && bin < 896, "{size}");
            assert!(
                largest_of(bin) >= size && (bin == 0 || largest_of(bin - 1) < size),
                "{size} in {bin}"
            );
            last = bin;
        }
        assert_eq!(bin_of(u32::MAX), 895);
    }

    #[test]
    fn the_next_bin_is_found_from_everywhere() {
        let bins = Bins::new();
        assert_eq!((bins.from(0), bins.last()), (None, None));
        for bin in [3, 31, 32, 400, 895] {
            bins.set(bin);
        }
        for (from, found) in [
            (0, Some(3)),
            (4, Some(31)),
            (32, Some(32)),
            (33, Some(400)),
            (401, Some(895)),
            (896, None),
            (5000, None),
        ] {
            assert_eq!(bins.from(from), found, "{from}");
        }
        assert_eq!(bins.last(), Some(895));
        bins.clear(895);
        bins.clear(32);
        assert_eq!((bins.from(32), bins.last()), (Some(400), Some(400)));
    }
}
