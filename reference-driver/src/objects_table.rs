objects! {
    create_fence, destroy_fence: Fence(FenceCreateInfo) = Object<Fence>,
        |chain, info| placed(Object::create(chain, Fence(AtomicBool::new(info.flags.contains(vk::FenceCreateFlags::SIGNALED)))));
    create_semaphore, destroy_semaphore: Semaphore(SemaphoreCreateInfo) = Object<Semaphore>,
        |chain, _info| placed(Object::create(chain, Semaphore));
    create_event, destroy_event: Event(EventCreateInfo) = Object<Event>,
        |chain, _info| placed(Object::create(chain, Event(AtomicBool::new(false))));
    create_query_pool, destroy_query_pool: QueryPool(QueryPoolCreateInfo) = Queries,
        |chain, info| placed(Queries::create(chain, Scope::Object, (), info.query_count as usize, |_| AtomicU64::new(UNAVAILABLE)));
    allocate_memory, free_memory: DeviceMemory(MemoryAllocateInfo) = Object<Mapping>,
        |chain, info| placed(Object::create(chain, Mapping::new(info.allocation_size)?));
    create_buffer, destroy_buffer: Buffer(BufferCreateInfo) = Object<Buffer>,
        |chain, info| placed(Object::create(chain, Buffer::new(info.size)?));
    create_buffer_view, destroy_buffer_view: BufferView(BufferViewCreateInfo) = Object<BufferView>,
        |chain, info| placed(Object::create(chain, BufferView(buffer_bytes(info.buffer).part(info.offset, info.range))));
    create_image, destroy_image: Image(ImageCreateInfo) = Object<Image>,
        |chain, info| placed(Object::create(chain, Image::new(info)?));
    create_image_view, destroy_image_view: ImageView(ImageViewCreateInfo) = Object<Surface>,
        |chain, info| placed(Object::create(chain, Surface::of_view(info)));
    create_sampler, destroy_sampler: Sampler(SamplerCreateInfo) = Object<Sampler>,
        |chain, info| placed(Object::create(chain, Sampler([info.address_mode_u, info.address_mode_v])));
    create_sampler_ycbcr_conversion, destroy_sampler_ycbcr_conversion: SamplerYcbcrConversion(SamplerYcbcrConversionCreateInfo) = Object<SamplerYcbcrConversion>,
        |chain, _info| placed(Object::create(chain, SamplerYcbcrConversion));
    create_shader_module, destroy_shader_module: ShaderModule(ShaderModuleCreateInfo) = ShaderModule, |chain, info| {
        // SAFETY: valid usage: so many bytes.
        let words = unsafe { slice(info.p_code, (info.code_size / 4) as u32) };
        placed(ShaderModule::create(chain, Scope::Object, (), words.len(), |index| words.get(index).copied().unwrap_or(0)))
    };
    create_pipeline_cache, destroy_pipeline_cache: PipelineCache(PipelineCacheCreateInfo) = Object<PipelineCache>,
        |chain, _info| placed(Object::create_with_scope(chain, Scope::Cache, PipelineCache));
    create_pipeline_layout, destroy_pipeline_layout: PipelineLayout(PipelineLayoutCreateInfo) = Object<PipelineLayout>,
        |chain, _info| placed(Object::create(chain, PipelineLayout));
    create_descriptor_set_layout, destroy_descriptor_set_layout: DescriptorSetLayout(DescriptorSetLayoutCreateInfo) = SetLayout, |chain, info| {
        // SAFETY: valid usage: so many elements.
        let bindings = unsafe { slice(info.p_bindings, info.binding_count) };
        placed(SetLayout::create(chain, Scope::Object, (), bindings.len(), |index| {
            bindings.get(index).map_or((0, 0), |each| (each.binding, each.descriptor_count))
        }))
    };
    create_descriptor_update_template, destroy_descriptor_update_template: DescriptorUpdateTemplate(DescriptorUpdateTemplateCreateInfo) = UpdateTemplate, |chain, info| {
        // SAFETY: valid usage: so many elements.
        let entries = unsafe { slice(info.p_descriptor_update_entries, info.descriptor_update_entry_count) };
        placed(UpdateTemplate::create(chain, Scope::Object, (), entries.len(), |index| entries.get(index).copied().unwrap_or_default()))
    };
    create_render_pass, destroy_render_pass: RenderPass(RenderPassCreateInfo) = RenderPass, |chain, info| {
        // SAFETY: valid usage: so many elements.
        let attachments = unsafe { slice(info.p_attachments, info.attachment_count) };
        placed(RenderPass::create(chain, Scope::Object, ColorTarget::of(info), attachments.len(), |index| {
            attachments.get(index).is_some_and(|each| each.load_op == vk::AttachmentLoadOp::CLEAR)
        }))
    };
    create_framebuffer, destroy_framebuffer: Framebuffer(FramebufferCreateInfo) = Framebuffer, |chain, info| {
        // SAFETY: valid usage: so many elements.
        let views = unsafe { slice(info.p_attachments, info.attachment_count) };
        placed(Framebuffer::create(chain, Scope::Object, (), views.len(), |index| {
            views.get(index).map_or(Surface::NONE, |view| Surface::of_handle(*view))
        }))
    };
}
