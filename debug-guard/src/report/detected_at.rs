//! When a finding was made.

#![forbid(unsafe_code)]

/// When a finding was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DetectedAt {
    /// At the access: an inaccessible page stopped the instruction.
    Instruction,
    /// When the block was freed.
    Free,
    /// When the block was to be reallocated.
    Reallocation,
    /// When the block, freed before, left quarantine.
    Eviction,
    /// When the block was queried: [`usable_size`](crate::Guard::usable_size).
    Query,
    /// When all blocks were verified, on request or every so many operations: [`check_all`](crate::Guard::check_all).
    Check,
    /// When the guard was closed, or the process ended.
    Exit,
}

impl DetectedAt {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::Free => "free",
            Self::Reallocation => "reallocation",
            Self::Eviction => "eviction",
            Self::Query => "query",
            Self::Check => "check",
            Self::Exit => "exit",
        }
    }

    /// Its phrase in a report's first line.
    pub(super) const fn phrase(self) -> &'static str {
        match self {
            Self::Instruction => "at the instruction",
            Self::Free => "at free",
            Self::Reallocation => "at realloc",
            Self::Eviction => "at eviction from quarantine",
            Self::Query => "when it was asked about",
            Self::Check => "by check_all",
            Self::Exit => "at exit",
        }
    }
}
