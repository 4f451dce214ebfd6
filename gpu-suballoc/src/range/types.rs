//! What is asked of a [`RangeAllocator`](super::RangeAllocator), and what it answers.

#![forbid(unsafe_code)]

use super::rounding::RequestError;

/// The last generation that an id may carry; a node that has used it up is retired.
pub(crate) const MAX_GENERATION: u32 = (1 << 24) - 1;

/// How many nodes one take may need: one for the range itself, one for what is left behind it; and two for the first hole and the edge.
pub(crate) const NODES_PER_ALLOCATION: u32 = 4;

/// A request for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeRequest {
    /// Bytes, at least 1.
    pub(crate) size: u64,
    /// Bytes, a power of two; of the offset within the core.
    pub(crate) alignment: u64,
    /// Kept with the range and given back with it; means nothing to the core.
    pub(crate) user_data: u32,
    /// Which end of a hole is allocated.
    pub(crate) fit: Fit,
}

/// Which end of a hole is taken: long-lived ranges low, short-lived ones high, so that they do not pin one another's holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The lowest aligned offset.
    Low,
    /// The highest aligned offset.
    High,
}

/// A range that was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllocatedRange {
    /// With the generation: its name.
    pub(crate) node: u32,
    /// 1 to [`MAX_GENERATION`].
    pub(crate) generation: u32,
    /// Bytes, aligned as asked.
    pub(crate) offset: u64,
    /// Bytes: the requested size, rounded up to granules, and to alignments where that is at most a quarter more.
    pub(crate) size: u64,
}

/// A range that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedRange {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) user_data: u32,
    /// Nothing is live any more.
    pub(crate) is_empty: bool,
}

/// A live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveRange {
    pub(crate) offset: u64,
    /// In whole granules.
    pub(crate) size: u64,
    /// As it was asked for.
    pub(crate) asked: u64,
    /// That it needs; 1 where that is not noted.
    pub(crate) alignment: u64,
    pub(crate) user_data: u32,
}

/// A piece of the core's whole range; all pieces tile it.
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
        /// Of `size`, what was asked for.
        asked: u64,
        /// That it needs; 1 where that is not noted.
        alignment: u64,
        user_data: u32,
    },
}

/// Why a core did not do what it was asked. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeError {
    /// A size of 0.
    ZeroSize,
    /// An alignment that is no power of two.
    Alignment,
    /// A granule that is no power of two.
    Granule,
    /// More than there can ever be.
    TooLarge,
    /// No hole fits.
    Full,
    /// Nodes, or the core's own memory, have to be supplied first.
    NoNodes,
    /// No such live range: given back already, or never taken here.
    Stale,
    /// All generations of a node that was to be renewed are used up.
    UsedUp,
    /// The range has another word.
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
