//! Modes of use, and link classes.

#![forbid(unsafe_code)]

use core::fmt;

/// How a device uses a semaphore or a buffer of another one. The smaller, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UseMode {
    /// As its own: the same handle works.
    Native,
    /// After the owner exported it and the user imported it.
    Import,
    /// Only through the host: a copy of the bytes, a wait by a thread.
    Copy,
    /// Not at all.
    None,
}

impl UseMode {
    /// True if the object itself is used, not a copy of it.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Native | Self::Import)
    }
}

/// The link between two devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkClass {
    /// One piece of hardware.
    SameDevice,
    /// A link of their own: NVLink, xGMI.
    PeerLink,
    /// PCI Express, below one root port or switch.
    PcieSameRoot,
    /// PCI Express, through the host bridges of one machine.
    PcieCrossRoot,
    /// Only through host memory.
    HostStaged,
    /// A network between machines.
    Fabric,
    /// Any other link.
    Other,
    /// Not known: Vulkan does not report links, and none is guessed.
    #[default]
    Unknown,
}

impl fmt::Display for UseMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Import => "import",
            Self::Copy => "copy",
            Self::None => "none",
        })
    }
}

impl fmt::Display for LinkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SameDevice => "same device",
            Self::PeerLink => "peer link",
            Self::PcieSameRoot => "PCIe, same root",
            Self::PcieCrossRoot => "PCIe, across roots",
            Self::HostStaged => "host-staged",
            Self::Fabric => "fabric",
            Self::Other => "other",
            Self::Unknown => "unknown",
        })
    }
}
