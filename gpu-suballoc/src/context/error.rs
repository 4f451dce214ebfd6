//! Why a context is not acquired, used or released.

#![forbid(unsafe_code)]

use core::ffi::CStr;
use core::fmt;

use alloc_core::HostError;

use super::handles::ContextHandle;
use super::release::ContextOutstanding;
use crate::error::GpuError;

/// Why a call was refused; everything is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextError {
    /// A handle is `VK_NULL_HANDLE`. The caller's fault.
    NullHandle(ContextHandle),
    /// A handle is another one than the context's; a device that lives, and is said to be of another instance or physical device, too. The
    /// caller's fault.
    OtherHandle(ContextHandle),
    /// The driver, or the loader, does not have a command that every Vulkan 1.0 has. No context was made.
    MissingCommand {
        /// What was asked for it.
        level: CommandSource,
        /// Its name.
        name: &'static CStr,
    },
    /// No host memory for the books. Nobody's fault.
    Host(HostError),
    /// The allocator, or the driver, refused.
    Gpu(GpuError),
    /// There is no such context: it was released, or is another table's. The caller's fault.
    Released,
    /// Somebody is using the context at the moment.
    InUse,
    /// The context has regions, crops or held shaders.
    Outstanding(ContextOutstanding),
    /// As many devices as can be told apart have contexts.
    TooManyDevices,
    /// As many contexts as a table has room for have a number.
    TooManyContexts,
    /// No context was set as the default, and no handlers are set.
    NoContext,
    /// A dispatch was asked for within a dispatch of the same context, on the same thread. The caller's fault.
    NestedDispatch,
    /// Handlers cannot be changed between an acquire and its release.
    HandlersInUse,
}

/// Who answers for a command's function.
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
            Self::OtherHandle(which) => write!(f, "the {which} is not the context's: pass the one it was acquired with"),
            Self::MissingCommand { level, name } => {
                let asked = match level {
                    CommandSource::Loader => "the loader",
                    CommandSource::Instance => "the instance",
                    CommandSource::Device => "the device",
                };
                write!(f, "{asked} does not have {}: pass handles of a whole Vulkan driver", name.to_str().unwrap_or("a command"))
            }
            Self::Host(error) => error.fmt(f),
            Self::Gpu(error) => error.fmt(f),
            Self::Released => f.write_str("there is no such context: it was released already, or is another table's"),
            Self::InUse => f.write_str("the context is being used: release it when the dispatch is over"),
            Self::Outstanding(left) => left.fmt(f),
            Self::TooManyDevices => f.write_str("64 devices have contexts already: release those of one"),
            Self::TooManyContexts => f.write_str("the table has 64 contexts already: release one, or use another table"),
            Self::NoContext => f.write_str("there is no default context: acquire one and set it, or set handlers"),
            Self::NestedDispatch => {
                f.write_str("this thread is in a dispatch of the context: use the context that the dispatch was given")
            }
            Self::HandlersInUse => f.write_str("a context is acquired through the handlers: change them when it is released"),
        }
    }
}

impl core::error::Error for ContextError {}
