use std::ops::Deref;

use ash::prelude::VkResult;
use ash::vk;

use super::device::Device;
use super::error::WorkloadError;

pub(super) trait DeviceObject: Copy {
    type Info<'i>;
    const CREATE: &'static str;
    /// # Safety
    /// `info` is valid for the command.
    unsafe fn create(device: &ash::Device, info: &Self::Info<'_>) -> VkResult<Self>;
    /// # Safety
    /// The device created the handle, and nothing uses it any more.
    unsafe fn destroy(device: &ash::Device, handle: Self);
}

macro_rules! device_objects {
    ($($kind:ident: $info:ident, $create:ident = $name:literal, $destroy:ident;)*) => {$(
        impl DeviceObject for vk::$kind {
            type Info<'i> = vk::$info<'i>;
            const CREATE: &'static str = $name;
            unsafe fn create(device: &ash::Device, info: &Self::Info<'_>) -> VkResult<Self> {
                // SAFETY: `info` is valid for this command.
                unsafe { device.$create(info, None) }
            }
            unsafe fn destroy(device: &ash::Device, handle: Self) {
                // SAFETY: the device created the handle, and nothing uses it any more.
                unsafe { device.$destroy(handle, None) }
            }
        }
    )*};
}

device_objects! {
    DeviceMemory: MemoryAllocateInfo, allocate_memory = "vkAllocateMemory", free_memory;
    Buffer: BufferCreateInfo, create_buffer = "vkCreateBuffer", destroy_buffer;
    BufferView: BufferViewCreateInfo, create_buffer_view = "vkCreateBufferView", destroy_buffer_view;
    Image: ImageCreateInfo, create_image = "vkCreateImage", destroy_image;
    ImageView: ImageViewCreateInfo, create_image_view = "vkCreateImageView", destroy_image_view;
    Sampler: SamplerCreateInfo, create_sampler = "vkCreateSampler", destroy_sampler;
    SamplerYcbcrConversion: SamplerYcbcrConversionCreateInfo,
        create_sampler_ycbcr_conversion = "vkCreateSamplerYcbcrConversion", destroy_sampler_ycbcr_conversion;
    DescriptorSetLayout: DescriptorSetLayoutCreateInfo,
        create_descriptor_set_layout = "vkCreateDescriptorSetLayout", destroy_descriptor_set_layout;
    PipelineLayout: PipelineLayoutCreateInfo, create_pipeline_layout = "vkCreatePipelineLayout", destroy_pipeline_layout;
    DescriptorPool: DescriptorPoolCreateInfo, create_descriptor_pool = "vkCreateDescriptorPool", destroy_descriptor_pool;
    DescriptorUpdateTemplate: DescriptorUpdateTemplateCreateInfo,
        create_descriptor_update_template = "vkCreateDescriptorUpdateTemplate", destroy_descriptor_update_template;
    ShaderModule: ShaderModuleCreateInfo, create_shader_module = "vkCreateShaderModule", destroy_shader_module;
    PipelineCache: PipelineCacheCreateInfo, create_pipeline_cache = "vkCreatePipelineCache", destroy_pipeline_cache;
    RenderPass: RenderPassCreateInfo, create_render_pass = "vkCreateRenderPass", destroy_render_pass;
    Framebuffer: FramebufferCreateInfo, create_framebuffer = "vkCreateFramebuffer", destroy_framebuffer;
    CommandPool: CommandPoolCreateInfo, create_command_pool = "vkCreateCommandPool", destroy_command_pool;
    Fence: FenceCreateInfo, create_fence = "vkCreateFence", destroy_fence;
    Semaphore: SemaphoreCreateInfo, create_semaphore = "vkCreateSemaphore", destroy_semaphore;
    Event: EventCreateInfo, create_event = "vkCreateEvent", destroy_event;
    QueryPool: QueryPoolCreateInfo, create_query_pool = "vkCreateQueryPool", destroy_query_pool;
}

pub(super) struct Guard<'d, H: Copy> {
    device: &'d Device<'d>,
    handle: H,
    destroy: unsafe fn(&ash::Device, H),
}

impl<'d> Device<'d> {
    /// # Safety
    /// `info`, with everything it points to, satisfies the valid usage of the create command; its handles live as long
    /// as Vulkan requires.
    pub(super) unsafe fn create<H: DeviceObject>(&'d self, info: &H::Info<'_>) -> Result<Guard<'d, H>, WorkloadError> {
        // SAFETY: `info` and its handles satisfy the valid usage of the command.
        let handle = unsafe { H::create(self, info) }.map_err(WorkloadError::of(H::CREATE))?;
        // SAFETY: this device created the object above, and nothing else destroys it.
        Ok(unsafe { Guard::new(self, handle, H::destroy) })
    }
}

impl<'d, H: Copy> Guard<'d, H> {
    /// # Safety
    ///
    /// `device` created `handle`, `destroy` destroys such handles, and nothing else destroys this one. Work that uses
    /// the object has ended when the guard is dropped.
    pub(super) unsafe fn new(device: &'d Device<'d>, handle: H, destroy: unsafe fn(&ash::Device, H)) -> Self {
        Self { device, handle, destroy }
    }
}

impl<H: Copy> Deref for Guard<'_, H> {
    type Target = H;
    fn deref(&self) -> &H {
        &self.handle
    }
}

impl<H: Copy> Drop for Guard<'_, H> {
    fn drop(&mut self) {
        self.device.phases().begin("teardown");
        // SAFETY: the device created the handle, and only this guard destroys it. An `InFlight` that waits for the work
        // drops first.
        unsafe { (self.destroy)(self.device, self.handle) };
    }
}
