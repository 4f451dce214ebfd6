//! The five lifetimes of host memory. Nothing else here knows Vulkan.

#![forbid(unsafe_code)]

use core::fmt;

/// How long an allocation is meant to live.
///
/// Ordered from the shortest to the longest lifetime; the discriminants equal `VkSystemAllocationScope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[doc(alias("VkSystemAllocationScope"))]
pub enum Scope {
    /// For the length of one command (`VK_SYSTEM_ALLOCATION_SCOPE_COMMAND`).
    Command = 0,
    /// For the lifetime of one object (`VK_SYSTEM_ALLOCATION_SCOPE_OBJECT`).
    Object = 1,
    /// For the lifetime of a pipeline or validation cache (`VK_SYSTEM_ALLOCATION_SCOPE_CACHE`).
    Cache = 2,
    /// For the lifetime of a device (`VK_SYSTEM_ALLOCATION_SCOPE_DEVICE`).
    Device = 3,
    /// For the lifetime of an instance (`VK_SYSTEM_ALLOCATION_SCOPE_INSTANCE`).
    Instance = 4,
}

impl Scope {
    /// All scopes, shortest lifetime first.
    pub const ALL: [Self; Self::COUNT] = [Self::Command, Self::Object, Self::Cache, Self::Device, Self::Instance];
    /// How many scopes there are.
    pub const COUNT: usize = 5;

    /// The scope's position in [`Scope::ALL`], `0..5`.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The scope with Vulkan's number `raw`, or `None` when there is no such scope.
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Command),
            1 => Some(Self::Object),
            2 => Some(Self::Cache),
            3 => Some(Self::Device),
            4 => Some(Self::Instance),
            _ => None,
        }
    }

    /// Vulkan's number for this scope.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        self as u32
    }

    /// Lower-case name: `command`, `object`, `cache`, `device` or `instance`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Object => "object",
            Self::Cache => "cache",
            Self::Device => "device",
            Self::Instance => "instance",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
