#![forbid(unsafe_code)]

use super::device_context::ContextOutstanding;
use crate::error::GpuError;
use alloc_core::HostError;
use core::ffi::CStr;
use core::fmt;

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextError {
    /// A handle is `VK_NULL_HANDLE`. The caller's fault.
    NullHandle(VulkanHandleKind),
    /// A handle is not the context's, or not that of the device's other contexts. The caller's fault.
    OtherHandle(VulkanHandleKind),
    /// Driver or loader lack a command that every Vulkan 1.0 has. No context was created.
    MissingCommand {
        /// The source that lacks it.
        level: CommandSource,
        /// Its name.
        name: &'static CStr,
    },
    /// No host memory for the bookkeeping. Nobody's fault.
    Host(HostError),
    /// The allocator, or the driver, refused.
    Gpu(GpuError),
    /// There is no such context: it was released, or is in another table. The caller's fault.
    Released,
    /// The context is in use.
    InUse,
    /// The context has regions, crops or referenced shaders.
    Outstanding(ContextOutstanding),
    /// 64 devices have contexts.
    TooManyDevices,
    /// The table has 64 contexts.
    TooManyContexts,
    /// Neither a default context nor handlers are set.
    NoContext,
    /// A dispatch within a dispatch of the same context, on the same thread. The caller's fault.
    NestedDispatch,
    /// Handlers cannot be changed between an acquire and its release.
    HandlersInUse,
}

/// The source of a command's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSource {
    /// `vkGetInstanceProcAddr` without an instance.
    Loader,
    /// `vkGetInstanceProcAddr` of the instance.
    Instance,
    /// `vkGetDeviceProcAddr`.
    Device,
}

impl From<HostError> for ContextError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<GpuError> for ContextError {
    fn from(error: GpuError) -> Self {
        Self::Gpu(error)
    }
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NullHandle(which) => write!(f, "the {which} is VK_NULL_HANDLE: pass the application's"),
            Self::OtherHandle(which) => {
                write!(f, "the {which} is not the context's: pass the one it was acquired with")
            }
            Self::MissingCommand { level, name } => {
                let source = match level {
                    CommandSource::Loader => "the loader",
                    CommandSource::Instance => "the instance",
                    CommandSource::Device => "the device",
                };
                write!(
                    f,
                    "{source} does not have {}: pass handles of a whole Vulkan driver",
                    name.to_str().unwrap_or("a command")
                )
            }
            Self::Host(error) => error.fmt(f),
            Self::Gpu(error) => error.fmt(f),
            Self::Released => f.write_str("there is no such context: it was released already, or is another table's"),
            Self::InUse => f.write_str("the context is being used: release it when the dispatch is over"),
            Self::Outstanding(left) => left.fmt(f),
            Self::TooManyDevices => f.write_str("64 devices have contexts already: release those of one"),
            Self::TooManyContexts => {
                f.write_str("the table has 64 contexts already: release one, or use another table")
            }
            Self::NoContext => f.write_str("there is no default context: acquire one and set it, or set handlers"),
            Self::NestedDispatch => {
                f.write_str("this thread is in a dispatch of the context: use the context that the dispatch passed")
            }
            Self::HandlersInUse => {
                f.write_str("a context is acquired through the handlers: change them when it is released")
            }
        }
    }
}

impl core::error::Error for ContextError {}

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
pub enum VulkanHandleKind {
    /// `VkInstance`.
    Instance,
    /// `VkPhysicalDevice`.
    PhysicalDevice,
    /// `VkDevice`.
    Device,
}

impl VulkanHandles {
    const fn each(self) -> [(VulkanHandleKind, u64); 3] {
        [
            (VulkanHandleKind::Instance, self.instance),
            (VulkanHandleKind::PhysicalDevice, self.physical_device),
            (VulkanHandleKind::Device, self.device),
        ]
    }

    pub(super) fn check(self) -> Result<(), ContextError> {
        let null = self.each().into_iter().find(|(_, handle)| *handle == 0);
        null.map_or(Ok(()), |(which, _)| Err(ContextError::NullHandle(which)))
    }

    pub(super) fn check_same(self, other: Self) -> Result<(), ContextError> {
        other.check()?;
        let other = self.each().into_iter().zip(other.each()).find(|(mine, theirs)| mine != theirs);
        other.map_or(Ok(()), |((which, _), _)| Err(ContextError::OtherHandle(which)))
    }
}

impl fmt::Display for VulkanHandleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instance => "VkInstance",
            Self::PhysicalDevice => "VkPhysicalDevice",
            Self::Device => "VkDevice",
        })
    }
}
