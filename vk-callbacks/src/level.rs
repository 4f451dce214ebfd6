//! The levels of the chain of allocators.

#![forbid(unsafe_code)]

use core::fmt;

/// The level of an allocator in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// The allocator of a pipeline or validation cache beside the command's object: V29, V37.
    Cache,
    /// The command's own `pAllocator`; for pool children the pool's (V34).
    Object,
    /// The `pAllocator` of `vkCreateDevice`.
    Device,
    /// The `pAllocator` of `vkCreateInstance`.
    Instance,
    /// The driver's own allocator: the application passed none (V33).
    Default,
}

impl Level {
    /// Most specific first.
    pub const ALL: &'static [Self] = &[
        Self::Cache,
        Self::Object,
        Self::Device,
        Self::Instance,
        Self::Default,
    ];

    /// `cache`, `object`, `device`, `instance` or `default`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Object => "object",
            Self::Device => "device",
            Self::Instance => "instance",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
