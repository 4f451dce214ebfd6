//! The instance, and its physical device: they lie in memory of the callbacks that the instance keeps.

use std::alloc::System;

use alloc_core::{FromGlobalAlloc, Scope};
use ash::vk;
use vk_callbacks::driver::{DispatchableObject, DispatchablePlace, InstanceDomain};

use crate::device::{PAllocator, callbacks};
use crate::edge::refused;

/// What serves where the application gave no callbacks at all.
static OWN: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// `VkInstance`.
pub(crate) struct Instance {
    pub(crate) domain: InstanceDomain<'static>,
    pub(crate) physical: u64,
}

/// `VkPhysicalDevice`. There is one.
pub(crate) struct PhysicalDevice {
    pub(crate) instance: u64,
}

pub(crate) fn create_instance_object(p_allocator: PAllocator) -> Result<u64, vk::Result> {
    // SAFETY: valid usage of vkCreateInstance.
    let domain = unsafe { InstanceDomain::new(callbacks(p_allocator), &OWN) }.map_err(refused)?;
    let chain = domain.chain(None);
    let place = DispatchablePlace::allocate(&chain, Scope::Instance).map_err(refused)?;
    let none = PhysicalDevice { instance: 0 };
    let physical = match DispatchableObject::create_with_scope(&chain, Scope::Instance, none) {
        Ok(physical) => physical.into_handle(),
        Err(rejected) => {
            // SAFETY: the chain that it was allocated with.
            let _ = unsafe { place.free(&chain) };
            return Err(refused(rejected.error));
        }
    };
    let instance = place.fill(Instance { domain, physical }).into_handle();
    // SAFETY: just made, and nobody else knows it.
    let physical = unsafe { DispatchableObject::<PhysicalDevice>::borrow_handle_mut(physical) };
    if let Some(physical) = physical {
        physical.instance = instance;
    }
    Ok(instance)
}

pub(crate) fn destroy_instance_object(instance: u64, p_allocator: PAllocator) {
    // SAFETY: valid usage of vkDestroyInstance: this is the handle's last use.
    let Some(object) = (unsafe { DispatchableObject::<Instance>::from_handle(instance) }) else {
        return;
    };
    // What the command brings frees what the instance allocated (V42); where it brings nothing, its own callbacks do.
    let (place, Instance { domain, physical }) = object.vacate();
    // SAFETY: valid usage of vkDestroyInstance.
    let brought = unsafe { InstanceDomain::new(callbacks(p_allocator), &OWN) };
    let brought = brought.ok().filter(|brought| brought.own().is_some());
    let chain = brought.as_ref().unwrap_or(&domain).chain(None);
    // SAFETY: the physical device goes with its instance.
    if let Some(physical) = unsafe { DispatchableObject::<PhysicalDevice>::from_handle(physical) } {
        // SAFETY: compatible callbacks (V42).
        let _ = unsafe { physical.destroy(&chain) };
    }
    // SAFETY: as above.
    let _ = unsafe { place.free(&chain) };
}
