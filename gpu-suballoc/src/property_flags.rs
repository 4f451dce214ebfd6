//! What a memory type can do: `VkMemoryPropertyFlags` as a value of our own.

#![forbid(unsafe_code)]

use crate::flags::{flags, vulkan_masks};

flags! {
    /// Properties of a memory type; the bits are Vulkan's own (`VkMemoryPropertyFlagBits`), so a mask crosses the C boundary
    /// as it is. Bits that Vulkan adds later are kept and take part in every comparison.
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
        let all = PropertyFlags::from_raw(u32::MAX);
        let named = (0..32).filter(|bit| PropertyFlags::from_raw(1 << bit).names().count() == 1);
        assert_eq!((named.count(), all.names().count()), (9, 9));
    }
}
