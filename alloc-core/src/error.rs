#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU64;

use crate::rejected::Rejected;
use crate::scope::Scope;

/// The id of a context, drawn from a process-wide counter and never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(NonZeroU64);

impl ContextId {
    pub(crate) const FIRST: Self = Self(NonZeroU64::MIN);

    /// `None` for 0, which no context has.
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: u64) -> Option<Self> {
        match NonZeroU64::new(raw) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// The number itself, never 0.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Why a call was refused. A refused call has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostError {
    /// The root's allocator had no memory. Not the caller's fault; maps to `VK_ERROR_OUT_OF_HOST_MEMORY`.
    OutOfHostMemory {
        /// 0 where no longer known.
        bytes: usize,
        /// The requested scope.
        scope: Scope,
    },
    /// An application's limit would be exceeded. Maps to `VK_ERROR_OUT_OF_HOST_MEMORY`.
    OverBudget {
        /// The context with the budget; [`Snapshot::nodes`](crate::Snapshot::nodes) has its name.
        context: ContextId,
        /// Missing bytes.
        short_by: u64,
        /// Bytes of that budget in unused leases of other threads when the reason is queried.
        leased_elsewhere: u64,
    },
    /// The context was closed. The caller's fault.
    Closed {
        /// The closed context.
        context: ContextId,
    },
    /// The size overflows, or exceeds `isize::MAX`. The caller's fault.
    TooLarge,
    /// The caller broke a rule.
    Misuse(Misuse),
}

/// A rule that the caller broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// Alignment 0 or not a power of two.
    BadAlignment,
    /// The id is one of another context.
    OtherContext,
    /// The context no longer owns the id's value: destroyed, removed, or moved.
    NotOwned,
    /// The value is held.
    Held,
    /// The two contexts have different roots.
    OtherTree,
    /// A context that is to come below its first budget could be in use by another thread.
    InUse,
    /// Memory was to move between contexts with different allocators.
    OtherBacking,
    /// Memory was to move between contexts of different scopes.
    OtherScope,
    /// An index past the end.
    OutOfRange,
    /// A context would have become its own ancestor.
    Cycle,
    /// Both contexts are the same.
    SameContext,
    /// `close_root` or another call for roots, on another context.
    NotARoot,
    /// A call that no root has, on a root.
    IsARoot,
    /// A context made without a limit was to get one.
    NoBudget,
    /// A [tagged](crate::tagged) block that is being freed was to be resized, or to have a destructor.
    Dying,
    /// A table of the process that [tagged](crate::tagged) blocks need is full.
    TableFull,
    /// There is no domain of that number.
    NoDomain,
    /// A suballocation of [linear memory](crate::tagged::LinearBlocks) without sizes was to be resized.
    UnknownSize,
}

impl HostError {
    /// True for the two refusals that a Vulkan driver answers with `VK_ERROR_OUT_OF_HOST_MEMORY`.
    #[must_use]
    pub const fn is_out_of_host_memory(self) -> bool {
        matches!(self, Self::OutOfHostMemory { .. } | Self::OverBudget { .. })
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfHostMemory { bytes, scope } => write!(
                f,
                "the host allocator refused {bytes} bytes of scope {scope}: free memory or give the root a larger allocator"
            ),
            Self::OverBudget { context, short_by, leased_elsewhere: 0 } => {
                write!(
                    f,
                    "the budget of context {context} (its id; a snapshot has its name) is short by {short_by} bytes: raise the limit or free memory below it"
                )
            }
            Self::OverBudget { context, short_by, leased_elsewhere } => write!(
                f,
                "the budget of context {context} (its id; a snapshot has its name) is short by {short_by} bytes, of which other threads hold {leased_elsewhere} unused: \
                 let them settle, raise the limit, or use Budget::exact"
            ),
            Self::Closed { context } => {
                write!(f, "context {context} (its id) is closed: allocate from a context that is still open")
            }
            Self::TooLarge => f.write_str("the size overflows or exceeds isize::MAX: ask for less"),
            Self::Misuse(rule) => rule.fmt(f),
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadAlignment => "the alignment is not a power of two: pass 1, 2, 4, ...",
            Self::OtherContext => "the id is one of another context: ask the context that Owned::context names",
            Self::NotOwned => "the value was destroyed, taken or moved away: use the id that the move answered, or own it again",
            Self::Held => "somebody holds the value: drop the hold first",
            Self::OtherTree => "the two contexts have different roots: move within one tree",
            Self::InUse => {
                "a context that is to come below its first budget may be in use elsewhere: drop its handles and end the contexts below it"
            }
            Self::OtherBacking => "the two contexts draw on different allocators: copy the content instead of moving the block",
            Self::OtherScope => "the two contexts have different default scopes: move to a context made with the same scope",
            Self::OutOfRange => "the index lies past the end: pass one up to the length",
            Self::Cycle => "a context cannot be moved below itself: choose a parent outside of its subtree",
            Self::SameContext => "source and destination are the same context: nothing to move",
            Self::NotARoot => "this context is not a root: use close()",
            Self::NoBudget => "this context was made without a budget: give it one in its options",
            Self::Dying => "the block is being freed: use another one",
            Self::TableFull => "a table of the process is full: share domains and destructors",
            Self::NoDomain => "the domain has ended: allocate from one that is there",
            Self::UnknownSize => "this linear memory keeps no sizes: allocate anew and copy",
            Self::IsARoot => "this context is a root: use close_root() or abandon()",
        })
    }
}

impl<T> From<Rejected<T, HostError>> for HostError {
    fn from(rejected: Rejected<T, HostError>) -> Self {
        rejected.error
    }
}

impl core::error::Error for HostError {}
impl core::error::Error for Misuse {}
