//! Commands that create and destroy objects.

use std::ffi::c_void;
use std::ptr;

use super::blocks::{allocate, free};
use super::reports::{listen, report};
use super::{Callbacks, DRIVER, Handle, note, note_info};

/// Creates a dispatchable object: its first word is its own address, as if the loader's table were there.
pub(super) fn create_dispatchable(command: &'static str, callbacks: Callbacks, object: *mut Handle) -> i32 {
    if note(command, callbacks) {
        return -3;
    }
    let block = allocate(callbacks);
    if block.is_null() {
        return -1;
    }
    let table = DRIVER.with_borrow_mut(|driver| match driver.table.take() {
        Some(other) => other,
        None if driver.has_no_table => 0,
        None => block.expose_provenance(),
    });
    // SAFETY: 32 bytes that were just allocated.
    unsafe { block.write(table) };
    // SAFETY: the caller's pointer.
    unsafe { object.write(block.cast()) };
    0
}

pub(super) unsafe extern "system" fn create_instance(
    info: *const c_void,
    callbacks: Callbacks,
    object: *mut Handle,
) -> i32 {
    note_info(info);
    create_dispatchable("vkCreateInstance", callbacks, object)
}

pub(super) unsafe extern "system" fn create_device(
    _: Handle,
    info: *const c_void,
    callbacks: Callbacks,
    object: *mut Handle,
) -> i32 {
    note_info(info);
    // SAFETY: NULL or live callbacks.
    let copy = unsafe { callbacks.as_ref() }.copied();
    DRIVER.with_borrow_mut(|driver| driver.device = copy);
    listen(info);
    create_dispatchable("vkCreateDevice", callbacks, object)
}

/// The first word ends with the object: a lookup by it afterwards finds nothing.
pub(super) fn end_dispatchable(callbacks: Callbacks, object: Handle) {
    // SAFETY: from `create_dispatchable`, and live.
    unsafe { object.cast::<usize>().write(0) };
    free(callbacks, object.cast());
}

pub(super) unsafe extern "system" fn destroy_instance(object: Handle, callbacks: Callbacks) {
    note("vkDestroyInstance", callbacks);
    end_dispatchable(callbacks, object);
}

pub(super) unsafe extern "system" fn destroy_device(object: Handle, callbacks: Callbacks) {
    note("vkDestroyDevice", callbacks);
    end_dispatchable(callbacks, object);
}

/// Defines a command that creates one object, and the one that destroys it.
macro_rules! object {
    ($create:ident $destroy:ident $create_name:literal $destroy_name:literal) => {
        pub(super) unsafe extern "system" fn $create(
            _: Handle,
            info: *const c_void,
            callbacks: Callbacks,
            object: *mut u64,
        ) -> i32 {
            note_info(info);
            if note($create_name, callbacks) {
                return -1;
            }
            if let Some(work) = DRIVER.with_borrow_mut(|driver| driver.meanwhile.take()) {
                work();
            }
            let block = allocate(callbacks);
            // SAFETY: the caller's pointer.
            unsafe { object.write(block.addr() as u64) };
            report(0, block.addr() as u64, 1000, 9);
            if block.is_null() { -1 } else { 0 }
        }

        pub(super) unsafe extern "system" fn $destroy(_: Handle, object: u64, callbacks: Callbacks) {
            note($destroy_name, callbacks);
            report(1, object, 0, 0);
            free(callbacks, ptr::with_exposed_provenance_mut(object as usize));
        }
    };
}

object!(create_buffer destroy_buffer "vkCreateBuffer" "vkDestroyBuffer");
object!(allocate_memory free_memory "vkAllocateMemory" "vkFreeMemory");
object!(create_surface destroy_surface "vkCreateXcbSurfaceKHR" "vkDestroySurfaceKHR");
object!(create_messenger destroy_messenger "vkCreateDebugUtilsMessengerEXT" "vkDestroyDebugUtilsMessengerEXT");

pub(super) unsafe extern "system" fn create_operation(device: Handle, callbacks: Callbacks, object: *mut u64) -> i32 {
    // SAFETY: NULL or live callbacks and a place for the object, by Vulkan's contract.
    unsafe { create_buffer(device, ptr::null(), callbacks, object) }
}

pub(super) unsafe extern "system" fn create_pool(
    device: Handle,
    info: *const c_void,
    callbacks: Callbacks,
    object: *mut u64,
) -> i32 {
    // SAFETY: NULL or live callbacks.
    let copy = unsafe { callbacks.as_ref() }.copied();
    DRIVER.with_borrow_mut(|driver| driver.pool = copy);
    // SAFETY: NULL or live callbacks and a place for the object, by Vulkan's contract.
    unsafe { create_buffer(device, info, callbacks, object) }
}
