//! Why nothing was measured.

#![forbid(unsafe_code)]

use ash::vk;
use gpu_suballoc::GpuError;
use gpu_suballoc::memory_type::MemoryTypeError;

/// Why there is no report. One sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceMemoryError {
    /// The driver refused an instance or a device.
    #[error("{command} answered {result:?}: `steward drivers` says which drivers work")]
    Command {
        /// The command.
        command: &'static str,
        /// Its result.
        result: vk::Result,
    },
    /// The device no longer exists.
    #[error(
        "the device is not there any more: name another with --driver, `steward drivers` lists them"
    )]
    DeviceGone,
    /// No memory type to allocate from.
    #[error("the device has no memory type that any resource may use: {0}")]
    MemoryType(#[from] MemoryTypeError),
    /// The sub-allocator could not be created, or a region could not be freed.
    #[error("the sub-allocator: {0}")]
    Allocator(#[from] GpuError),
    /// Regions were left after a trace.
    #[error("{trace}: {regions} regions were left when all had been freed: please report this")]
    LeftBehind {
        /// The name of the trace.
        trace: String,
        /// How many.
        regions: u64,
    },
}
