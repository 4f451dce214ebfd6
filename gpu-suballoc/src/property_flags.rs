//! What a memory type can do: `VkMemoryPropertyFlags` as a value of our own.

#![forbid(unsafe_code)]

use core::fmt;
use core::ops::{BitAnd, BitOr};

/// Properties of a memory type; the bits are Vulkan's own (`VkMemoryPropertyFlagBits`), so a mask crosses the C boundary
/// as it is. Bits that Vulkan adds later are kept and take part in every comparison.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct PropertyFlags(u32);

/// Vulkan's names without prefix, lowest bit first.
const NAMES: [(PropertyFlags, &str); 9] = [
    (PropertyFlags::DEVICE_LOCAL, "DEVICE_LOCAL"),
    (PropertyFlags::HOST_VISIBLE, "HOST_VISIBLE"),
    (PropertyFlags::HOST_COHERENT, "HOST_COHERENT"),
    (PropertyFlags::HOST_CACHED, "HOST_CACHED"),
    (PropertyFlags::LAZILY_ALLOCATED, "LAZILY_ALLOCATED"),
    (PropertyFlags::PROTECTED, "PROTECTED"),
    (PropertyFlags::DEVICE_COHERENT_AMD, "DEVICE_COHERENT_AMD"),
    (PropertyFlags::DEVICE_UNCACHED_AMD, "DEVICE_UNCACHED_AMD"),
    (PropertyFlags::RDMA_CAPABLE_NV, "RDMA_CAPABLE_NV"),
];

impl PropertyFlags {
    /// No property.
    pub const NONE: Self = Self(0);
    /// Fastest for the device.
    pub const DEVICE_LOCAL: Self = Self(1 << 0);
    /// Can be mapped with `vkMapMemory`.
    pub const HOST_VISIBLE: Self = Self(1 << 1);
    /// Needs no flush and no invalidation.
    pub const HOST_COHERENT: Self = Self(1 << 2);
    /// Fast to read for the host.
    pub const HOST_CACHED: Self = Self(1 << 3);
    /// Backed only when touched; for transient attachments alone.
    pub const LAZILY_ALLOCATED: Self = Self(1 << 4);
    /// For protected resources alone.
    pub const PROTECTED: Self = Self(1 << 5);
    /// Device accesses are coherent at once (`VK_AMD_device_coherent_memory`).
    pub const DEVICE_COHERENT_AMD: Self = Self(1 << 6);
    /// Not cached on the device (`VK_AMD_device_coherent_memory`).
    pub const DEVICE_UNCACHED_AMD: Self = Self(1 << 7);
    /// Can be reached by other devices of the machine (`VK_NV_external_memory_rdma`).
    pub const RDMA_CAPABLE_NV: Self = Self(1 << 8);

    /// From Vulkan's mask.
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// Vulkan's mask.
    #[inline]
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        self.0
    }

    /// Every bit of `other` is set here.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits set here but not in `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The names of those that are set, lowest bit first, as far as they have one.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES
            .into_iter()
            .filter(move |(flag, _)| self.contains(*flag))
            .map(|(_, name)| name)
    }

    /// No bit is set.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many bits are set, `0..=32`.
    #[inline]
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

impl BitOr for PropertyFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for PropertyFlags {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Display for PropertyFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        let mut separator = "";
        for (flag, name) in NAMES {
            if self.contains(flag) {
                write!(f, "{separator}{name}")?;
                separator = " | ";
                rest = rest.without(flag);
            }
        }
        match (rest.is_empty(), separator) {
            (true, "") => f.write_str("none"),
            (true, _) => Ok(()),
            (false, _) => write!(f, "{separator}{:#x}", rest.0),
        }
    }
}

impl fmt::Debug for PropertyFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_are_printed_lowest_bit_first_and_unknown_bits_as_numbers() {
        assert_eq!(PropertyFlags::NONE.to_string(), "none");
        assert_eq!(
            (PropertyFlags::HOST_CACHED | PropertyFlags::DEVICE_LOCAL).to_string(),
            "DEVICE_LOCAL | HOST_CACHED"
        );
        assert_eq!(
            PropertyFlags::from_raw(0x8000_0002).to_string(),
            "HOST_VISIBLE | 0x80000000"
        );
        assert_eq!(
            PropertyFlags::from_raw(0x4000_0000).to_string(),
            "0x40000000"
        );
    }

    #[test]
    fn each_named_flag_is_a_bit_of_its_own() {
        let all = NAMES
            .iter()
            .fold(PropertyFlags::NONE, |all, (flag, _)| all | *flag);
        assert!(NAMES.iter().all(|(flag, _)| flag.count() == 1));
        assert_eq!(all.count() as usize, NAMES.len());
    }
}
