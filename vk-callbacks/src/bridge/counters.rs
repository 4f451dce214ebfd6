#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::live::Live;

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    #[cold]
    pub(crate) fn one_more(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Relaxed) as u64
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of mistakes and refusals since the bridge was created.
        ///
        /// Exact while no callback runs. On 32-bit machines they wrap at 2^32.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct BridgeCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct CounterCells {
            $(pub(crate) $name: Count,)*
        }

        impl CounterCells {
            pub(crate) fn read(&self) -> BridgeCounters {
                BridgeCounters {
                    $($name: self.$name.read(),)*
                }
            }
        }
    };
}

counters! {
    /// Requests refused because the alignment was no power of two, or above 2^31 (V7).
    bad_alignments,
    /// Requests refused because the scope is none of the five (V35).
    bad_scopes,
    /// Requests refused because of their size: 2^47 bytes or more, or more than the address space.
    too_large,
    /// Requests the backing refused: out of memory, over budget, closed.
    backing_refusals,
    /// Frees and reallocations of a pointer whose header is no bridge's (V11, V19). Nothing was freed.
    unknown_pointers,
    /// Frees and reallocations of a live block of another [`Bridge`](crate::Bridge) (V11, V19). It was freed or
    /// reallocated there.
    foreign_pointers,
    /// Frees and reallocations of a pointer that was freed before (V11, V19). Nothing was freed.
    freed_pointers,
    /// Frees and reallocations of a pointer that the guard behind the bridge does not know as live (V11, V19). Nothing
    /// was read or freed.
    guard_refusals,
    /// Reallocations with another alignment than the block's (V15), which was kept.
    alignment_changes,
    /// Reallocations with another scope than the block's, which was kept.
    scope_changes,
    /// Panics of the backing that were caught. A block that was being freed or resized is leaked then, unless the
    /// backing had freed it: after such a NULL, and only then, the original of a reallocation is gone (V16).
    panics,
    /// Internal notifications of an unknown type or scope (V20), which are not passed on.
    bad_notifications,
}

impl BridgeCounters {
    /// The sum of the counts that are mistakes (refusals of the backing are none).
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

/// A bridge that was dropped while Vulkan held blocks of it, or within a callback.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LeakedBridge<'b> {
    /// The name of its context.
    pub context: &'b str,
    /// The label of its context, if any.
    pub label: Option<&'b str>,
    /// The live memory of Vulkan, by scope.
    pub live: Live,
}

/// A function that is called for a bridge that was dropped too early: once, on the dropping thread, with no lock held.
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
