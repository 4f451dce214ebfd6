//! The error of this crate, and its `VkResult`. Building it allocates nothing.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::HostError;

use crate::command::thread::is_busy;
use crate::live::Live;
use crate::sink::Callback;
use crate::trace::TraceError;

/// Why a call was refused. Nothing was changed by a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallbackError {
    /// No memory, over budget, or a rule of alloc-core was broken.
    Host(HostError),
    /// A function that must be there is NULL. The application's fault (V1 to V3).
    MissingFunction(Callback),
    /// One of the two internal notifications is there, the other is NULL. The application's fault (V4).
    HalfInternal,
    /// A `MultiAlloc` without a byte: there is no block to allocate. The caller's fault.
    EmptySet,
    /// The block is of a level that the chain does not have. The application's fault (V42).
    LevelMissing(Level),
    /// The context of a new bridge has blocks or children, so the driver's could not be distinguished later.
    ContextInUse,
    /// The maximum of watched callbacks of a process, 262 144, is reached.
    TooManyOwners,
    /// The checker has no owner of this id.
    UnknownOwner,
    /// A host trace cannot be read on.
    Trace(TraceError),
    /// The output of a trace failed.
    Output,
}

/// `VK_ERROR_OUT_OF_HOST_MEMORY`.
pub const VK_ERROR_OUT_OF_HOST_MEMORY: i32 = -1;
/// `VK_ERROR_UNKNOWN`.
pub const VK_ERROR_UNKNOWN: i32 = -13;

impl CallbackError {
    /// The `VkResult` to return.
    ///
    /// | error | `VkResult` |
    /// |---|---|
    /// | no host memory, over budget, size too large | `VK_ERROR_OUT_OF_HOST_MEMORY` (-1) |
    /// | everything else: invalid use, which Vulkan leaves undefined | `VK_ERROR_UNKNOWN` (-13) |
    #[must_use]
    pub const fn vk_result(self) -> i32 {
        match self {
            Self::Host(HostError::TooLarge) => VK_ERROR_OUT_OF_HOST_MEMORY,
            Self::Host(error) if error.is_out_of_host_memory() => VK_ERROR_OUT_OF_HOST_MEMORY,
            _ => VK_ERROR_UNKNOWN,
        }
    }
}

impl From<TraceError> for CallbackError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<HostError> for CallbackError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl fmt::Display for CallbackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(error) => error.fmt(f),
            Self::MissingFunction(function) => {
                write!(f, "{} is NULL: the application must set it, even if it expects no such call", function.name())
            }
            Self::HalfInternal => f.write_str(
                "only one of pfnInternalAllocation and pfnInternalFree is set: the application must set both or neither",
            ),
            Self::EmptySet => f.write_str("no member of the set has a byte: leave the allocation out"),
            Self::LevelMissing(level) => {
                write!(
                    f,
                    "the block came from the {level} allocator, and none was given to free it: pass a compatible pAllocator"
                )
            }
            Self::ContextInUse => {
                f.write_str("the context already holds memory or children: give the bridge a fresh child context")
            }
            Self::UnknownOwner => f.write_str("the checker does not know this owner: add it before its callbacks are wrapped"),
            Self::TooManyOwners => f.write_str("262144 callbacks are watched already: let objects share some, retire some, or close a checker"),
            Self::Trace(error) => error.fmt(f),
            Self::Output => f.write_str("the trace could not be written: look at what it was written to"),
        }
    }
}

impl core::error::Error for CallbackError {}

/// Why a bridge, checker or recorder was not closed: its callbacks are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallbacksInUse {
    /// A callback runs on this thread, perhaps one of these.
    InCallback,
    /// Vulkan holds this much of the bridge's context.
    Live {
        /// The context's name.
        context: &'static str,
        /// What it holds.
        live: Live,
    },
    /// As many blocks that passed through the callbacks are live.
    LiveBlocks(usize),
}

impl CallbacksInUse {
    pub(crate) fn of_blocks(live_blocks: usize) -> Option<Self> {
        match live_blocks {
            0 => is_busy().then_some(Self::InCallback),
            _ => Some(Self::LiveBlocks(live_blocks)),
        }
    }
}

impl fmt::Display for CallbacksInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InCallback => f.write_str("a callback runs on this thread: close again when it has returned"),
            Self::Live { context, live } => write!(
                f,
                "Vulkan still holds {live} of the context {context:?}: destroy its objects first, then close again"
            ),
            Self::LiveBlocks(1) => {
                f.write_str("1 block that passed through is live: destroy its object first, then close again")
            }
            Self::LiveBlocks(blocks) => {
                write!(f, "{blocks} blocks that passed through are live: destroy their objects first, then close again")
            }
        }
    }
}

impl core::error::Error for CallbacksInUse {}

/// The level of an allocator in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// The allocator of a pipeline or validation cache beside the command's object: V29, V37.
    Cache,
    /// The command's own `pAllocator`; for pool children the pool's (V34).
    Object,
    /// The `pAllocator` of `vkCreateDevice`.
    Device,
    /// The `pAllocator` of `vkCreateInstance`.
    Instance,
    /// The driver's own allocator: the application passed none (V33).
    Default,
}

impl Level {
    /// Most specific first.
    pub const ALL: &'static [Self] = &[Self::Cache, Self::Object, Self::Device, Self::Instance, Self::Default];

    /// `cache`, `object`, `device`, `instance` or `default`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Object => "object",
            Self::Device => "device",
            Self::Instance => "instance",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
