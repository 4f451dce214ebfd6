//! What callers must know of an allocator before they call it.

#![forbid(unsafe_code)]

/// Facts about an allocator, constant for its whole life; see [`HostAllocator::traits`](crate::HostAllocator::traits).
///
/// [`new`](Self::new) assumes the least. A decorator starts from the traits of the allocator that it forwards to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorTraits {
    /// A call may unwind, so a caller that is itself called from C needs a panic fence.
    pub may_unwind: bool,
    /// The byte behind a block matters (a guard page stands there): a caller that adds a header must not pad behind the block.
    pub exact_alignment: bool,
    /// Contexts must [report the requester](crate::with_requester) around each call that allocates, resizes or frees a block, and around
    /// [`validate_pointer`](crate::HostAllocator::validate_pointer). Read once, when a context is created over the allocator.
    pub tracks_requester: bool,
}

impl AllocatorTraits {
    /// Calls may unwind, padding is allowed on both sides, requesters are not tracked.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            may_unwind: true,
            exact_alignment: false,
            tracks_requester: false,
        }
    }

    /// No call ever unwinds.
    #[must_use]
    pub const fn never_unwinds(self) -> Self {
        Self {
            may_unwind: false,
            ..self
        }
    }

    /// The byte behind a block matters.
    #[must_use]
    pub const fn with_exact_alignment(self) -> Self {
        Self {
            exact_alignment: true,
            ..self
        }
    }

    /// Requesters are tracked.
    #[must_use]
    pub const fn with_requester(self) -> Self {
        Self {
            tracks_requester: true,
            ..self
        }
    }
}

impl Default for AllocatorTraits {
    fn default() -> Self {
        Self::new()
    }
}
