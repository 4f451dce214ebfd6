//! Vulkan's handles as numbers: 64 bits on every target, never `VK_NULL_HANDLE`.

#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

        // In the form of leak lists, memory maps and drivers.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_written_as_leaks_write_them() {
        assert_eq!(
            std::format!("{:?}", BufferHandle::from_raw(0x680_0000)),
            "Some(BufferHandle(0x6800000))"
        );
    }
}
