//! What Vulkan commands return, as brackets are told of it.

#![forbid(unsafe_code)]

use ash::vk;

/// What a Vulkan command may return.
pub(crate) trait Answer {
    /// `SUCCESS` where it is no result.
    fn result(&self) -> vk::Result {
        vk::Result::SUCCESS
    }
}

impl Answer for vk::Result {
    fn result(&self) -> vk::Result {
        *self
    }
}

/// As ash has it.
impl<T> Answer for Result<T, vk::Result> {
    fn result(&self) -> vk::Result {
        self.as_ref().err().copied().unwrap_or(vk::Result::SUCCESS)
    }
}

impl Answer for () {}

/// An address of the device.
impl Answer for u64 {}

/// `vkGetInstanceProcAddr` and `vkGetDeviceProcAddr`.
impl Answer for vk::PFN_vkVoidFunction {}
