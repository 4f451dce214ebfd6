#![forbid(unsafe_code)]

use alloc_core::HostError;
use core::fmt;

/// Errors of a [`VirtualBlock`](super::VirtualBlock). An error changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VirtualBlockError {
    /// Size 0, or a block smaller than its granule.
    ZeroSize,
    /// An alignment that is not a power of two.
    Alignment,
    /// A granule that is not a power of two up to 2^31.
    Granule,
    /// More than the block could hold if it were empty; a block of more than 2^32 - 2 granules.
    TooLarge,
    /// No hole fits. In a stack or a ring: there is no room at that end.
    Full,
    /// In a stack or a ring: this range is not the next to free.
    OutOfOrder,
    /// A stack or a ring has no upper end; a double stack has one.
    NoUpperEnd,
    /// A stack or a ring chooses its offsets itself: the caller cannot.
    PlacesItself,
    /// This range was freed before.
    Stale,
    /// This range belongs to another block.
    Foreign,
    /// There are 2^32 ranges and holes. Of a pool's block: store or index lack their reserve.
    TooManyRanges,
    /// No memory for bookkeeping.
    Host(HostError),
}

impl fmt::Display for VirtualBlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroSize => "a size of 0 has no range: request one granule at least",
            Self::Alignment => "the alignment is no power of two: use 1 where any offset will do",
            Self::Granule => "the granule is no power of two up to 2^31: use 1 or 256",
            Self::TooLarge => {
                "more than the block could ever hold: split it, or make a larger block or one with a larger granule"
            }
            Self::Full => "no hole is large enough: free something, or use another block",
            Self::OutOfOrder => "that range is not the next to go: free the others first",
            Self::PlacesItself => "a stack or a ring places its ranges itself: make a general block",
            Self::NoUpperEnd => "a stack or a ring has no upper end: make a double stack",
            Self::Stale => "that range was freed before: forget its name when you free it",
            Self::Foreign => "that range is of another block: free it there",
            Self::TooManyRanges => "there are 2^32 ranges and holes: use several blocks",
            Self::Host(error) => return write!(f, "no memory for the block's book-keeping: {error}"),
        })
    }
}

impl core::error::Error for VirtualBlockError {}

impl From<HostError> for VirtualBlockError {
    fn from(refusal: HostError) -> Self {
        Self::Host(refusal)
    }
}
