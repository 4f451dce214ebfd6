//! Handles and flags to and from ash's types: the same numbers, as `layout` proves.

#![forbid(unsafe_code)]

use ash::vk::{self, Handle};

use crate::device::{
    BufferHandle, BufferUsage, ExternalHandleTypes, ImageHandle, ImageUsage, MemoryHandle,
};
use crate::error::GpuMisuse;
use crate::property_flags::PropertyFlags;

macro_rules! handles {
    ($($ours:ty, $theirs:ty;)*) => {$(
        impl From<$ours> for $theirs {
            fn from(handle: $ours) -> Self {
                Self::from_raw(handle.as_raw())
            }
        }

        /// Refuses `VK_NULL_HANDLE`.
        impl TryFrom<$theirs> for $ours {
            type Error = GpuMisuse;

            fn try_from(handle: $theirs) -> Result<Self, GpuMisuse> {
                Self::from_raw(handle.as_raw()).ok_or(GpuMisuse::NullHandle)
            }
        }
    )*};
}

handles! {
    MemoryHandle, vk::DeviceMemory;
    BufferHandle, vk::Buffer;
    ImageHandle, vk::Image;
}

macro_rules! flags {
    ($($ours:ty, $theirs:ty;)*) => {$(
        impl From<$ours> for $theirs {
            fn from(flags: $ours) -> Self {
                Self::from_raw(flags.as_raw())
            }
        }

        impl From<$theirs> for $ours {
            fn from(flags: $theirs) -> Self {
                Self::from_raw(flags.as_raw())
            }
        }
    )*};
}

flags! {
    BufferUsage, vk::BufferUsageFlags;
    ImageUsage, vk::ImageUsageFlags;
    PropertyFlags, vk::MemoryPropertyFlags;
    ExternalHandleTypes, vk::ExternalMemoryHandleTypeFlags;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_go_there_and_back_and_null_is_none() {
        let theirs = vk::Buffer::from_raw(0x50);
        let ours = BufferHandle::try_from(theirs);
        assert_eq!(ours.map(BufferHandle::as_raw), Ok(0x50));
        assert!(ours.map(vk::Buffer::from) == Ok(theirs));
        assert_eq!(
            BufferHandle::try_from(vk::Buffer::null()),
            Err(GpuMisuse::NullHandle)
        );
    }

    #[test]
    fn flags_go_there_and_back_with_all_their_bits() {
        let theirs = vk::BufferUsageFlags::VERTEX_BUFFER | vk::BufferUsageFlags::from_raw(1 << 31);
        assert_eq!(BufferUsage::from(theirs).as_raw(), theirs.as_raw());
        assert!(vk::BufferUsageFlags::from(BufferUsage::from(theirs)) == theirs);
        assert_eq!(
            PropertyFlags::from(vk::MemoryPropertyFlags::HOST_CACHED),
            PropertyFlags::HOST_CACHED
        );
    }
}
