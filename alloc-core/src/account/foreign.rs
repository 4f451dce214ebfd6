//! Declarations are rare, so all threads share a node's few atomics.
//!
//! ```text
//!         executable               heap                     mapping
//!    0    live  peak  total   24   live  peak  total   48   live  peak  total      declared here
//!   72    total  lost         88   total  lost        104   total  lost            children that are gone
//! ```

#![forbid(unsafe_code)]

use core::fmt;

use crate::sync::{AtomicU64, Ordering, Relaxed as _};

#[derive(Default)]
pub(crate) struct ForeignCells {
    own: [Own; ForeignKind::COUNT],
    /// Written under the root's tree lock.
    gone: [Gone; ForeignKind::COUNT],
}

#[derive(Default)]
struct Own {
    live: AtomicU64,
    peak: AtomicU64,
    total: AtomicU64,
}

#[derive(Default)]
struct Gone {
    total: AtomicU64,
    lost: AtomicU64,
}

impl ForeignCells {
    fn own(&self, kind: ForeignKind) -> &Own {
        let [executable, heap, mapping] = &self.own;
        match kind {
            ForeignKind::Executable => executable,
            ForeignKind::Heap => heap,
            ForeignKind::Mapping => mapping,
        }
    }

    pub(crate) fn declare(&self, kind: ForeignKind, bytes: u64) -> bool {
        let own = self.own(kind);
        let more = |live: u64| live.checked_add(bytes);
        let Ok(before) = own.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else {
            return false;
        };
        own.peak.fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
        let _ = own.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| Some(total.saturating_add(bytes)));
        true
    }

    pub(crate) fn subtract(&self, kind: ForeignKind, bytes: u64) -> bool {
        let less = |live: u64| live.checked_sub(bytes);
        self.own(kind).live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Peak and total may lag, but are at least the live bytes.
    pub(crate) fn usage(&self) -> [ForeignUsage; ForeignKind::COUNT] {
        self.own.each_ref().map(|own| {
            let live_bytes = own.live.get();
            let peak_bytes = own.peak.get().max(live_bytes);
            ForeignUsage { live_bytes, peak_bytes, total_bytes: own.total.get().max(peak_bytes) }
        })
    }

    /// Live bytes of ended children can no longer be withdrawn.
    pub(crate) fn gone(&self) -> [ForeignUsage; ForeignKind::COUNT] {
        self.gone.each_ref().map(|gone| ForeignUsage {
            live_bytes: gone.lost.get(),
            peak_bytes: 0,
            total_bytes: gone.total.get(),
        })
    }

    /// The tree lock is held.
    pub(crate) fn inherit(&self, child: &Self) {
        for ((gone, own), below) in self.gone.iter().zip(child.usage()).zip(child.gone()) {
            let sum = own.plus(&below);
            for (cell, by) in [(&gone.total, sum.total_bytes), (&gone.lost, sum.live_bytes)] {
                cell.set(cell.get().saturating_add(by));
            }
        }
    }
}

/// The kind of foreign memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ForeignKind {
    /// Memory for generated code: `VK_INTERNAL_ALLOCATION_TYPE_EXECUTABLE`.
    Executable,
    /// Blocks of another heap: of the global allocator, an arena over it, a library that brings its own.
    Heap,
    /// Pages from the operating system: files, shared memory, anonymous mappings.
    Mapping,
}

impl ForeignKind {
    /// The number of kinds.
    pub const COUNT: usize = 3;

    /// All kinds.
    pub const ALL: [Self; Self::COUNT] = [Self::Executable, Self::Heap, Self::Mapping];

    /// `executable`, `heap` or `mapping`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Heap => "heap",
            Self::Mapping => "mapping",
        }
    }

    /// The index in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ForeignKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Bytes of one kind declared at a context, see [`Foreign`](crate::Foreign).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignUsage {
    /// Bytes declared and not yet withdrawn.
    pub live_bytes: u64,
    /// The most bytes declared at once. For several contexts: the sum of the peaks of those that still exist, an upper
    /// bound.
    pub peak_bytes: u64,
    /// All bytes ever declared; a declaration that grows adds its growth.
    pub total_bytes: u64,
}

impl ForeignUsage {
    /// True when nothing was ever declared.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live_bytes == 0 && self.peak_bytes == 0 && self.total_bytes == 0
    }

    /// Both together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            live_bytes: self.live_bytes.saturating_add(other.live_bytes),
            peak_bytes: self.peak_bytes.saturating_add(other.peak_bytes),
            total_bytes: self.total_bytes.saturating_add(other.total_bytes),
        }
    }

    pub(crate) const fn without(&self, constant: &Self) -> Self {
        let bytes = constant.live_bytes;
        Self {
            live_bytes: self.live_bytes.saturating_sub(bytes),
            peak_bytes: self.peak_bytes.saturating_sub(bytes),
            total_bytes: self.total_bytes.saturating_sub(bytes),
        }
    }
}
