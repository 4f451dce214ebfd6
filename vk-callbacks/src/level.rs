//! The levels of the chain in which a driver looks for an allocator.

#![forbid(unsafe_code)]

use core::fmt;

/// Where in the chain an allocator stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// That of a pipeline or validation cache which the command was given beside its object: V29, V37.
    Cache,
    /// The command's own `pAllocator`; for pool children the pool's (V34).
    Object,
    /// What `vkCreateDevice` got.
    Device,
    /// What `vkCreateInstance` got.
    Instance,
    /// The driver's own allocator: no application gave any (V33).
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
