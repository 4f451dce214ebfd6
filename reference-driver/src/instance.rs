//! The memory of the instance and its physical device comes from the callbacks that the instance keeps.

use std::alloc::System;

use alloc_core::{FromGlobalAlloc, Scope};
use ash::vk;
use vk_callbacks::Object;
use vk_callbacks::driver::{InstanceDomain, ObjectPlace};

use crate::device::{PAllocator, callbacks};
use crate::edge::refused;

/// Serves requests if the application passed no callbacks at all.
static OWN: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

pub(crate) struct Instance {
    pub(crate) domain: InstanceDomain<'static>,
    pub(crate) physical: u64,
}

pub(crate) struct PhysicalDevice {
    pub(crate) instance: u64,
}

pub(crate) fn create_instance_object(p_allocator: PAllocator) -> Result<u64, vk::Result> {
    // SAFETY: valid usage of vkCreateInstance.
    let domain = unsafe { InstanceDomain::new(callbacks(p_allocator), &OWN) }.map_err(refused)?;
    let chain = domain.chain(None);
    let place = ObjectPlace::allocate(&chain, Scope::Instance).map_err(refused)?;
    let none = PhysicalDevice { instance: 0 };
    let physical = match Object::create_with_scope(&chain, Scope::Instance, none) {
        Ok(physical) => physical.into_handle(),
        Err(rejected) => {
            // SAFETY: the chain that it was allocated with.
            let _ = unsafe { place.free(&chain) };
            return Err(refused(rejected.error));
        }
    };
    let instance = place.fill(Instance { domain, physical }).into_handle();
    // SAFETY: no other reference to the new object exists.
    let physical = unsafe { Object::<PhysicalDevice>::borrow_handle_mut(physical) };
    if let Some(physical) = physical {
        physical.instance = instance;
    }
    Ok(instance)
}

pub(crate) fn destroy_instance_object(instance: u64, p_allocator: PAllocator) {
    // SAFETY: valid usage: the handle's last use.
    let Some(object) = (unsafe { Object::<Instance>::from_handle(instance) }) else {
        return;
    };
    // This command's callbacks free the instance's memory (V42), or else the instance's own.
    let (place, Instance { domain, physical }) = object.vacate();
    // SAFETY: valid usage of vkDestroyInstance.
    let passed = unsafe { InstanceDomain::new(callbacks(p_allocator), &OWN) };
    let passed = passed.ok().filter(|passed| passed.own().is_some());
    let chain = passed.as_ref().unwrap_or(&domain).chain(None);
    // SAFETY: the physical device's last use.
    if let Some(physical) = unsafe { Object::<PhysicalDevice>::from_handle(physical) } {
        // SAFETY: compatible callbacks (V42).
        let _ = unsafe { physical.destroy(&chain) };
    }
    // SAFETY: compatible callbacks (V42).
    let _ = unsafe { place.free(&chain) };
}
