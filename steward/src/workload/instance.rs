use std::ops::Deref;

use ash::vk;

use super::error::WorkloadError;
use super::phases::Phases;
use crate::drivers::PlainInstance;

/// 1.2 has `VkPhysicalDeviceDriverProperties` in core; devices of 1.1 work as well.
const API_VERSION: u32 = vk::API_VERSION_1_2;

pub(super) struct Instance<'w> {
    phases: &'w Phases<'w>,
    entry: &'w ash::Entry,
    plain: PlainInstance,
}

impl<'w> Instance<'w> {
    pub(super) fn new(phases: &'w Phases<'w>, entry: &'w ash::Entry) -> Result<Self, WorkloadError> {
        let plain = PlainInstance::new(entry, API_VERSION).map_err(WorkloadError::of("vkCreateInstance"))?;
        Ok(Self { phases, entry, plain })
    }

    pub(super) fn phases(&self) -> &'w Phases<'w> {
        self.phases
    }

    pub(super) fn entry(&self) -> &'w ash::Entry {
        self.entry
    }
}

impl Deref for Instance<'_> {
    type Target = ash::Instance;
    fn deref(&self) -> &ash::Instance {
        &self.plain
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        self.phases.begin("shutdown");
    }
}
