//! The layer between this process and the driver that it opens.

use std::mem::transmute;

use VkLayer_steward_memory::GetProcAddr;
use VkLayer_steward_memory::in_process::{Observation, chain};
use ash::vk;

use super::open::OpenDriver;

/// The same driver with the layer before it, or `None` if the layer is before another one in this process.
#[must_use]
pub fn chained(selected: &OpenDriver, observation: Observation) -> Option<OpenDriver> {
    let end = selected.entry().static_fn().get_instance_proc_addr;
    // SAFETY: the layer declares the handle as the pointer that it is.
    let end = unsafe { transmute::<vk::PFN_vkGetInstanceProcAddr, GetProcAddr>(end) };
    // Its drop would close the library.
    std::mem::forget(selected.entry().clone());
    // SAFETY: the function of a loader or driver that stays open.
    let first = unsafe { chain(end, observation) }?;
    let functions = ash::StaticFn {
        // SAFETY: the layer declares the handle as the pointer that it is.
        get_instance_proc_addr: unsafe { transmute::<GetProcAddr, vk::PFN_vkGetInstanceProcAddr>(first) },
    };
    // SAFETY: the layer's function finds global commands as that of the driver does.
    let entry = unsafe { ash::Entry::from_static_fn(functions) };
    Some(selected.with_entry(entry))
}
