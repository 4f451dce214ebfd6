//! Modes of use, link classes and costs.

#![forbid(unsafe_code)]

use core::fmt;

/// How a device uses a semaphore or a buffer of another one. The smaller, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum UseMode {
    /// As its own: the same handle works.
    Native = 0,
    /// After the owner exported it and the user imported it.
    Import = 1,
    /// Only through the host: a copy of the bytes, a wait by a thread.
    Copy = 2,
    /// Not at all.
    None = 3,
}

impl UseMode {
    /// The better of two.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if (other as u8) < self as u8 {
            other
        } else {
            self
        }
    }

    /// True if the object itself is used, not a copy of it.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Native | Self::Import)
    }
}

/// The link between two devices. [`LinkClass::rank`] orders links by distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LinkClass {
    /// One piece of hardware.
    SameDevice = 0,
    /// A link of their own: NVLink, xGMI.
    PeerLink = 1,
    /// PCI Express, below one root port or switch.
    PcieSameRoot = 2,
    /// PCI Express, through the host bridges of one machine.
    PcieCrossRoot = 3,
    /// Only through host memory.
    HostStaged = 4,
    /// A network between machines.
    Fabric = 5,
    /// Any other link.
    Other = 6,
    /// Not known: Vulkan does not report links, and none is guessed.
    #[default]
    Unknown = 7,
}

impl LinkClass {
    /// 0 (the same hardware) to 6; `None` if it is not known.
    #[must_use]
    pub const fn rank(self) -> Option<u8> {
        match self {
            Self::Unknown => None,
            known => Some(known as u8),
        }
    }

    /// The farther of two, for a device that is composed of several; unknown if one of them is.
    #[must_use]
    pub const fn farther(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (one, other) => {
                if (other as u8) > one as u8 {
                    other
                } else {
                    one
                }
            }
        }
    }

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameDevice => "same device",
            Self::PeerLink => "peer link",
            Self::PcieSameRoot => "PCIe, same root",
            Self::PcieCrossRoot => "PCIe, across roots",
            Self::HostStaged => "host-staged",
            Self::Fabric => "fabric",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// A cost without a unit, 0 (free) to 15: for comparing two ways, not for predicting a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u8);

impl Cost {
    /// No cost.
    pub const FREE: Self = Self(0);
    /// The highest cost.
    pub const MAX: Self = Self(15);

    /// `value`, at most [`MAX`](Self::MAX).
    #[must_use]
    pub const fn clamped(value: u32) -> Self {
        if value > 15 {
            Self::MAX
        } else {
            Self(value as u8)
        }
    }

    /// 0 to 15.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// From an entry of ACPI's SLIT, as Linux shows it in `/sys/devices/system/node/node*/distance`: 10 is the node itself.
    #[must_use]
    pub const fn of_numa_distance(slit: u8) -> Self {
        Self::clamped(slit.saturating_sub(10) as u32 / 2)
    }
}

/// A number that is no value of an enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The number.
    pub value: u8,
    /// The greatest valid number.
    pub max: u8,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is none of 0 to {}: pass one of those",
            self.value, self.max
        )
    }
}

impl core::error::Error for OutOfRange {}

fn named<T: Copy, const N: usize>(all: [T; N], value: u8) -> Result<T, OutOfRange> {
    all.get(usize::from(value)).copied().ok_or(OutOfRange {
        value,
        max: N as u8 - 1,
    })
}

impl TryFrom<u8> for UseMode {
    type Error = OutOfRange;
    fn try_from(value: u8) -> Result<Self, OutOfRange> {
        named([Self::Native, Self::Import, Self::Copy, Self::None], value)
    }
}

impl TryFrom<u8> for LinkClass {
    type Error = OutOfRange;
    fn try_from(value: u8) -> Result<Self, OutOfRange> {
        let all = [
            Self::SameDevice,
            Self::PeerLink,
            Self::PcieSameRoot,
            Self::PcieCrossRoot,
            Self::HostStaged,
            Self::Fabric,
            Self::Other,
            Self::Unknown,
        ];
        named(all, value)
    }
}

impl TryFrom<u8> for Cost {
    type Error = OutOfRange;
    fn try_from(value: u8) -> Result<Self, OutOfRange> {
        if value <= Self::MAX.0 {
            Ok(Self(value))
        } else {
            Err(OutOfRange {
                value,
                max: Self::MAX.0,
            })
        }
    }
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
        f.pad(self.name())
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
