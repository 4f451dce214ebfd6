//! Objects of a device: one generic creation, and a guard that destroys the object with the same callbacks.
//!
//! Vulkan's create and destroy commands have the same signatures, so kinds differ only in a table of names and function pointers.

use std::ops::Deref;

use ash::vk::{self, Handle as _};

use super::device::Device;
use super::error::WorkloadError;
use vk_accounts::CreatedObject;
use vk_accounts::ObjectKind;

/// `vkCreate*` (and `vkAllocateMemory`) for handles of type `H`.
pub(super) type Create<H> = for<'i, 'a> unsafe extern "system" fn(
    vk::Device,
    *const <H as DeviceObject>::Info<'i>,
    *const vk::AllocationCallbacks<'a>,
    *mut H,
) -> vk::Result;

/// `vkDestroy*` (and `vkFreeMemory`).
pub(super) type Destroy<H> =
    for<'a> unsafe extern "system" fn(vk::Device, H, *const vk::AllocationCallbacks<'a>);

/// A handle that a device destroys with callbacks compatible with those of its creation.
pub(super) trait DestroyableObject: vk::Handle + Copy {
    const KIND: ObjectKind;
    const DESTROY: &'static str;
    fn destroy(device: &Device<'_>) -> Destroy<Self>;
}

/// A handle that a device creates one at a time.
pub(super) trait DeviceObject: DestroyableObject {
    /// Its `Vk*CreateInfo`.
    type Info<'i>;
    const CREATE: &'static str;
    fn create(device: &Device<'_>) -> Create<Self>;
}

macro_rules! device_objects {
    ($($kind:ident: $info:ident, $create:ident = $create_name:literal, $destroy:ident = $destroy_name:literal, $table:ident;)*) => {$(
        impl DestroyableObject for vk::$kind {
            const KIND: ObjectKind = ObjectKind::$kind;
            const DESTROY: &'static str = $destroy_name;
            fn destroy(device: &Device<'_>) -> Destroy<Self> {
                device.$table().$destroy
            }
        }
        impl DeviceObject for vk::$kind {
            type Info<'i> = vk::$info<'i>;
            const CREATE: &'static str = $create_name;
            fn create(device: &Device<'_>) -> Create<Self> {
                device.$table().$create
            }
        }
    )*};
}

device_objects! {
    DeviceMemory: MemoryAllocateInfo, allocate_memory = "vkAllocateMemory", free_memory = "vkFreeMemory", v1_0;
    Buffer: BufferCreateInfo, create_buffer = "vkCreateBuffer", destroy_buffer = "vkDestroyBuffer", v1_0;
    BufferView: BufferViewCreateInfo, create_buffer_view = "vkCreateBufferView", destroy_buffer_view = "vkDestroyBufferView", v1_0;
    Image: ImageCreateInfo, create_image = "vkCreateImage", destroy_image = "vkDestroyImage", v1_0;
    ImageView: ImageViewCreateInfo, create_image_view = "vkCreateImageView", destroy_image_view = "vkDestroyImageView", v1_0;
    Sampler: SamplerCreateInfo, create_sampler = "vkCreateSampler", destroy_sampler = "vkDestroySampler", v1_0;
    SamplerYcbcrConversion: SamplerYcbcrConversionCreateInfo,
        create_sampler_ycbcr_conversion = "vkCreateSamplerYcbcrConversion",
        destroy_sampler_ycbcr_conversion = "vkDestroySamplerYcbcrConversion", v1_1;
    DescriptorSetLayout: DescriptorSetLayoutCreateInfo,
        create_descriptor_set_layout = "vkCreateDescriptorSetLayout",
        destroy_descriptor_set_layout = "vkDestroyDescriptorSetLayout", v1_0;
    PipelineLayout: PipelineLayoutCreateInfo,
        create_pipeline_layout = "vkCreatePipelineLayout", destroy_pipeline_layout = "vkDestroyPipelineLayout", v1_0;
    DescriptorPool: DescriptorPoolCreateInfo,
        create_descriptor_pool = "vkCreateDescriptorPool", destroy_descriptor_pool = "vkDestroyDescriptorPool", v1_0;
    DescriptorUpdateTemplate: DescriptorUpdateTemplateCreateInfo,
        create_descriptor_update_template = "vkCreateDescriptorUpdateTemplate",
        destroy_descriptor_update_template = "vkDestroyDescriptorUpdateTemplate", v1_1;
    ShaderModule: ShaderModuleCreateInfo,
        create_shader_module = "vkCreateShaderModule", destroy_shader_module = "vkDestroyShaderModule", v1_0;
    PipelineCache: PipelineCacheCreateInfo,
        create_pipeline_cache = "vkCreatePipelineCache", destroy_pipeline_cache = "vkDestroyPipelineCache", v1_0;
    RenderPass: RenderPassCreateInfo, create_render_pass = "vkCreateRenderPass", destroy_render_pass = "vkDestroyRenderPass", v1_0;
    Framebuffer: FramebufferCreateInfo, create_framebuffer = "vkCreateFramebuffer", destroy_framebuffer = "vkDestroyFramebuffer", v1_0;
    CommandPool: CommandPoolCreateInfo, create_command_pool = "vkCreateCommandPool", destroy_command_pool = "vkDestroyCommandPool", v1_0;
    Fence: FenceCreateInfo, create_fence = "vkCreateFence", destroy_fence = "vkDestroyFence", v1_0;
    Semaphore: SemaphoreCreateInfo, create_semaphore = "vkCreateSemaphore", destroy_semaphore = "vkDestroySemaphore", v1_0;
    Event: EventCreateInfo, create_event = "vkCreateEvent", destroy_event = "vkDestroyEvent", v1_0;
    QueryPool: QueryPoolCreateInfo, create_query_pool = "vkCreateQueryPool", destroy_query_pool = "vkDestroyQueryPool", v1_0;
}

/// One command creates several pipelines, so their creation is not in the table.
impl DestroyableObject for vk::Pipeline {
    const KIND: ObjectKind = ObjectKind::Pipeline;
    const DESTROY: &'static str = "vkDestroyPipeline";
    fn destroy(device: &Device<'_>) -> Destroy<Self> {
        device.v1_0().destroy_pipeline
    }
}

/// Owns one object of a device and destroys it with the callbacks of its creation.
pub(super) struct Guard<'d, H: DestroyableObject> {
    device: &'d Device<'d>,
    handle: H,
    allocator: *const vk::AllocationCallbacks<'d>,
}

impl<'d> Device<'d> {
    /// Creates one object with its guard.
    ///
    /// # Safety
    ///
    /// `info`, with everything it points to, satisfies the valid usage of the create command; its handles live as long as Vulkan requires.
    pub(super) unsafe fn create<H: DeviceObject>(
        &'d self,
        info: &H::Info<'_>,
    ) -> Result<Guard<'d, H>, WorkloadError> {
        let (create, device, allocator) = (
            H::create(self),
            self.handle(),
            self.caller().callbacks(H::KIND),
        );
        let mut handle = H::from_raw(0);
        let out = &raw mut handle;
        self.caller().check(H::CREATE, H::KIND, || {
            // SAFETY: the device lives while `self` does; `info` is valid (contract of this function); the callbacks are NULL or live as long
            // as the hooks (contract of `Hooks`); `out` points to a local.
            unsafe { create(device, info, allocator, out) }
        })?;
        // SAFETY: this device created the object above with `allocator`, and nothing else destroys it.
        Ok(unsafe { Guard::new(self, handle, allocator) })
    }
}

impl<'d, H: DestroyableObject> Guard<'d, H> {
    /// Guards, counts and reports the object that the last command created.
    ///
    /// # Safety
    ///
    /// `device` created `handle` with `allocator`, and nothing else destroys it.
    pub(super) unsafe fn new(
        device: &'d Device<'d>,
        handle: H,
        allocator: *const vk::AllocationCallbacks<'d>,
    ) -> Self {
        let guard = Self {
            device,
            handle,
            allocator,
        };
        device.caller().created(&guard.created());
        guard
    }

    fn created(&self) -> CreatedObject<'d> {
        let (handle, parent) = (self.handle.as_raw(), self.device.handle().as_raw());
        CreatedObject {
            kind: H::KIND,
            handle,
            parent,
            allocator: self.allocator,
        }
    }
}

impl<H: DestroyableObject> Deref for Guard<'_, H> {
    type Target = H;
    fn deref(&self) -> &H {
        &self.handle
    }
}

impl<H: DestroyableObject> Drop for Guard<'_, H> {
    fn drop(&mut self) {
        let (destroy, device) = (H::destroy(self.device), self.device.handle());
        let caller = self.device.caller();
        caller.phase("teardown");
        caller.end(H::DESTROY, &[self.created()], || {
            // SAFETY: the device created the handle with these callbacks, and nothing else destroys it (contract of `Guard::new`). Work
            // that uses the object has ended, because `InFlight` waits for it before guards made earlier drop.
            unsafe { destroy(device, self.handle, self.allocator) }
        });
    }
}
