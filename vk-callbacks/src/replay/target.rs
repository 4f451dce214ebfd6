//! The target of a replay: its allocators, and its listener.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::{HostAllocator, Scope};

use crate::trace::{Pointer, Request};

/// The allocators of a replay by owner, and the functions that it calls.
///
/// Every method but [`sink`](ReplayTarget::sink) does nothing by default. Methods are called on the replaying thread.
pub trait ReplayTarget {
    /// The allocator of blocks: a `&dyn HostAllocator`, a handle, ..
    ///
    /// Each block keeps its sink, so two results for one owner may differ.
    type Sink: HostAllocator;

    /// The sink of the owner's blocks. Owner 0 means that the trace does not say.
    fn sink(&mut self, owner: u64) -> Self::Sink;

    /// The trace declared an owner: an object kind, below `parent` (0: below none).
    fn owner(&mut self, owner: u64, parent: u64, kind: &str) {
        let _ = (owner, parent, kind);
    }

    /// A phase begins.
    fn phase_begin(&mut self, phase: &str, totals: &Totals) {
        let _ = (phase, totals);
    }

    /// The phase ends, because another begins or the trace is over. [`Totals::phase_peak_bytes`] is this phase's.
    fn phase_end(&mut self, phase: &str, totals: &Totals) {
        let _ = (phase, totals);
    }

    /// A finding in this line (from 1).
    fn finding(&mut self, line: u64, finding: ReplayFinding) {
        let _ = (line, finding);
    }
}

/// A target with one allocator for all owners, which ignores all else.
#[derive(Clone, Copy, Debug)]
pub struct OneSink<'s, A: ?Sized>(
    /// The allocator of all blocks.
    pub &'s A,
);

impl<'s, A: HostAllocator + ?Sized> ReplayTarget for OneSink<'s, A> {
    type Sink = &'s A;

    fn sink(&mut self, _: u64) -> &'s A {
        self.0
    }
}

/// An observation of a replay. The [`Judge`](crate::Judge) finds broken rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayFinding {
    /// No address space has the size; the block counts without its bytes.
    ImpossibleSize {
        /// The block.
        block: Pointer,
        /// The requested bytes.
        size: u64,
    },
    /// The recorder lost events here; what follows may be counted wrongly.
    Lost {
        /// The number of events.
        events: u64,
    },
    /// The replay's own sink had no memory for the block. No mistake of the trace.
    SinkRefused {
        /// The block.
        block: Pointer,
        /// Bytes.
        size: u64,
    },
    /// The trace ended and the block was live. The line is that of its allocation.
    StillLive {
        /// The block.
        block: Pointer,
        /// The owner of its callbacks.
        owner: u64,
        /// The request.
        asked: Request,
    },
}

impl fmt::Display for ReplayFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ImpossibleSize { block, size } => {
                write!(f, "block {block} has {size} bytes, more than can be had")
            }
            Self::Lost { events } => write!(
                f,
                "the recorder lost {events} events here for want of memory"
            ),
            Self::SinkRefused { block, size } => write!(
                f,
                "the replay's allocator refused the {size} bytes of block {block}"
            ),
            Self::StillLive {
                block,
                owner,
                asked,
            } => {
                write!(
                    f,
                    "block {block} of owner {owner}, {} bytes of scope {}, was live at the end",
                    asked.size, asked.scope
                )
            }
        }
    }
}

/// Calls and bytes of a trace up to some line. Bytes are those requested, without header, padding or slack.
///
/// The sums of bytes stop at `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls of `pfnAllocation`, refused ones included.
    pub allocations: u64,
    /// Calls of `pfnReallocation` that answered, refused ones included.
    pub reallocations: u64,
    /// Calls of `pfnReallocation` that began. More than returned if the trace ends inside of some.
    pub reallocations_begun: u64,
    /// Calls of `pfnFree`, those with NULL included.
    pub frees: u64,
    /// Calls of `pfnFree` with NULL.
    pub null_frees: u64,
    /// Requests for bytes that were answered with NULL.
    pub null_answers: u64,
    /// Requests of `pfnAllocation` for 0 bytes.
    pub zero_sizes: u64,
    /// The sum of the sizes of `pfnAllocation` requests.
    pub allocate_bytes: u64,
    /// The sum of the new sizes of `pfnReallocation` requests.
    pub reallocate_bytes: u64,
    /// Freed or reallocated pointers that were not live: never allocated, or freed.
    pub not_live: u64,
    /// Blocks that were not freed on the thread of their allocation.
    pub other_thread_frees: u64,
    /// Blocks freed through another owner's callbacks.
    pub other_owner_frees: u64,
    /// Calls of `pfnInternalAllocation`.
    pub internal_allocations: u64,
    /// Calls of `pfnInternalFree`.
    pub internal_frees: u64,
    /// Commands entered.
    pub commands: u64,
    /// Commands that returned an error, a negative `VkResult`.
    pub failed_commands: u64,
    /// Owners declared.
    pub owners: u64,
    /// Events that the recorder lost.
    pub lost: u64,
    /// Findings, of all kinds.
    pub findings: u64,
    /// Most live bytes since the phase began.
    pub phase_peak_bytes: u64,
    all: ScopeTotals,
    scopes: [ScopeTotals; Scope::COUNT],
}

/// The part of one scope, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeTotals {
    /// Blocks of requests.
    pub blocks: u64,
    /// The sum of their sizes, of reallocated ones with their new size.
    pub bytes: u64,
    /// Blocks now live.
    pub live_blocks: u64,
    /// Bytes now live.
    pub live_bytes: u64,
    /// Most bytes live at once.
    pub peak_bytes: u64,
    /// Live bytes of internal memory.
    pub internal_bytes: u64,
}

impl Totals {
    /// The part of one scope.
    #[must_use]
    pub fn scope(&self, scope: Scope) -> ScopeTotals {
        self.scopes.get(scope.index()).copied().unwrap_or_default()
    }

    /// All scopes together, blocks whose scope does not exist included.
    #[must_use]
    pub const fn all(&self) -> ScopeTotals {
        self.all
    }

    /// Whether a block of `bytes` more can be counted.
    pub(super) const fn holds(&self, bytes: u64) -> bool {
        self.all.live_bytes.checked_add(bytes).is_some()
    }

    pub(super) fn begin_phase(&mut self) {
        self.phase_peak_bytes = self.all.live_bytes;
    }

    /// Counts a block. The caller has called [`Totals::holds`].
    pub(super) fn add(&mut self, scope: Option<Scope>, bytes: u64) {
        self.all.add(bytes);
        if let Some(part) = self.part(scope) {
            part.add(bytes);
        }
        self.phase_peak_bytes = self.phase_peak_bytes.max(self.all.live_bytes);
    }

    pub(super) fn remove(&mut self, scope: Option<Scope>, bytes: u64) {
        self.all.remove(bytes);
        if let Some(part) = self.part(scope) {
            part.remove(bytes);
        }
    }

    pub(super) fn add_internal(&mut self, scope: Scope, bytes: u64) {
        if let Some(part) = self.part(Some(scope)) {
            part.internal_bytes = part.internal_bytes.saturating_add(bytes);
        }
        self.all.internal_bytes = self.all.internal_bytes.saturating_add(bytes);
    }

    /// False if more is freed than was allocated; the sum is 0 then.
    pub(super) fn remove_internal(&mut self, scope: Scope, bytes: u64) -> bool {
        let taken = self.scope(scope).internal_bytes;
        let given = taken.min(bytes);
        if let Some(part) = self.part(Some(scope)) {
            part.internal_bytes = taken.saturating_sub(given);
        }
        self.all.internal_bytes = self.all.internal_bytes.saturating_sub(given);
        given == bytes
    }

    fn part(&mut self, scope: Option<Scope>) -> Option<&mut ScopeTotals> {
        self.scopes.get_mut(scope?.index())
    }
}

impl ScopeTotals {
    fn add(&mut self, bytes: u64) {
        self.blocks = self.blocks.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.live_blocks = self.live_blocks.saturating_add(1);
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    fn remove(&mut self, bytes: u64) {
        self.live_blocks = self.live_blocks.saturating_sub(1);
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
    }
}
