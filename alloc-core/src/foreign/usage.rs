//! The figures of an account for foreign memory.

#![forbid(unsafe_code)]

use core::fmt;

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

    /// Its place in [`ALL`](Self::ALL).
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

/// Bytes of one kind that were declared at a context, see [`Foreign`](crate::Foreign). Nothing can verify a declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignUsage {
    /// Bytes declared and not yet withdrawn.
    pub live_bytes: u64,
    /// The most bytes that were declared at once, exact. Of several contexts together: the sum of the peaks of those that still
    /// exist, an upper bound for these.
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

    /// Both together. Peaks add up to an upper bound.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            live_bytes: self.live_bytes.saturating_add(other.live_bytes),
            peak_bytes: self.peak_bytes.saturating_add(other.peak_bytes),
            total_bytes: self.total_bytes.saturating_add(other.total_bytes),
        }
    }

    /// This less a part that was there all the time.
    pub(crate) const fn without(&self, constant: &Self) -> Self {
        let bytes = constant.live_bytes;
        Self {
            live_bytes: self.live_bytes.saturating_sub(bytes),
            peak_bytes: self.peak_bytes.saturating_sub(bytes),
            total_bytes: self.total_bytes.saturating_sub(bytes),
        }
    }
}
