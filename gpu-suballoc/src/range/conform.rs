//! Rounding of sizes and offsets: checked, for powers of two, and a second time nothing changes any more.
//!
//! A size near 2^64 is refused instead of becoming small, an alignment that is no power of two is refused instead of being
//! invented, and what a block has to hold is computed by the function that computes the region, so that the two always agree.

#![forbid(unsafe_code)]

/// The next multiple of `alignment` at or above `value`. `None` where `alignment` is no power of two, or the result is beyond 64 bits.
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

/// The last multiple of `alignment` at or below `value`. `None` where `alignment` is no power of two.
#[inline]
pub(crate) const fn align_down(value: u64, alignment: u64) -> Option<u64> {
    if alignment.is_power_of_two() { Some(value & !(alignment - 1)) } else { None }
}

/// Why a size or an alignment cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Size 0.
    ZeroSize,
    /// An alignment that is no power of two.
    Alignment,
    /// Beyond 64 bits once rounded.
    TooLarge,
}

/// A request as it will be placed: `size` is a multiple of the granule, `alignment` at least the granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conformed {
    pub(crate) size: u64,
    pub(crate) alignment: u64,
}

/// Rounds a request to what a block with this granule and this least alignment can give. Conforming the result changes nothing,
/// so a block made for a conformed size holds the region of the same request.
///
/// All alignments are powers of two, so that the greater one satisfies both.
#[inline]
pub(crate) const fn conform(size: u64, alignment: u64, least_alignment: u64, granule: u64) -> Result<Conformed, Unfit> {
    if size == 0 {
        return Err(Unfit::ZeroSize);
    }
    if !alignment.is_power_of_two() || !least_alignment.is_power_of_two() || !granule.is_power_of_two() {
        return Err(Unfit::Alignment);
    }
    let mut most = granule;
    if alignment > most {
        most = alignment;
    }
    if least_alignment > most {
        most = least_alignment;
    }
    match align_up(size, granule) {
        Some(size) => Ok(Conformed { size, alignment: most }),
        None => Err(Unfit::TooLarge),
    }
}
