//! Vulkan's handles as numbers: 64 bits on every target, never `VK_NULL_HANDLE`.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(NonZeroU64);

        impl $name {
            /// From Vulkan's number; `None` for `VK_NULL_HANDLE`.
            #[inline]
            #[must_use]
            pub const fn from_raw(raw: u64) -> Option<Self> {
                match NonZeroU64::new(raw) {
                    Some(raw) => Some(Self(raw)),
                    None => None,
                }
            }

            /// Vulkan's number, never 0.
            #[inline]
            #[must_use]
            pub const fn as_raw(self) -> u64 {
                self.0.get()
            }
        }
    )*};
}

handles! {
    /// A `VkDeviceMemory`.
    MemoryHandle;
    /// A `VkBuffer`.
    BufferHandle;
    /// A `VkImage`.
    ImageHandle;
}
