#![forbid(unsafe_code)]

use crate::drivers::OpenDriver;
use vk_report::report::{Defragmentation, DeviceMemory, Source};

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The driver's name, such as `llvmpipe`.
    pub driver_name: String,
    /// The driver's version in its own form, such as `Mesa 22.3.6 (LLVM 15.0.6)`.
    pub driver_version: String,
    /// The physical device's name.
    pub device_name: String,
    /// Rounds that ran.
    pub rounds: u32,
    /// Command buffers that were allocated.
    pub command_buffers: u32,
    /// Values that were read back and compared; all were right.
    pub comparisons: u64,
    /// The sub-allocator's division of device memory in the last round; none without rounds.
    pub device_memory: Option<DeviceMemory>,
    /// The defragmentation after the last round; none without rounds.
    pub defragmentation: Option<Defragmentation>,
}

impl Report {
    pub(crate) fn new(driver: &OpenDriver) -> Self {
        let info = driver.info();
        Self {
            driver_name: info.title().to_owned(),
            driver_version: info.driver_info.clone(),
            device_name: info.device_name.clone(),
            rounds: 0,
            command_buffers: 0,
            comparisons: 0,
            device_memory: None,
            defragmentation: None,
        }
    }

    /// The run as the source of a report. `seed` is that of its [`Options`](super::Options); commands and objects are
    /// whoever's that watched.
    #[must_use]
    pub fn source(&self, seed: u32, commands: u64, mut objects: Vec<(String, u32)>) -> Source {
        if self.command_buffers != 0 {
            objects.push(("VkCommandBuffer".to_owned(), self.command_buffers));
        }
        Source::Driver {
            name: self.driver_name.clone(),
            version: self.driver_version.clone(),
            device: self.device_name.clone(),
            seed,
            rounds: self.rounds,
            commands,
            comparisons: self.comparisons,
            objects,
        }
    }
}
