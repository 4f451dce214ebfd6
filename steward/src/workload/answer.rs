//! The return values of Vulkan commands, as brackets record them.

#![forbid(unsafe_code)]

use ash::vk;

/// The return value of a Vulkan command.
pub(crate) trait Answer {
    /// `SUCCESS` if the value is no `VkResult`.
    fn result(&self) -> vk::Result {
        vk::Result::SUCCESS
    }
}

impl Answer for vk::Result {
    fn result(&self) -> vk::Result {
        *self
    }
}

/// The result of a wrapper of ash.
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
