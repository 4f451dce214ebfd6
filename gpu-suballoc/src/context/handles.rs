//! The application's handles of a context, as numbers.

#![forbid(unsafe_code)]

use core::fmt;

use super::error::ContextError;

/// `VkInstance`, `VkPhysicalDevice` and `VkDevice` of an application, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VulkanHandles {
    /// `VkInstance`.
    pub instance: u64,
    /// `VkPhysicalDevice`, of the instance.
    pub physical_device: u64,
    /// `VkDevice`, created from the physical device.
    pub device: u64,
}

/// One of the three handles.
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

    /// Refuses `VK_NULL_HANDLE`.
    pub(super) fn check(self) -> Result<(), ContextError> {
        let null = self.each().into_iter().find(|(_, handle)| *handle == 0);
        null.map_or(Ok(()), |(which, _)| Err(ContextError::NullHandle(which)))
    }

    /// Refuses other handles and `VK_NULL_HANDLE`.
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
