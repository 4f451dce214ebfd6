//! When a fault was found, and what the instruction did that it stopped.

#![forbid(unsafe_code)]

/// When it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Moment {
    /// As it happened: the instruction was stopped by a page that cannot be touched.
    Instruction,
    /// When the block was given back.
    Free,
    /// When the block was to be reallocated.
    Reallocation,
    /// When the block, freed before, left quarantine.
    Eviction,
    /// When somebody asked about the block: [`usable_size`](crate::Guard::usable_size).
    Query,
    /// When everything was looked at, asked for or every so many operations: [`check_all`](crate::Guard::check_all).
    Check,
    /// When the guard was closed, or the process ended.
    Exit,
}

/// What an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It read.
    Read,
    /// It wrote.
    Write,
    /// It was a jump there.
    Execute,
}

impl Moment {
    /// As reports write it.
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

    /// As a sentence goes on with it.
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

impl Access {
    /// As reports write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }
}
