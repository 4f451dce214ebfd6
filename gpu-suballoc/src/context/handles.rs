//! Whose context it is: three of the application's handles, as numbers.

#![forbid(unsafe_code)]

use core::fmt;

use super::error::ContextError;

/// `VkInstance`, `VkPhysicalDevice` and `VkDevice` of an application, as numbers. They stay the application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VulkanHandles {
    /// `VkInstance`.
    pub instance: u64,
    /// `VkPhysicalDevice`, of the instance.
    pub physical_device: u64,
    /// `VkDevice`, made from the physical device.
    pub device: u64,
}

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextHandle {
    /// `VkInstance`.
    Instance,
    /// `VkPhysicalDevice`.
    PhysicalDevice,
    /// `VkDevice`.
    Device,
}

impl VulkanHandles {
    const fn each(self) -> [(ContextHandle, u64); 3] {
        [
            (ContextHandle::Instance, self.instance),
            (ContextHandle::PhysicalDevice, self.physical_device),
            (ContextHandle::Device, self.device),
        ]
    }

    /// None is `VK_NULL_HANDLE`.
    pub(super) fn check(self) -> Result<(), ContextError> {
        let null = self.each().into_iter().find(|(_, handle)| *handle == 0);
        null.map_or(Ok(()), |(which, _)| Err(ContextError::NullHandle(which)))
    }

    /// All three are the same, and none is null.
    pub(super) fn check_same(self, other: Self) -> Result<(), ContextError> {
        other.check()?;
        let other = self
            .each()
            .into_iter()
            .zip(other.each())
            .find(|(mine, theirs)| mine != theirs);
        other.map_or(Ok(()), |((which, _), _)| {
            Err(ContextError::OtherHandle(which))
        })
    }
}

impl fmt::Display for ContextHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instance => "VkInstance",
            Self::PhysicalDevice => "VkPhysicalDevice",
            Self::Device => "VkDevice",
        })
    }
}
