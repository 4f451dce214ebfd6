//! Every kind of object: whose callbacks it is created with, in which scope, and through whose it is freed.
//!
//! Runs under miri.

use ash::vk::{self, Handle as _};
use vk::SystemAllocationScope as Scope;

use crate::application::{Heap, HeapCallbacks, Running, device, entry};
use crate::shader_reader::{SHADERS, words};

type Given<'g> = Option<&'g vk::AllocationCallbacks<'g>>;

/// Three sets of callbacks: those of instance and device, and two compatible ones for objects.
struct WatchedHeap<'h> {
    heap: &'h Heap,
    above: &'h HeapCallbacks<'h>,
    own: HeapCallbacks<'h>,
    other: HeapCallbacks<'h>,
    kinds: u32,
}

impl WatchedHeap<'_> {
    /// One kind of object, created and destroyed in each way.
    fn kind<T: Copy>(
        &mut self,
        name: &str,
        scope: Scope,
        create: impl Fn(Given<'_>) -> Result<T, vk::Result>,
        destroy: impl Fn(T, Given<'_>),
    ) {
        let (own, other) = (self.own.raw(), self.other.raw());
        let before = self.heap.live();
        self.above.drain();
        // Each request is refused once: nothing is left (RD8).
        let mut refused = 0;
        let object = loop {
            self.own.refuse.set(Some(refused));
            match create(Some(&own)) {
                Ok(object) => break object,
                Err(result) => assert_eq!(result, vk::Result::ERROR_OUT_OF_HOST_MEMORY, "{name}"),
            }
            assert_eq!(self.heap.live(), before, "{name}, request {refused} refused");
            refused += 1;
            self.own.drain();
        };
        self.own.refuse.set(None);
        let (requests, _) = self.own.drain();
        assert!(refused > 0 && requests.len() == refused, "{name}: {requests:?}");
        // The most specific callbacks, in the right scope, and nowhere else; of device memory only the object (RD7).
        for (asked, size) in requests {
            assert!(asked == scope && size < 1 << 16, "{name}: {asked:?}, {size} bytes");
        }
        assert_eq!(self.above.drain(), (Vec::new(), 0), "{name}");
        // The destroying command brings compatible callbacks with other user data (RD10).
        let live = self.heap.live() - before;
        destroy(object, Some(&other));
        assert_eq!((self.other.drain().1, self.own.drain().1), (live, 0), "{name}");
        assert_eq!(self.heap.live(), before, "{name}");
        // Without callbacks, those of the device.
        if scope == Scope::OBJECT || scope == Scope::CACHE {
            let object = create(None).expect("memory");
            let (requests, _) = self.above.drain();
            assert!(!requests.is_empty() && requests.iter().all(|(asked, _)| *asked == scope), "{name}");
            destroy(object, None);
            assert_eq!(self.heap.live(), before, "{name}");
        }
        self.kinds += 1;
    }
}

macro_rules! kinds {
    ($watched:ident, $device:ident: $($name:ident, $create:ident, $destroy:ident, $info:expr;)*) => {$({
        let info = $info;
        let scope = if stringify!($name) == "PipelineCache" { Scope::CACHE } else { Scope::OBJECT };
        $watched.kind(
            stringify!($name),
            scope,
            // SAFETY: what the info names lives.
            |callbacks| unsafe { $device.$create(&info, callbacks) },
            // SAFETY: just created, and not used.
            |object, callbacks| unsafe { $device.$destroy(object, callbacks) },
        );
    })*};
}

#[test]
fn rd7_rd10_rd21_each_kind_of_object_draws_on_its_callbacks_and_is_freed_through_those_it_is_destroyed_with() {
    let heap = Heap::default();
    let above = HeapCallbacks::new(&heap);
    let running = Running::new(Some(above.raw()));
    let mut watched = WatchedHeap {
        heap: &heap,
        above: &above,
        own: HeapCallbacks::new(&heap),
        other: HeapCallbacks::new(&heap),
        kinds: 0,
    };
    let device = &running.device;
    let image_info = vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(vk::Format::R32_UINT)
        .extent(vk::Extent3D { width: 4, height: 4, depth: 1 })
        .mip_levels(1)
        .array_layers(1)
        .usage(vk::ImageUsageFlags::COLOR_ATTACHMENT);
    // SAFETY: a small image.
    let image = unsafe { device.create_image(&image_info, None) }.expect("memory");
    let view_info = vk::ImageViewCreateInfo::default().image(image).format(vk::Format::R32_UINT);
    // SAFETY: a live image.
    let view = unsafe { device.create_image_view(&view_info, None) }.expect("memory");
    let buffer_info = vk::BufferCreateInfo::default().size(256);
    // SAFETY: a small buffer.
    let buffer = unsafe { device.create_buffer(&buffer_info, None) }.expect("memory");
    let bindings = [vk::DescriptorSetLayoutBinding::default().descriptor_count(2)];
    let layout_info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    let entries = [vk::DescriptorUpdateTemplateEntry::default()];
    let attachments = [vk::AttachmentDescription::default()];
    let colors = [vk::AttachmentReference::default()];
    let subpasses = [vk::SubpassDescription::default().color_attachments(&colors)];
    let pass_info = vk::RenderPassCreateInfo::default().attachments(&attachments).subpasses(&subpasses);
    let views = [view];
    let [compute, vertex, fragment] = SHADERS.map(|(bytes, _)| words(bytes));
    kinds! { watched, device:
        DeviceMemory, allocate_memory, free_memory, vk::MemoryAllocateInfo::default().allocation_size(1 << 20);
        Buffer, create_buffer, destroy_buffer, buffer_info;
        BufferView, create_buffer_view, destroy_buffer_view, vk::BufferViewCreateInfo::default().buffer(buffer).range(vk::WHOLE_SIZE);
        Image, create_image, destroy_image, image_info;
        ImageView, create_image_view, destroy_image_view, view_info;
        Sampler, create_sampler, destroy_sampler, vk::SamplerCreateInfo::default();
        SamplerYcbcrConversion, create_sampler_ycbcr_conversion, destroy_sampler_ycbcr_conversion, vk::SamplerYcbcrConversionCreateInfo::default();
        ShaderModule, create_shader_module, destroy_shader_module, vk::ShaderModuleCreateInfo::default().code(&compute);
        PipelineCache, create_pipeline_cache, destroy_pipeline_cache, vk::PipelineCacheCreateInfo::default();
        PipelineLayout, create_pipeline_layout, destroy_pipeline_layout, vk::PipelineLayoutCreateInfo::default();
        DescriptorSetLayout, create_descriptor_set_layout, destroy_descriptor_set_layout, layout_info;
        DescriptorUpdateTemplate, create_descriptor_update_template, destroy_descriptor_update_template,
            vk::DescriptorUpdateTemplateCreateInfo::default().descriptor_update_entries(&entries);
        RenderPass, create_render_pass, destroy_render_pass, pass_info;
        Framebuffer, create_framebuffer, destroy_framebuffer, vk::FramebufferCreateInfo::default().attachments(&views);
        Fence, create_fence, destroy_fence, vk::FenceCreateInfo::default();
        Semaphore, create_semaphore, destroy_semaphore, vk::SemaphoreCreateInfo::default();
        Event, create_event, destroy_event, vk::EventCreateInfo::default();
        QueryPool, create_query_pool, destroy_query_pool, vk::QueryPoolCreateInfo::default().query_count(2);
    }
    // Pipelines.
    let module = |words: &[u32]| {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: a whole module.
        unsafe { device.create_shader_module(&info, None) }.expect("memory")
    };
    let modules = [&compute, &vertex, &fragment].map(|words| module(words));
    let stage = |index: usize, stage| {
        let info = vk::PipelineShaderStageCreateInfo::default().stage(stage);
        info.module(modules[index]).name(c"main")
    };
    let compute = [vk::ComputePipelineCreateInfo::default().stage(stage(0, vk::ShaderStageFlags::COMPUTE))];
    let end = |pipeline, callbacks: Given<'_>| {
        // SAFETY: just created, and not used.
        unsafe { device.destroy_pipeline(pipeline, callbacks) }
    };
    let made = |made: Result<Vec<vk::Pipeline>, (Vec<vk::Pipeline>, vk::Result)>| {
        made.map(|all| all[0]).map_err(|(all, result)| {
            assert_eq!(all, [vk::Pipeline::null()]);
            result
        })
    };
    let none = vk::PipelineCache::null();
    watched.kind(
        "compute pipeline",
        Scope::OBJECT,
        // SAFETY: what the info names lives.
        |callbacks| made(unsafe { device.create_compute_pipelines(none, &compute, callbacks) }),
        end,
    );
    // SAFETY: the info names nothing.
    let pass = unsafe { device.create_render_pass(&pass_info, None) }.expect("memory");
    let stages = [stage(1, vk::ShaderStageFlags::VERTEX), stage(2, vk::ShaderStageFlags::FRAGMENT)];
    let vertices = vk::PipelineVertexInputStateCreateInfo::default();
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
    let (viewports, scissors) = ([vk::Viewport::default()], [vk::Rect2D::default()]);
    let viewport = vk::PipelineViewportStateCreateInfo::default().viewports(&viewports).scissors(&scissors);
    let raster = vk::PipelineRasterizationStateCreateInfo::default();
    let writes = [vk::PipelineColorBlendAttachmentState::default().color_write_mask(vk::ColorComponentFlags::R)];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&writes);
    let graphics = [vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&vertices)
        .input_assembly_state(&assembly)
        .viewport_state(&viewport)
        .rasterization_state(&raster)
        .color_blend_state(&blend)
        .render_pass(pass)];
    watched.kind(
        "graphics pipeline",
        Scope::OBJECT,
        // SAFETY: what the info names lives.
        |callbacks| made(unsafe { device.create_graphics_pipelines(none, &graphics, callbacks) }),
        end,
    );
    // Pools with children, which draw on the pool's.
    let sizes = [vk::DescriptorPoolSize::default().descriptor_count(8)];
    let pool_info = vk::DescriptorPoolCreateInfo::default().max_sets(3).pool_sizes(&sizes);
    // SAFETY: the info names nothing.
    let layout = unsafe { device.create_descriptor_set_layout(&layout_info, None) }.expect("memory");
    watched.kind(
        "VkDescriptorPool",
        Scope::OBJECT,
        |callbacks| {
            // SAFETY: the info names nothing.
            let pool = unsafe { device.create_descriptor_pool(&pool_info, callbacks) }?;
            let layouts = [layout; 3];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            // SAFETY: a live pool and layout.
            let sets = unsafe { device.allocate_descriptor_sets(&info) };
            sets.map(|_| pool).inspect_err(|_| {
                // SAFETY: none of its sets was made, and it is not used any more.
                unsafe { device.destroy_descriptor_pool(pool, callbacks) }
            })
        },
        // SAFETY: it and its sets are not used any more.
        |pool, callbacks| unsafe { device.destroy_descriptor_pool(pool, callbacks) },
    );
    let pool_info = vk::CommandPoolCreateInfo::default();
    watched.kind(
        "VkCommandPool",
        Scope::OBJECT,
        |callbacks| {
            // SAFETY: the one family.
            let pool = unsafe { device.create_command_pool(&pool_info, callbacks) }?;
            recorded(device, pool, buffer).map(|()| pool).inspect_err(|_| {
                // SAFETY: it and its command buffers are not used any more.
                unsafe { device.destroy_command_pool(pool, callbacks) }
            })
        },
        // SAFETY: it and its command buffers are not used any more.
        |pool, callbacks| unsafe { device.destroy_command_pool(pool, callbacks) },
    );
    // Two more than the CTS's groups have: conversions and update templates. Instance, device, sets and command buffers
    // are beside.
    assert_eq!(watched.kinds, 22);
    for module in modules {
        // SAFETY: no pipeline is made of it any more.
        unsafe { device.destroy_shader_module(module, None) };
    }
    // SAFETY: not used any more.
    unsafe { device.destroy_descriptor_set_layout(layout, None) };
    // SAFETY: not used any more.
    unsafe { device.destroy_render_pass(pass, None) };
    // SAFETY: not used any more.
    unsafe { device.destroy_buffer(buffer, None) };
    // SAFETY: not used any more.
    unsafe { device.destroy_image_view(view, None) };
    // SAFETY: not used any more.
    unsafe { device.destroy_image(image, None) };
    drop(running);
    assert_eq!(heap.live(), 0);
}

/// Two command buffers with a hundred commands each: what is recorded is memory of the pool, and a refusal is told at
/// the end (RD9).
fn recorded(device: &ash::Device, pool: vk::CommandPool, buffer: vk::Buffer) -> Result<(), vk::Result> {
    let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(2);
    // SAFETY: a live pool.
    for commands in unsafe { device.allocate_command_buffers(&info) }? {
        // SAFETY: a new command buffer.
        unsafe { device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()) }?;
        for word in 0..100 {
            // SAFETY: recording; the work is never submitted.
            unsafe { device.cmd_fill_buffer(commands, buffer, 0, vk::WHOLE_SIZE, word) };
        }
        // SAFETY: recording.
        unsafe { device.end_command_buffer(commands) }?;
    }
    Ok(())
}

#[test]
fn rd7_rd10_rd21_instance_and_device_lie_in_their_own_callbacks_memory() {
    let heap = Heap::default();
    let above = HeapCallbacks::new(&heap);
    let mut watched = WatchedHeap {
        heap: &heap,
        above: &above,
        own: HeapCallbacks::new(&heap),
        other: HeapCallbacks::new(&heap),
        kinds: 0,
    };
    watched.kind(
        "VkInstance",
        Scope::INSTANCE,
        |callbacks| {
            // SAFETY: a plain instance.
            let made = unsafe { entry().create_instance(&vk::InstanceCreateInfo::default(), callbacks) };
            made.map(|instance| instance.handle().as_raw())
        },
        |instance, callbacks| {
            // SAFETY: an instance of this driver.
            let instance = unsafe { ash::Instance::load(entry().static_fn(), vk::Instance::from_raw(instance)) };
            // SAFETY: nothing of it is left.
            unsafe { instance.destroy_instance(callbacks) };
        },
    );
    let running = Running::new(None);
    watched.kind(
        "VkDevice",
        Scope::DEVICE,
        |callbacks| device(&running.instance, running.physical, callbacks).map(|device| device.handle().as_raw()),
        |device, callbacks| {
            // SAFETY: a device of this driver.
            let device = unsafe { ash::Device::load(running.instance.fp_v1_0(), vk::Device::from_raw(device)) };
            // SAFETY: nothing of it is left.
            unsafe { device.destroy_device(callbacks) };
        },
    );
    assert_eq!((watched.kinds, heap.live()), (2, 0));
}
