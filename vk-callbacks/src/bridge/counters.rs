//! Counters of rare events of a bridge. They cost nothing on the other paths.

#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::Scope;

use crate::live::Live;

/// Counts of mistakes, refusals and notifications since the bridge was created.
///
/// Exact while no callback runs. On 32-bit machines they wrap at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BridgeCounters {
    /// Requests refused because the alignment was no power of two, or above 2^31 (V7).
    pub bad_alignments: u64,
    /// Requests refused because the scope is none of the five (V35).
    pub bad_scopes: u64,
    /// Requests refused because of their size: 2^47 bytes or more, or more than the address space.
    pub too_large: u64,
    /// Requests the backing refused: out of memory, over budget, closed.
    pub backing_refusals: u64,
    /// Frees and reallocations of a pointer whose header is no bridge's (V11, V19). Nothing was freed.
    pub unknown_pointers: u64,
    /// Frees and reallocations of a live block of another [`Bridge`](crate::Bridge) (V11, V19). It was freed or reallocated there.
    pub foreign_pointers: u64,
    /// Frees and reallocations of a pointer that was freed before (V11, V19). Nothing was freed.
    pub freed_pointers: u64,
    /// Frees and reallocations of a pointer that the guard behind the bridge does not know as live (V11, V19); the guard has reported
    /// it. Nothing was read or freed.
    pub guard_refusals: u64,
    /// Reallocations with another alignment than the block's (V15), which was kept.
    pub alignment_changes: u64,
    /// Reallocations with another scope than the block's, which was kept.
    pub scope_changes: u64,
    /// Panics of the backing that were caught. A block that was being freed or resized is leaked then, unless the backing had freed
    /// it: after such a NULL, and only then, the original of a reallocation is gone (V16), and a free of it counts in
    /// `freed_pointers`.
    pub panics: u64,
    /// Internal notifications of an unknown type or scope (V20); not counted below and not passed on.
    pub bad_notifications: u64,
    internal: [Internal; Scope::COUNT],
}

/// Internal memory that the driver notified (V20, V21: executable memory only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Internal {
    /// `pfnInternalAllocation` calls.
    pub allocations: u64,
    /// Bytes of them.
    pub allocated_bytes: u64,
    /// `pfnInternalFree` calls.
    pub frees: u64,
    /// Bytes of them.
    pub freed_bytes: u64,
}

impl BridgeCounters {
    /// The internal memory that the driver notified for `scope`.
    #[must_use]
    pub fn internal(&self, scope: Scope) -> Internal {
        self.internal
            .get(scope.index())
            .copied()
            .unwrap_or_default()
    }

    /// The sum of the counts that are mistakes (refusals of the backing and notifications are none).
    #[must_use]
    pub const fn faults(&self) -> u64 {
        self.bad_alignments
            + self.bad_scopes
            + self.too_large
            + self.unknown_pointers
            + self.foreign_pointers
            + self.freed_pointers
            + self.guard_refusals
            + self.alignment_changes
            + self.scope_changes
            + self.panics
            + self.bad_notifications
    }
}

/// The counters behind [`BridgeCounters`].
#[derive(Debug, Default)]
pub(crate) struct CounterCells {
    pub(crate) bad_alignments: Count,
    pub(crate) bad_scopes: Count,
    pub(crate) too_large: Count,
    pub(crate) backing_refusals: Count,
    pub(crate) unknown_pointers: Count,
    pub(crate) foreign_pointers: Count,
    pub(crate) freed_pointers: Count,
    pub(crate) guard_refusals: Count,
    pub(crate) alignment_changes: Count,
    pub(crate) scope_changes: Count,
    pub(crate) panics: Count,
    pub(crate) bad_notifications: Count,
    internal: [InternalCells; Scope::COUNT],
}

#[derive(Debug, Default)]
struct InternalCells {
    allocations: Count,
    allocated_bytes: Count,
    frees: Count,
    freed_bytes: Count,
}

/// A counter that is atomic on every target.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    #[cold]
    pub(crate) fn one_more(&self) {
        self.add(1);
    }

    fn add(&self, n: usize) {
        self.0.fetch_add(n, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed) as u64
    }
}

impl CounterCells {
    pub(crate) fn internal_allocation(&self, scope: Scope, bytes: usize) {
        if let Some(cells) = self.internal.get(scope.index()) {
            cells.allocations.add(1);
            cells.allocated_bytes.add(bytes);
        }
    }

    pub(crate) fn internal_free(&self, scope: Scope, bytes: usize) {
        if let Some(cells) = self.internal.get(scope.index()) {
            cells.frees.add(1);
            cells.freed_bytes.add(bytes);
        }
    }

    pub(crate) fn read(&self) -> BridgeCounters {
        BridgeCounters {
            bad_alignments: self.bad_alignments.get(),
            bad_scopes: self.bad_scopes.get(),
            too_large: self.too_large.get(),
            backing_refusals: self.backing_refusals.get(),
            unknown_pointers: self.unknown_pointers.get(),
            foreign_pointers: self.foreign_pointers.get(),
            freed_pointers: self.freed_pointers.get(),
            guard_refusals: self.guard_refusals.get(),
            alignment_changes: self.alignment_changes.get(),
            scope_changes: self.scope_changes.get(),
            panics: self.panics.get(),
            bad_notifications: self.bad_notifications.get(),
            internal: self.internal.each_ref().map(|cells| Internal {
                allocations: cells.allocations.get(),
                allocated_bytes: cells.allocated_bytes.get(),
                frees: cells.frees.get(),
                freed_bytes: cells.freed_bytes.get(),
            }),
        }
    }
}

/// A bridge that was dropped while Vulkan held blocks of it, or within a callback.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LeakedBridge<'b> {
    /// The name of its context.
    pub context: &'b str,
    /// The label of its context, if any.
    pub label: Option<&'b str>,
    /// The live memory of Vulkan, by scope. Empty if the bridge was dropped within a callback and nothing was live.
    pub live: Live,
}

/// A function that is called for a bridge that was dropped too early: once, on the dropping thread, with no lock held. The bridge's
/// callbacks still answer requests; after it returned, they answer new ones with NULL.
pub type LeakListener = fn(&LeakedBridge<'_>);

impl fmt::Display for LeakedBridge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the bridge over \"{}", self.context)?;
        if let Some(label) = self.label {
            write!(f, " {label}")?;
        }
        if self.live.is_empty() {
            f.write_str("\" was dropped within a callback")
        } else {
            write!(f, "\" was dropped while Vulkan held {}", self.live)
        }
    }
}
