//! Requests and results of a [`RangeAllocator`](super::RangeAllocator).

#![forbid(unsafe_code)]

use super::rounding::RequestError;

/// The last generation of an id. A node that has used it is retired.
pub(crate) const MAX_GENERATION: u32 = (1 << 24) - 1;

/// Maximum number of nodes for one allocation: the range, the hole behind it, and for a blank block also the first hole and the edge.
pub(crate) const NODES_PER_ALLOCATION: u32 = 4;

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
    /// The id consists of node and generation.
    pub(crate) node: u32,
    /// 1 to [`MAX_GENERATION`].
    pub(crate) generation: u32,
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
        node: u32,
        generation: u32,
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
    /// Nodes, or memory of the index, must be added first.
    NoNodes,
    /// The id is not that of a live range of this block.
    Stale,
    /// The range has other user data.
    OtherUserData,
}

impl From<RequestError> for RangeError {
    #[inline]
    fn from(unfit: RequestError) -> Self {
        match unfit {
            RequestError::ZeroSize => Self::ZeroSize,
            RequestError::Alignment => Self::Alignment,
            RequestError::TooLarge => Self::TooLarge,
        }
    }
}
