#![forbid(unsafe_code)]

use super::VirtualBlockError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeRequest {
    /// Bytes, at least 1.
    pub(crate) size: u64,
    /// The size without a margin, and without what keeps pages apart.
    pub(crate) asked: u64,
    /// Bytes, a power of two.
    pub(crate) alignment: u64,
    pub(crate) user_data: u32,
    pub(crate) fit: Fit,
    /// In a pool where kinds matter, it is kept off the pages of other resources.
    pub(crate) is_optimal: bool,
}

/// Short-lived ranges lie high, so that they do not fragment the space of long-lived ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Low,
    High,
}

/// Rounding up to whole alignments then costs at most a quarter, and leaves no sliver that is of no use to this
/// alignment.
const ALIGNMENTS_TO_ROUND: u64 = 4;
/// Bytes. A node has too few bits for the rest of a larger one.
const MAX_ROUNDED_ALIGNMENT: u64 = 1 << 24;

#[derive(Clone, Copy, Debug)]
pub(crate) struct GranuleRequest {
    pub(crate) count: u32,
    pub(crate) alignment: u32,
    pub(crate) rounded: u32,
    pub(crate) fit: Fit,
    pub(crate) is_optimal: bool,
}

impl GranuleRequest {
    /// Rounding twice changes nothing: a block that was created for a request can hold it.
    #[inline(always)]
    pub(crate) fn new(want: &RangeRequest, largest: u32, granule_log2: u32) -> Result<Self, VirtualBlockError> {
        if want.size == 0 {
            return Err(VirtualBlockError::ZeroSize);
        }
        if !want.alignment.is_power_of_two() {
            return Err(VirtualBlockError::Alignment);
        }
        let granule = 1u64 << granule_log2;
        let padded = want.size.checked_add(granule - 1);
        let count = padded.ok_or(VirtualBlockError::TooLarge)? >> granule_log2;
        let alignment = want.alignment.max(granule) >> granule_log2;
        if count > u64::from(largest) || alignment > u64::from(u32::MAX) {
            return Err(VirtualBlockError::TooLarge);
        }
        // Above the block's size, offset 0 alone is aligned; memory objects guarantee every alignment there.
        let alignment = alignment.min(u64::from(largest).next_power_of_two());
        let is_long = alignment > 1
            && count / ALIGNMENTS_TO_ROUND >= alignment
            && alignment << granule_log2 <= MAX_ROUNDED_ALIGNMENT;
        let whole = if is_long { count.next_multiple_of(alignment) } else { count };
        Ok(Self {
            count: count as u32,
            alignment: alignment as u32,
            rounded: u32::try_from(whole).unwrap_or(count as u32),
            fit: want.fit,
            is_optimal: want.is_optimal,
        })
    }

    pub(crate) const fn exact(self) -> Self {
        Self { rounded: self.count, ..self }
    }

    pub(super) fn begin_in(&self, first: u32, size: u32) -> Option<u32> {
        let room = size.checked_sub(self.count)?;
        let (first, below) = (u64::from(first), u64::from(self.alignment) - 1);
        let last = first + u64::from(room);
        let begin = match self.fit {
            Fit::Low => (first + below) & !below,
            Fit::High => last & !below,
        };
        (first <= begin && begin <= last).then_some(begin as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(size: u64, alignment: u64, fit: Fit) -> RangeRequest {
        RangeRequest { size, asked: size, alignment, user_data: 0, fit, is_optimal: false }
    }

    fn sizes() -> impl Iterator<Item = u64> {
        let near = (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
        near.chain([96, 9_338_976, 15_630_480, u64::MAX - 15, u64::MAX]).filter(|&size| size > 0)
    }

    #[test]
    fn h100_h102_h104_conforming_twice_changes_nothing_and_overflow_is_an_error() {
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
                (4096, 12),
                (1 << 20, 16),
                (1, 20),
            ] {
                let round = |size, alignment| GranuleRequest::new(&request(size, alignment, Fit::Low), u32::MAX, log2);
                let granule = 1u64 << log2;
                let Ok(once) = round(size, alignment) else {
                    assert!(size.div_ceil(granule) > u32::MAX.into(), "{size}");
                    continue;
                };
                conformed += 1;
                let (bytes, aligned) = (u64::from(once.count) * granule, u64::from(once.alignment) * granule);
                let twice = round(bytes, aligned).expect("it was not too large");
                assert_eq!((twice.count, twice.alignment, twice.rounded), (once.count, once.alignment, once.rounded));
                assert!(bytes >= size && bytes - size < granule);
                assert_eq!(aligned, alignment.max(granule));
            }
        }
        assert!(conformed > 1000, "{conformed}");
        let refusal =
            |size, alignment, log2| GranuleRequest::new(&request(size, alignment, Fit::Low), u32::MAX, log2).err();
        for odd in [0, 3, 48, 272, 320, u64::MAX] {
            assert_eq!(refusal(1, odd, 0), Some(VirtualBlockError::Alignment));
        }
        for (size, refused) in [(0, VirtualBlockError::ZeroSize), (u64::MAX - 15, VirtualBlockError::TooLarge)] {
            assert_eq!(refusal(size, 16, 5), Some(refused));
        }
    }

    #[test]
    fn h103_offsets_are_aligned_without_overflow() {
        for (fit, first, size, begin) in [
            (Fit::Low, 65, 64, Some(128)),
            (Fit::Low, 0, 1, Some(0)),
            (Fit::High, 0, 128, Some(64)),
            (Fit::High, 65, 63, None),
            (Fit::Low, u32::MAX - 62, 62, None),
            (Fit::Low, u32::MAX - 63, 63, Some(u32::MAX - 63)),
            (Fit::High, u32::MAX - 63, 63, Some(u32::MAX - 63)),
        ] {
            let want = GranuleRequest::new(&request(1, 64, fit), u32::MAX, 0).unwrap();
            assert_eq!(want.begin_in(first, size), begin, "{fit:?} {first} {size}");
        }
        let all = GranuleRequest::new(&request(u32::MAX.into(), 1, Fit::Low), u32::MAX, 0);
        assert_eq!(all.unwrap().begin_in(0, u32::MAX), Some(0));
    }
}
