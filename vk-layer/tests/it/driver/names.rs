//! The names that the driver answers.

use std::ffi::{CStr, c_char};
use std::mem::transmute;

use super::budgets::{budget, memory_properties, memory_properties_2};
use super::commands::{
    bind_many, draw, map, reset_pool, set_depth_bias, submit, trace_rays, unknown, unmap, wait_idle,
};
use super::objects::{
    allocate_memory, create_buffer, create_device, create_instance, create_messenger, create_operation, create_pool,
    create_surface, destroy_buffer, destroy_device, destroy_instance, destroy_messenger, destroy_surface, free_memory,
};
use super::pipelines::{
    concurrency, create_binaries, create_deferred_pipelines, create_pipelines, deferred_result, destroy_pipeline, join,
};
use super::reports::extensions;
use super::{DRIVER, Handle, VoidFunction};

macro_rules! void {
    ($function:expr) => {
        // SAFETY: the caller casts it back to its signature.
        Some(unsafe { transmute::<*const (), VoidFunction>($function as *const ()) })
    };
}

/// `VkPhysicalDeviceProperties`: version 1.2.3 of both, and the name.
pub(super) unsafe extern "system" fn properties(_: Handle, properties: *mut u32) {
    let version = 1 << 22 | 2 << 12 | 3;
    let name = u32::from_ne_bytes(*b"fake");
    let words = [version, version, 7, 0, 0, name, 0];
    // SAFETY: the caller's struct, which begins with so many words.
    unsafe { properties.copy_from(words.as_ptr(), words.len()) };
}

pub(crate) unsafe extern "system" fn next_instance_proc_addr(
    instance: Handle,
    name: *const c_char,
) -> Option<VoidFunction> {
    // SAFETY: a name as Vulkan has it.
    let name = unsafe { CStr::from_ptr(name) };
    if !instance.is_null() {
        let name = name.to_string_lossy().into_owned();
        DRIVER.with_borrow_mut(|driver| driver.looked_up.push((name, instance.addr())));
    }
    match name.to_bytes() {
        b"vkCreateInstance" if instance.is_null() => void!(create_instance),
        b"vkDestroyInstance" => void!(destroy_instance),
        b"vkGetDeviceProcAddr" => void!(next_device_proc_addr),
        b"vkGetPhysicalDeviceProperties" => void!(properties),
        b"vkGetPhysicalDeviceMemoryProperties" if budget().is_some() => void!(memory_properties),
        b"vkGetPhysicalDeviceMemoryProperties2" if budget().is_some() => {
            void!(memory_properties_2)
        }
        b"vkCreateDevice" => void!(create_device),
        b"vkEnumerateDeviceExtensionProperties" => void!(extensions),
        b"vkCreateXcbSurfaceKHR" => void!(create_surface),
        b"vkDestroySurfaceKHR" => void!(destroy_surface),
        b"vkCreateDebugUtilsMessengerEXT" => void!(create_messenger),
        b"vkDestroyDebugUtilsMessengerEXT" => void!(destroy_messenger),
        _ => None,
    }
}

pub(crate) unsafe extern "system" fn next_device_proc_addr(_: Handle, name: *const c_char) -> Option<VoidFunction> {
    // SAFETY: a name as Vulkan has it.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkDestroyDevice" => void!(destroy_device),
        b"vkCreateBuffer" => void!(create_buffer),
        b"vkDestroyBuffer" => void!(destroy_buffer),
        b"vkAllocateMemory" => void!(allocate_memory),
        b"vkFreeMemory" => void!(free_memory),
        b"vkBindBufferMemory2" => void!(bind_many),
        b"vkMapMemory" => void!(map),
        b"vkUnmapMemory" => void!(unmap),
        b"vkCreatePipelineBinariesKHR" => void!(create_binaries),
        b"vkDestroyPipelineBinaryKHR" => void!(destroy_buffer),
        b"vkCreateComputePipelines" => void!(create_pipelines),
        b"vkDestroyPipeline" => void!(destroy_pipeline),
        b"vkCreateRayTracingPipelinesKHR" => void!(create_deferred_pipelines),
        b"vkCreateDeferredOperationKHR" => void!(create_operation),
        b"vkDestroyDeferredOperationKHR" => void!(destroy_buffer),
        b"vkDeferredOperationJoinKHR" => void!(join),
        b"vkGetDeferredOperationResultKHR" => void!(deferred_result),
        b"vkGetDeferredOperationMaxConcurrencyKHR" => void!(concurrency),
        b"vkCreateCommandPool" => void!(create_pool),
        b"vkDestroyCommandPool" => void!(destroy_buffer),
        b"vkResetCommandPool" => void!(reset_pool),
        b"vkQueueSubmit" => void!(submit),
        b"vkDeviceWaitIdle" => void!(wait_idle),
        b"vkCmdDraw" => void!(draw),
        b"vkCmdTraceRaysNV" => void!(trace_rays),
        b"vkCmdSetDepthBias" => void!(set_depth_bias),
        b"vkFrobnicateEXT" => void!(unknown),
        _ => None,
    }
}
