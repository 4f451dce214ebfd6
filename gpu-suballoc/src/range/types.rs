//! Requests and results of a [`RangeAllocator`](super::RangeAllocator).

#![forbid(unsafe_code)]

/// The most nodes that one allocation needs, and the reserve of a store: the first hole of a blank block and its edge, the range inside of
/// the hole, and the hole behind the range.
pub(crate) const NODES_PER_ALLOCATION: u32 = 2 + NODES_PER_RANGE;
/// Of these, those of the range inside of the hole, and of the hole behind it.
pub(crate) const NODES_PER_RANGE: u32 = 2;

/// The id of a live range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RangeId {
    pub(crate) serial: u64,
    pub(crate) node: u32,
}

/// A request for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeRequest {
    /// Bytes, at least 1.
    pub(crate) size: u64,
    /// Bytes, a power of two: the alignment of the offset in the block.
    pub(crate) alignment: u64,
    /// Stored with the range and returned when it is freed; not interpreted.
    pub(crate) user_data: u32,
    /// The end of the hole to allocate.
    pub(crate) fit: Fit,
}

/// The end of a hole to allocate: low for long-lived ranges, high for short-lived ranges, so that they do not fragment each other's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The lowest aligned offset.
    Low,
    /// The highest aligned offset.
    High,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllocatedRange {
    pub(crate) id: RangeId,
    /// Bytes, a multiple of the requested alignment.
    pub(crate) offset: u64,
    /// Bytes: the requested size, rounded up to granules, and to alignments if that adds at most a quarter.
    pub(crate) size: u64,
}

/// A freed range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedRange {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) user_data: u32,
    /// The block has no live range any more.
    pub(crate) is_empty: bool,
}

/// A live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveRange {
    pub(crate) offset: u64,
    /// In whole granules.
    pub(crate) size: u64,
    /// The requested size.
    pub(crate) asked: u64,
    /// The required alignment; 1 if it is not stored.
    pub(crate) alignment: u64,
    pub(crate) user_data: u32,
}

/// A range or a hole of a block; together they tile the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) state: SpanState,
}

/// Whether a [`Span`] is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanState {
    Free,
    Used {
        id: RangeId,
        /// The requested size.
        asked: u64,
        /// The required alignment; 1 if it is not stored.
        alignment: u64,
        user_data: u32,
    },
}

/// Errors of a range allocator. An error changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeError {
    /// A size of 0.
    ZeroSize,
    /// An alignment that is not a power of two.
    Alignment,
    /// A granule that is not a power of two up to 2^31.
    Granule,
    /// More than the block could hold if it were empty, or a block with too many granules.
    TooLarge,
    /// No hole fits.
    Full,
    /// The store or the index lacks its reserve.
    NoNodes,
    /// The id is not that of a live range of this block.
    Stale,
    /// The range has other user data.
    OtherUserData,
}
