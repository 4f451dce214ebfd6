//! The compiler checks each function against ash's type of its command.

use core::ffi::{CStr, c_char};

use ash::vk;

use crate::{descriptors, device, exec, memory, objects, physical, pipelines, pools, record};

/// The handle that a caller needs to look a command up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Global,
    Instance,
    /// An instance does as well.
    Device,
}

/// Work runs in order, so barriers and waits do nothing; no pipeline has dynamic state.
const NO_EFFECT: [&str; 14] = [
    "vkCmdSetViewport",
    "vkCmdSetScissor",
    "vkCmdSetLineWidth",
    "vkCmdSetDepthBias",
    "vkCmdSetBlendConstants",
    "vkCmdSetDepthBounds",
    "vkCmdSetStencilCompareMask",
    "vkCmdSetStencilWriteMask",
    "vkCmdSetStencilReference",
    "vkCmdBindIndexBuffer",
    "vkCmdBindVertexBuffers",
    "vkCmdWaitEvents",
    "vkCmdPipelineBarrier",
    "vkCmdSetDeviceMask",
];

/// These make `vkEndCommandBuffer` return an error.
const UNSUPPORTED: [&str; 15] = [
    "vkCmdDrawIndexed",
    "vkCmdDrawIndirect",
    "vkCmdDrawIndexedIndirect",
    "vkCmdDispatchIndirect",
    "vkCmdCopyImage",
    "vkCmdBlitImage",
    "vkCmdUpdateBuffer",
    "vkCmdClearDepthStencilImage",
    "vkCmdClearAttachments",
    "vkCmdResolveImage",
    "vkCmdWriteTimestamp",
    "vkCmdCopyQueryPoolResults",
    "vkCmdNextSubpass",
    "vkCmdExecuteCommands",
    "vkCmdDispatchBase",
];

type Command = vk::PFN_vkVoidFunction;

macro_rules! table {
    ($($level:ident { $($pfn:ident = $function:path,)* })*) => {
        fn find(name: &str) -> Option<(Level, *const ())> {
            $($(
                if stringify!($pfn).strip_prefix("PFN_") == Some(name) {
                    let function: vk::$pfn = $function;
                    return Some((Level::$level, function as *const ()));
                }
            )*)*
            None
        }
    };
}

table! {
    Global {
        PFN_vkCreateInstance = device::create_instance,
        PFN_vkEnumerateInstanceExtensionProperties = physical::enumerate_instance_extension_properties,
        PFN_vkEnumerateInstanceLayerProperties = physical::enumerate_instance_layer_properties,
        PFN_vkEnumerateInstanceVersion = physical::enumerate_instance_version,
    }
    Instance {
        PFN_vkDestroyInstance = device::destroy_instance,
        PFN_vkEnumeratePhysicalDevices = device::enumerate_physical_devices,
        PFN_vkGetPhysicalDeviceFeatures = physical::get_physical_device_features,
        PFN_vkGetPhysicalDeviceFormatProperties = physical::get_physical_device_format_properties,
        PFN_vkGetPhysicalDeviceImageFormatProperties = physical::get_physical_device_image_format_properties,
        PFN_vkGetPhysicalDeviceProperties = physical::get_physical_device_properties,
        PFN_vkGetPhysicalDeviceQueueFamilyProperties = physical::get_physical_device_queue_family_properties,
        PFN_vkGetPhysicalDeviceMemoryProperties = physical::get_physical_device_memory_properties,
        PFN_vkCreateDevice = device::create_device,
        PFN_vkEnumerateDeviceExtensionProperties = physical::enumerate_device_extension_properties,
        PFN_vkEnumerateDeviceLayerProperties = physical::enumerate_device_layer_properties,
        PFN_vkGetPhysicalDeviceSparseImageFormatProperties = physical::get_physical_device_sparse_image_format_properties,
        PFN_vkEnumeratePhysicalDeviceGroups = device::enumerate_physical_device_groups,
        PFN_vkGetPhysicalDeviceFeatures2 = physical::get_physical_device_features2,
        PFN_vkGetPhysicalDeviceProperties2 = physical::get_physical_device_properties2,
        PFN_vkGetPhysicalDeviceFormatProperties2 = physical::get_physical_device_format_properties2,
        PFN_vkGetPhysicalDeviceImageFormatProperties2 = physical::get_physical_device_image_format_properties2,
        PFN_vkGetPhysicalDeviceQueueFamilyProperties2 = physical::get_physical_device_queue_family_properties2,
        PFN_vkGetPhysicalDeviceMemoryProperties2 = physical::get_physical_device_memory_properties2,
        PFN_vkGetPhysicalDeviceSparseImageFormatProperties2 = physical::get_physical_device_sparse_image_format_properties2,
        PFN_vkGetPhysicalDeviceExternalBufferProperties = physical::get_physical_device_external_buffer_properties,
        PFN_vkGetPhysicalDeviceExternalFenceProperties = physical::get_physical_device_external_fence_properties,
        PFN_vkGetPhysicalDeviceExternalSemaphoreProperties = physical::get_physical_device_external_semaphore_properties,
    }
    Device {
        PFN_vkDestroyDevice = device::destroy_device,
        PFN_vkGetDeviceQueue = device::get_device_queue,
        PFN_vkQueueSubmit = exec::queue_submit,
        PFN_vkQueueWaitIdle = device::queue_wait_idle,
        PFN_vkDeviceWaitIdle = device::device_wait_idle,
        PFN_vkAllocateMemory = objects::allocate_memory,
        PFN_vkFreeMemory = objects::free_memory,
        PFN_vkMapMemory = memory::map_memory,
        PFN_vkUnmapMemory = memory::unmap_memory,
        PFN_vkFlushMappedMemoryRanges = memory::flush_or_invalidate,
        PFN_vkInvalidateMappedMemoryRanges = memory::flush_or_invalidate,
        PFN_vkGetDeviceMemoryCommitment = memory::get_device_memory_commitment,
        PFN_vkBindBufferMemory = memory::bind_buffer_memory,
        PFN_vkBindImageMemory = memory::bind_image_memory,
        PFN_vkGetBufferMemoryRequirements = memory::get_buffer_memory_requirements,
        PFN_vkGetImageMemoryRequirements = memory::get_image_memory_requirements,
        PFN_vkGetImageSparseMemoryRequirements = memory::get_image_sparse_memory_requirements,
        PFN_vkQueueBindSparse = device::queue_bind_sparse,
        PFN_vkCreateFence = objects::create_fence,
        PFN_vkDestroyFence = objects::destroy_fence,
        PFN_vkResetFences = memory::reset_fences,
        PFN_vkGetFenceStatus = memory::get_fence_status,
        PFN_vkWaitForFences = memory::wait_for_fences,
        PFN_vkCreateSemaphore = objects::create_semaphore,
        PFN_vkDestroySemaphore = objects::destroy_semaphore,
        PFN_vkCreateEvent = objects::create_event,
        PFN_vkDestroyEvent = objects::destroy_event,
        PFN_vkGetEventStatus = memory::get_event_status,
        PFN_vkSetEvent = memory::set_event,
        PFN_vkResetEvent = memory::reset_event,
        PFN_vkCreateQueryPool = objects::create_query_pool,
        PFN_vkDestroyQueryPool = objects::destroy_query_pool,
        PFN_vkGetQueryPoolResults = memory::get_query_pool_results,
        PFN_vkCreateBuffer = objects::create_buffer,
        PFN_vkDestroyBuffer = objects::destroy_buffer,
        PFN_vkCreateBufferView = objects::create_buffer_view,
        PFN_vkDestroyBufferView = objects::destroy_buffer_view,
        PFN_vkCreateImage = objects::create_image,
        PFN_vkDestroyImage = objects::destroy_image,
        PFN_vkGetImageSubresourceLayout = memory::get_image_subresource_layout,
        PFN_vkCreateImageView = objects::create_image_view,
        PFN_vkDestroyImageView = objects::destroy_image_view,
        PFN_vkCreateShaderModule = objects::create_shader_module,
        PFN_vkDestroyShaderModule = objects::destroy_shader_module,
        PFN_vkCreatePipelineCache = objects::create_pipeline_cache,
        PFN_vkDestroyPipelineCache = objects::destroy_pipeline_cache,
        PFN_vkGetPipelineCacheData = memory::get_pipeline_cache_data,
        PFN_vkMergePipelineCaches = memory::merge_pipeline_caches,
        PFN_vkCreateGraphicsPipelines = pipelines::create_graphics_pipelines,
        PFN_vkCreateComputePipelines = pipelines::create_compute_pipelines,
        PFN_vkDestroyPipeline = pipelines::destroy_pipeline,
        PFN_vkCreatePipelineLayout = objects::create_pipeline_layout,
        PFN_vkDestroyPipelineLayout = objects::destroy_pipeline_layout,
        PFN_vkCreateSampler = objects::create_sampler,
        PFN_vkDestroySampler = objects::destroy_sampler,
        PFN_vkCreateDescriptorSetLayout = objects::create_descriptor_set_layout,
        PFN_vkDestroyDescriptorSetLayout = objects::destroy_descriptor_set_layout,
        PFN_vkCreateDescriptorPool = pools::create_descriptor_pool,
        PFN_vkDestroyDescriptorPool = pools::destroy_descriptor_pool,
        PFN_vkResetDescriptorPool = pools::reset_descriptor_pool,
        PFN_vkAllocateDescriptorSets = pools::allocate_descriptor_sets,
        PFN_vkFreeDescriptorSets = pools::free_descriptor_sets,
        PFN_vkUpdateDescriptorSets = descriptors::update_descriptor_sets,
        PFN_vkCreateFramebuffer = objects::create_framebuffer,
        PFN_vkDestroyFramebuffer = objects::destroy_framebuffer,
        PFN_vkCreateRenderPass = objects::create_render_pass,
        PFN_vkDestroyRenderPass = objects::destroy_render_pass,
        PFN_vkGetRenderAreaGranularity = memory::get_render_area_granularity,
        PFN_vkCreateCommandPool = pools::create_command_pool,
        PFN_vkDestroyCommandPool = pools::destroy_command_pool,
        PFN_vkResetCommandPool = pools::reset_command_pool,
        PFN_vkAllocateCommandBuffers = pools::allocate_command_buffers,
        PFN_vkFreeCommandBuffers = pools::free_command_buffers,
        PFN_vkBeginCommandBuffer = pools::begin_command_buffer,
        PFN_vkEndCommandBuffer = pools::end_command_buffer,
        PFN_vkResetCommandBuffer = pools::reset_command_buffer,
        PFN_vkCmdBindPipeline = record::cmd_bind_pipeline,
        PFN_vkCmdBindDescriptorSets = record::cmd_bind_descriptor_sets,
        PFN_vkCmdDraw = record::cmd_draw,
        PFN_vkCmdDispatch = record::cmd_dispatch,
        PFN_vkCmdCopyBuffer = record::cmd_copy_buffer,
        PFN_vkCmdCopyBufferToImage = record::cmd_copy_buffer_to_image,
        PFN_vkCmdCopyImageToBuffer = record::cmd_copy_image_to_buffer,
        PFN_vkCmdFillBuffer = record::cmd_fill_buffer,
        PFN_vkCmdClearColorImage = record::cmd_clear_color_image,
        PFN_vkCmdSetEvent = record::cmd_set_event,
        PFN_vkCmdResetEvent = record::cmd_reset_event,
        PFN_vkCmdBeginQuery = record::cmd_begin_query,
        PFN_vkCmdEndQuery = record::cmd_end_query,
        PFN_vkCmdResetQueryPool = record::cmd_reset_query_pool,
        PFN_vkCmdPushConstants = record::cmd_push_constants,
        PFN_vkCmdBeginRenderPass = record::cmd_begin_render_pass,
        PFN_vkCmdEndRenderPass = record::cmd_end_render_pass,
        PFN_vkBindBufferMemory2 = memory::bind_buffer_memory2,
        PFN_vkBindImageMemory2 = memory::bind_image_memory2,
        PFN_vkGetDeviceGroupPeerMemoryFeatures = device::get_device_group_peer_memory_features,
        PFN_vkGetImageMemoryRequirements2 = memory::get_image_memory_requirements2,
        PFN_vkGetBufferMemoryRequirements2 = memory::get_buffer_memory_requirements2,
        PFN_vkGetImageSparseMemoryRequirements2 = memory::get_image_sparse_memory_requirements2,
        PFN_vkTrimCommandPool = pools::trim_command_pool,
        PFN_vkGetDeviceQueue2 = device::get_device_queue2,
        PFN_vkCreateSamplerYcbcrConversion = objects::create_sampler_ycbcr_conversion,
        PFN_vkDestroySamplerYcbcrConversion = objects::destroy_sampler_ycbcr_conversion,
        PFN_vkCreateDescriptorUpdateTemplate = objects::create_descriptor_update_template,
        PFN_vkDestroyDescriptorUpdateTemplate = objects::destroy_descriptor_update_template,
        PFN_vkUpdateDescriptorSetWithTemplate = descriptors::update_descriptor_set_with_template,
        PFN_vkGetDescriptorSetLayoutSupport = descriptors::get_descriptor_set_layout_support,
    }
}

pub(crate) fn lookup(name: &str, has: Level) -> Command {
    let (level, function) = match name {
        "vkGetInstanceProcAddr" => (Level::Global, crate::get_instance_proc_addr as *const ()),
        "vkGetDeviceProcAddr" => (Level::Instance, get_device_proc_addr as *const ()),
        _ if NO_EFFECT.contains(&name) => (Level::Device, record::cmd_no_effect as *const ()),
        _ if UNSUPPORTED.contains(&name) => (Level::Device, record::cmd_unsupported as *const ()),
        _ => find(name)?,
    };
    let allowed = match has {
        Level::Global => level == Level::Global,
        Level::Instance => true,
        Level::Device => level == Level::Device,
    };
    // SAFETY: `function` implements the command `name`, and the caller calls it with that command's type. The functions
    // for commands without effect and for unsupported commands declare only the first argument: in the C calling
    // conventions of the driver's target systems the caller passes and removes all arguments.
    allowed.then(|| unsafe { core::mem::transmute::<*const (), unsafe extern "system" fn()>(function) })
}

/// Empty for NULL.
///
/// # Safety
/// `name` is NULL or a C string that lives during `'a`.
pub(crate) unsafe fn text<'a>(name: *const c_char) -> &'a str {
    if name.is_null() {
        return "";
    }
    // SAFETY: this function's contract; not NULL here.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("")
}

unsafe extern "system" fn get_device_proc_addr(_device: vk::Device, name: *const c_char) -> Command {
    // SAFETY: valid usage.
    let name = unsafe { text(name) };
    match name {
        "vkGetDeviceProcAddr" => lookup(name, Level::Instance),
        name => lookup(name, Level::Device),
    }
}
