//! Several objects at once, and those whose creation is deferred.

use std::ffi::c_void;
use std::ptr;

use super::blocks::{allocate, free};
use super::{Callbacks, DRIVER, Handle, note};

/// `VK_ERROR_VALIDATION_FAILED_EXT`.
pub(crate) const VALIDATION_FAILED: i32 = -1_000_011_001;

/// Writes three pipelines, of which the second failed. Two it refuses without a look at the array, as a validation
/// layer may.
pub(super) unsafe extern "system" fn create_pipelines(
    _: Handle,
    _: u64,
    count: u32,
    _: *const c_void,
    callbacks: Callbacks,
    objects: *mut u64,
) -> i32 {
    note("vkCreateComputePipelines", callbacks);
    if count == 2 {
        return VALIDATION_FAILED;
    }
    // SAFETY: the caller's array.
    let objects = unsafe { std::slice::from_raw_parts_mut(objects, count as usize) };
    objects.fill(0);
    objects[0] = allocate(callbacks).addr() as u64;
    objects[2] = allocate(callbacks).addr() as u64;
    -1
}

/// As `create_pipelines`, once the operation is joined, if there is one.
pub(super) unsafe extern "system" fn create_deferred_pipelines(
    device: Handle,
    operation: u64,
    cache: u64,
    count: u32,
    infos: *const c_void,
    callbacks: Callbacks,
    objects: *mut u64,
) -> i32 {
    if operation == 0 {
        // SAFETY: `count` infos and places, and NULL or live callbacks, by Vulkan's contract.
        return unsafe { create_pipelines(device, cache, count, infos, callbacks, objects) };
    }
    note("vkCreateRayTracingPipelinesKHR", callbacks);
    let deferred = (callbacks, count as usize, objects);
    DRIVER.with_borrow_mut(|driver| {
        driver.deferred = Some(deferred);
        driver.arguments.clear();
    });
    1_000_268_002
}

/// The first join returns that other threads still have work.
pub(crate) unsafe extern "system" fn join(_: Handle, operation: u64) -> i32 {
    let has_joined = DRIVER.with_borrow_mut(|driver| {
        let before = std::mem::replace(&mut driver.arguments, vec![operation]);
        before == [operation]
    });
    if !has_joined {
        return 1_000_268_001;
    }
    let deferred = DRIVER.with_borrow_mut(|driver| driver.deferred.take());
    if let Some((callbacks, count, objects)) = deferred {
        // SAFETY: the caller's array, which stays until here.
        let objects = unsafe { std::slice::from_raw_parts_mut(objects, count) };
        objects.fill(0);
        objects[0] = allocate(callbacks).addr() as u64;
        objects[2] = allocate(callbacks).addr() as u64;
    }
    0
}

pub(super) unsafe extern "system" fn deferred_result(_: Handle, _: u64) -> i32 {
    DRIVER.with_borrow(|driver| i32::from(driver.deferred.is_some()))
}

pub(super) unsafe extern "system" fn concurrency(_: Handle, _: u64) -> u32 {
    DRIVER.with_borrow(|driver| u32::from(driver.deferred.is_some()))
}

pub(super) unsafe extern "system" fn destroy_pipeline(_: Handle, object: u64, callbacks: Callbacks) {
    note("vkDestroyPipeline", callbacks);
    free(callbacks, ptr::with_exposed_provenance_mut(object as usize));
}

/// Writes two binaries.
pub(super) unsafe extern "system" fn create_binaries(
    _: Handle,
    _: *const c_void,
    callbacks: Callbacks,
    list: *mut BinaryList,
) -> i32 {
    note("vkCreatePipelineBinariesKHR", callbacks);
    // SAFETY: the caller's struct.
    let list = unsafe { &*list };
    // SAFETY: the caller's array.
    let handles = unsafe { std::slice::from_raw_parts_mut(list.handles, list.count as usize) };
    handles.fill_with(|| allocate(callbacks).addr() as u64);
    0
}

/// `VkPipelineBinaryHandlesInfoKHR`.
#[repr(C)]
pub(crate) struct BinaryList {
    pub(crate) s_type: i32,
    pub(crate) p_next: *const c_void,
    pub(crate) count: u32,
    pub(crate) handles: *mut u64,
}
