//! Why devices cannot be surveyed.

#![forbid(unsafe_code)]

use std::convert::Infallible;

use ash::vk;
use gpu_suballoc::group::GroupError;

/// Why there is no report. One sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevicesError {
    /// No instance, or no list of devices.
    #[error(
        "the loader answered {0:?}: `steward drivers` tries each driver alone and says which one fails"
    )]
    Vulkan(vk::Result),
    /// No device at all.
    #[error(
        "the loader shows no device: install a Vulkan driver, or set VK_DRIVER_FILES to its manifest"
    )]
    NoDevice,
    /// The devices form no group.
    #[error("the devices make no group ({0})")]
    Group(GroupError<Infallible>),
}

impl From<vk::Result> for DevicesError {
    fn from(result: vk::Result) -> Self {
        // The loader's result if it finds no driver at all.
        if result == vk::Result::ERROR_INCOMPATIBLE_DRIVER {
            Self::NoDevice
        } else {
            Self::Vulkan(result)
        }
    }
}
