//! Rounds sizes and offsets to multiples of powers of two, with overflow checks. Rounding is idempotent.
//!
//! A size near 2^64 is an error and does not wrap; an alignment that is not a power of two is an error and is not adjusted. The same
//! function rounds the size of a block and the size of its region, so that both always agree.

#![forbid(unsafe_code)]

use super::allocator::RangeError;

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
mod tests {
    use super::*;

    /// Sizes around every power of two, and values with which other allocators failed.
    fn sizes() -> impl Iterator<Item = u64> {
        let near = (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
        near.chain([96, 9_338_976, 15_630_480, u64::MAX - 15, u64::MAX])
            .filter(|&size| size > 0)
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
        for odd in [0, 3, 48, 272, 320, u64::MAX] {
            assert_eq!(round_request(1, odd, 0), Err(RangeError::Alignment));
        }
        for (size, refused) in [
            (0, RangeError::ZeroSize),
            (u64::MAX - 15, RangeError::TooLarge),
        ] {
            assert_eq!(round_request(size, 16, 5), Err(refused));
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
}
