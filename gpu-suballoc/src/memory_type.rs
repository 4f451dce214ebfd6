//! The choice of a memory type by required, preferred and avoided properties.

#![forbid(unsafe_code)]

use crate::flags::{flags, vulkan_masks};
use core::fmt;

/// `VK_MAX_MEMORY_TYPES`: a `memoryTypeBits` mask can name no more.
pub const MAX_MEMORY_TYPES: usize = 32;

/// They serve certain resources (`PROTECTED`, `LAZILY_ALLOCATED`), or need an enabled feature (`DEVICE_COHERENT_AMD`,
/// `DEVICE_UNCACHED_AMD`, VUID-vkAllocateMemory-deviceCoherentMemory-02790).
const ONLY_ON_REQUEST: PropertyFlags = PropertyFlags::LAZILY_ALLOCATED
    .union(PropertyFlags::PROTECTED)
    .union(PropertyFlags::DEVICE_COHERENT_AMD)
    .union(PropertyFlags::DEVICE_UNCACHED_AMD);

/// The index of the memory type that fits best, `0..types.len()`.
///
/// A type fits when `memory_type_bits` has its bit, and it has every required property and none of `LAZILY_ALLOCATED`,
/// `PROTECTED`, `DEVICE_COHERENT_AMD` and `DEVICE_UNCACHED_AMD` that is neither required nor preferred. That last rule
/// does not apply if all types of `memory_type_bits` have such a property, as for a protected buffer
/// (VUID-vkBindBufferMemory-None-01898). The one with the fewest faults wins: a missing preferred property and a
/// present avoided one are a fault each. Among equals the first wins.
///
/// Entries of `types` beyond the first [`MAX_MEMORY_TYPES`] have no bit and are never chosen.
///
/// # Errors
///
/// [`MemoryTypeError::Contradiction`] when a property is both required or preferred and avoided,
/// [`MemoryTypeError::NoneAccepted`], and [`MemoryTypeError::NoneFits`] when no accepted type has what is required.
#[doc(alias("vmaFindMemoryTypeIndex"))]
pub fn choose_memory_type(
    types: &[MemoryType],
    memory_type_bits: u32,
    preference: MemoryPreference,
) -> Result<u32, MemoryTypeError> {
    MemoryTypesByFit::new(types, ordinary_types(types), memory_type_bits, preference).best()
}

pub(crate) fn ordinary_types(types: &[MemoryType]) -> u32 {
    (0u32..)
        .zip(types.iter().take(MAX_MEMORY_TYPES))
        .filter(|(_, one)| (one.properties & ONLY_ON_REQUEST).is_empty())
        .fold(0, |bits, (index, _)| bits | 1 << index)
}

#[derive(Clone, Debug)]
pub(crate) struct MemoryTypesByFit<'t> {
    types: &'t [MemoryType],
    memory_type_bits: u32,
    preference: MemoryPreference,
    accepts_special_only: bool,
    last: Option<(u32, u32)>,
}

impl<'t> MemoryTypesByFit<'t> {
    pub(crate) const fn new(
        types: &'t [MemoryType],
        ordinary: u32,
        memory_type_bits: u32,
        preference: MemoryPreference,
    ) -> Self {
        Self { types, memory_type_bits, preference, accepts_special_only: memory_type_bits & ordinary == 0, last: None }
    }

    pub(crate) fn best(mut self) -> Result<u32, MemoryTypeError> {
        let MemoryPreference { required, preferred, avoided } = self.preference;
        let contradicted = (required | preferred) & avoided;
        if !contradicted.is_empty() {
            return Err(MemoryTypeError::Contradiction { properties: contradicted });
        }
        let named = u32::try_from(self.types.len())
            .ok()
            .and_then(|count| 1u32.checked_shl(count))
            .map_or(u32::MAX, |end| end.wrapping_sub(1));
        let memory_type_bits = self.memory_type_bits;
        self.next().ok_or(if memory_type_bits & named == 0 {
            MemoryTypeError::NoneAccepted { memory_type_bits }
        } else {
            MemoryTypeError::NoneFits { required }
        })
    }
}

impl Iterator for MemoryTypesByFit<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let MemoryPreference { required, preferred, avoided } = self.preference;
        let mut best: Option<(u32, u32)> = None;
        for (index, candidate) in (0u32..).zip(self.types.iter().take(MAX_MEMORY_TYPES)) {
            let special = candidate.properties & ONLY_ON_REQUEST;
            if self.memory_type_bits & (1 << index) == 0
                || !candidate.properties.contains(required)
                || !(self.accepts_special_only || (required | preferred).contains(special))
            {
                continue;
            }
            let fit =
                (preferred.without(candidate.properties).count() + (candidate.properties & avoided).count(), index);
            if self.last.is_none_or(|last| last < fit) && best.is_none_or(|best| fit < best) {
                best = Some(fit);
            }
        }
        self.last = best.or(self.last);
        best.map(|(_, index)| index)
    }
}

/// One entry of `VkPhysicalDeviceMemoryProperties::memoryTypes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryType {
    /// Its properties.
    pub properties: PropertyFlags,
    /// Its heap.
    pub heap_index: u32,
}

/// Required, preferred and avoided properties of memory. The default has none, and the first type that fits is chosen.
#[doc(alias("VmaMemoryUsage", "MemoryLocation"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPreference {
    required: PropertyFlags,
    preferred: PropertyFlags,
    avoided: PropertyFlags,
}

impl MemoryPreference {
    /// Any memory; a start for [`preferring`](Self::preferring) and [`avoiding`](Self::avoiding).
    pub const ANY: Self = Self::requiring(PropertyFlags::NONE);

    /// Only memory with these properties.
    #[must_use]
    pub const fn requiring(required: PropertyFlags) -> Self {
        Self { required, preferred: PropertyFlags::NONE, avoided: PropertyFlags::NONE }
    }

    /// Memory with these properties is better. Replaces what was preferred before.
    #[must_use]
    pub const fn preferring(self, preferred: PropertyFlags) -> Self {
        Self { preferred, ..self }
    }

    /// Memory with these properties is worse. Replaces what was avoided before.
    #[must_use]
    pub const fn avoiding(self, avoided: PropertyFlags) -> Self {
        Self { avoided, ..self }
    }
}

/// Why no memory type was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryTypeError {
    /// A property is both requested and avoided. The caller's fault.
    Contradiction {
        /// The properties on both sides.
        properties: PropertyFlags,
    },
    /// The resource accepts no type that the device can use: its feature must be enabled, and its heap have bytes.
    NoneAccepted {
        /// The resource's mask.
        memory_type_bits: u32,
    },
    /// No accepted type has everything that is required.
    NoneFits {
        /// The required properties.
        required: PropertyFlags,
    },
}

impl fmt::Display for MemoryTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contradiction { properties } => {
                write!(f, "{properties} is wanted and avoided at once: remove it from one of the two")
            }
            Self::NoneAccepted { memory_type_bits } => write!(
                f,
                "resource and request accept memory types {memory_type_bits:#x}, of which the device has none that it can use: their heap has 0 \
                 bytes, or their feature is not enabled; pass the memoryTypeBits of this device, and with an import those that both it and \
                 the resource accept"
            ),
            Self::NoneFits { required } => write!(
                f,
                "no memory type that the resource accepts has {required} and needs no special permission: \
                 require less and prefer the rest"
            ),
        }
    }
}

impl core::error::Error for MemoryTypeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use PropertyFlags as P;
    use std::string::ToString;

    #[test]
    fn di10_the_best_type_is_chosen_and_a_special_one_on_request_or_alone() {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = |below: u32| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 32) as u32 % below
        };
        let (mut special_alone, mut requested, mut refused) = (0, 0, [0; 3]);
        for table in 0..30_000 {
            let count = next(9);
            let types: std::vec::Vec<_> = (0..count)
                .map(|_| MemoryType {
                    properties: P::from_raw(next(16) | if next(2) == 0 { next(16) << 4 } else { 0 }),
                    heap_index: 0,
                })
                .collect();
            let bits = next(2 << count);
            let mut one_or_none = || P::from_raw(if next(2) == 0 { 0 } else { 1 << next(8) });
            let preference =
                MemoryPreference { required: one_or_none(), preferred: one_or_none(), avoided: one_or_none() };
            let MemoryPreference { required, preferred, avoided } = preference;
            let wanted = required | preferred;
            let accepted: std::vec::Vec<_> = (0..count)
                .filter(|index| bits >> index & 1 == 1)
                .map(|index| (index, types[index as usize].properties))
                .collect();
            let special = |properties: P| properties & ONLY_ON_REQUEST;
            let any_plain = accepted.iter().any(|(_, of)| special(*of).is_empty());
            let best = accepted
                .iter()
                .filter(|(_, of)| of.contains(required))
                .filter(|(_, of)| !any_plain || wanted.contains(special(*of)))
                .min_by_key(|(_, of)| preferred.without(*of).count() + (avoided & *of).count());
            let properties = wanted & avoided;
            let expected = if !properties.is_empty() {
                refused[0] += 1;
                Err(MemoryTypeError::Contradiction { properties })
            } else if accepted.is_empty() {
                refused[1] += 1;
                Err(MemoryTypeError::NoneAccepted { memory_type_bits: bits })
            } else if let Some((index, of)) = best {
                special_alone += u32::from(!any_plain);
                requested += u32::from(any_plain && !special(*of).is_empty());
                Ok(*index)
            } else {
                refused[2] += 1;
                Err(MemoryTypeError::NoneFits { required })
            };
            assert_eq!(
                choose_memory_type(&types, bits, preference),
                expected,
                "table {table}: {types:?}, {bits:#b}, {preference:?}"
            );
        }
        assert!(special_alone > 2000 && requested > 500, "{special_alone} {requested}");
        assert!(refused.iter().all(|times| *times > 1000), "{refused:?}");
    }

    #[test]
    fn a_contradiction_says_which_property() {
        let types = [MemoryType { properties: P::DEVICE_LOCAL, heap_index: 0 }];
        let both = MemoryPreference::requiring(P::DEVICE_LOCAL).avoiding(P::DEVICE_LOCAL);
        let refused = choose_memory_type(&types, 1, both).unwrap_err().to_string();
        assert!(refused.starts_with("DEVICE_LOCAL is wanted and avoided at once: "));
    }

    #[test]
    fn the_last_bit_of_the_mask_is_a_type_and_a_33rd_entry_is_not() {
        let mut many = [MemoryType { properties: P::NONE, heap_index: 0 }; MAX_MEMORY_TYPES + 1];
        many[MAX_MEMORY_TYPES - 1].properties = P::HOST_CACHED;
        many[MAX_MEMORY_TYPES].properties = P::HOST_VISIBLE;
        assert_eq!(choose_memory_type(&many, !0, MemoryPreference::requiring(P::HOST_CACHED)), Ok(31));
        let beyond = choose_memory_type(&many, !0, MemoryPreference::requiring(P::HOST_VISIBLE));
        assert_eq!(beyond, Err(MemoryTypeError::NoneFits { required: P::HOST_VISIBLE }));
    }
}

flags! {
    /// Properties of a memory type, with Vulkan's bits (`VkMemoryPropertyFlagBits`). Bits that Vulkan adds later are
    /// kept and compared.
    PropertyFlags(u32) {
        /// Fastest for the device.
        DEVICE_LOCAL = 0;
        /// Can be mapped with `vkMapMemory`.
        HOST_VISIBLE = 1;
        /// Needs no flush and no invalidation.
        HOST_COHERENT = 2;
        /// Fast to read for the host.
        HOST_CACHED = 3;
        /// Backed only when touched; for transient attachments alone.
        LAZILY_ALLOCATED = 4;
        /// For protected resources alone.
        PROTECTED = 5;
        /// Device accesses are coherent at once (`VK_AMD_device_coherent_memory`).
        DEVICE_COHERENT_AMD = 6;
        /// Not cached on the device (`VK_AMD_device_coherent_memory`).
        DEVICE_UNCACHED_AMD = 7;
        /// Can be reached by other devices of the machine (`VK_NV_external_memory_rdma`).
        RDMA_CAPABLE_NV = 8;
    }
}
vulkan_masks!(PropertyFlags);

impl PropertyFlags {
    /// How many bits are set, `0..=32`.
    #[inline]
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

#[cfg(test)]
mod property_flags_tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_are_printed_lowest_bit_first_and_unknown_bits_as_numbers() {
        assert_eq!(PropertyFlags::NONE.to_string(), "none");
        assert_eq!(
            (PropertyFlags::HOST_CACHED | PropertyFlags::DEVICE_LOCAL).to_string(),
            "DEVICE_LOCAL | HOST_CACHED"
        );
        assert_eq!(PropertyFlags::from_raw(0x8000_0002).to_string(), "HOST_VISIBLE | 0x80000000");
        assert_eq!(PropertyFlags::from_raw(0x4000_0000).to_string(), "0x40000000");
    }

    #[test]
    fn each_named_flag_is_a_bit_of_its_own() {
        let all = PropertyFlags::from_raw(u32::MAX);
        let named = (0..32).filter(|bit| PropertyFlags::from_raw(1 << bit).names().count() == 1);
        assert_eq!((named.count(), all.names().count()), (9, 9));
    }
}
