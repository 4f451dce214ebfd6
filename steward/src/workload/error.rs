#![forbid(unsafe_code)]

use ash::vk;
use gpu_suballoc::GpuError;
use gpu_suballoc::device::DeviceError;

/// Why a workload did not finish. All created objects were destroyed before this was returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A Vulkan command failed.
    #[error("{command} answered {result:?}: {}", remedy(*.result))]
    Command {
        /// The command, such as `vkCreateBuffer`.
        command: &'static str,
        /// Its result.
        result: vk::Result,
    },
    /// The driver lacks a command that its version requires.
    #[error("a {level} command of Vulkan 1.1 is missing: update the driver or the loader")]
    MissingCommand {
        /// Commands of the `instance` or of the `device`.
        level: &'static str,
    },
    /// The device computed another value than the processor.
    #[error(
        "round {round}, {what}[{index}]: the device gave {found:#010x} where {expected:#010x} was expected: \
         report it to the driver's maintainers with the seed"
    )]
    Mismatch {
        /// Which result.
        what: &'static str,
        /// In which round, from 0.
        round: u32,
        /// Which word of the result.
        index: u32,
        /// The value of the processor.
        expected: u32,
        /// The value of the device.
        found: u32,
    },
    /// No memory type fits a resource.
    #[error("no memory for {what}: {reason}")]
    MemoryType {
        /// Which resource.
        what: &'static str,
        /// Why not.
        reason: gpu_suballoc::memory_type::MemoryTypeError,
    },
    /// The driver requires sizes that overflow, or alignments that are no powers of two.
    #[error(
        "the driver's memory requirements for {what} overflow or are not powers of two: report it to the driver's maintainers"
    )]
    Requirements {
        /// Which resource.
        what: &'static str,
    },
    /// The sub-allocator, or the driver below it, refused a request.
    #[error("{what} could not be sub-allocated: {reason}")]
    Suballocation {
        /// The request.
        what: &'static str,
        /// Why not.
        reason: GpuError,
    },
    /// The sub-allocator could not be closed, because regions were left in it.
    #[error(
        "{regions} regions were left in the sub-allocator at the end of a round: report it to the maintainers of this program"
    )]
    LeftBehind {
        /// How many.
        regions: u64,
    },
    /// The chosen device no longer exists.
    #[error("the driver now shows {present} devices and no longer number {wanted}: list the drivers again")]
    DeviceGone {
        /// Its number within its driver, from 0.
        wanted: usize,
        /// How many there are.
        present: usize,
    },
    /// Another device has the number of the chosen one: another driver was selected meanwhile.
    #[error("the loader now shows another device in that place: select the driver right before it is used")]
    OtherDevice,
    /// The device has no queue family with both graphics and compute.
    #[error("the device has no queue family for both graphics and compute: choose another driver")]
    NoQueueFamily,
}

impl WorkloadError {
    pub(super) fn of(command: &'static str) -> impl Fn(vk::Result) -> Self {
        move |result| Self::Command { command, result }
    }

    /// True if the driver returned `ERROR_OUT_OF_HOST_MEMORY`, the required result after a callback refused memory.
    #[must_use]
    pub fn is_out_of_host_memory(&self) -> bool {
        matches!(
            self,
            Self::Command { result: vk::Result::ERROR_OUT_OF_HOST_MEMORY, .. }
                | Self::Suballocation { reason: GpuError::Device(DeviceError::OutOfHostMemory), .. }
        )
    }
}

fn remedy(result: vk::Result) -> &'static str {
    match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => "free host memory or give the root a larger allocator",
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => "free device memory or choose another device",
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => "install a driver of Vulkan 1.1 or later",
        vk::Result::ERROR_EXTENSION_NOT_PRESENT => "update the Vulkan loader",
        vk::Result::TIMEOUT => "the device is busy or hangs; try again or choose another one",
        vk::Result::ERROR_DEVICE_LOST => "the driver lost the device; its kernel log may say why",
        _ => "report it to the driver's maintainers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_command_and_the_remedy() {
        let error = WorkloadError::Command { command: "vkCreateBuffer", result: vk::Result::ERROR_OUT_OF_HOST_MEMORY };
        let text = error.to_string();
        assert!(text.starts_with("vkCreateBuffer answered ERROR_OUT_OF_HOST_MEMORY: free host memory"), "{text}");
        assert!(error.is_out_of_host_memory());
        assert!(!WorkloadError::NoQueueFamily.is_out_of_host_memory());
    }
}
