use std::mem::offset_of;

use ash::vk;

use super::device::Device;
use super::error::WorkloadError;
use super::object::Guard;
use super::resources::{Buffers, Images, Samplers};

/// Set layouts and pipeline layouts, with the sets of one round. Fields are in reverse order of creation.
pub(super) struct Descriptors<'d> {
    _template: Guard<'d, vk::DescriptorUpdateTemplate>,
    pub(super) sets: Sets<'d>,
    _pool: Guard<'d, vk::DescriptorPool>,
    pub(super) draw_layout: Guard<'d, vk::PipelineLayout>,
    pub(super) hash_layout: Guard<'d, vk::PipelineLayout>,
    _draw_set_layout: Guard<'d, vk::DescriptorSetLayout>,
    _hash_set_layout: Guard<'d, vk::DescriptorSetLayout>,
}

impl<'d> Descriptors<'d> {
    pub(super) fn new(
        device: &'d Device<'d>,
        buffers: &Buffers<'_>,
        images: &Images<'_>,
        samplers: &Samplers<'_>,
    ) -> Result<Self, WorkloadError> {
        use vk::{DescriptorType as Type, ShaderStageFlags as Stage};
        let hash_set_layout = set_layout(
            device,
            Stage::COMPUTE,
            &[Type::STORAGE_BUFFER, Type::UNIFORM_TEXEL_BUFFER, Type::UNIFORM_BUFFER],
        )?;
        let draw_set_layout = set_layout(device, Stage::FRAGMENT, &[Type::COMBINED_IMAGE_SAMPLER])?;
        let hash_layout = pipeline_layout(device, *hash_set_layout, Stage::COMPUTE)?;
        let draw_layout = pipeline_layout(device, *draw_set_layout, Stage::FRAGMENT)?;

        let one = |ty| vk::DescriptorPoolSize { ty, descriptor_count: 1 };
        let sizes =
            [Type::STORAGE_BUFFER, Type::UNIFORM_TEXEL_BUFFER, Type::UNIFORM_BUFFER, Type::COMBINED_IMAGE_SAMPLER]
                .map(one);
        let info = vk::DescriptorPoolCreateInfo::default()
            .flags(vk::DescriptorPoolCreateFlags::FREE_DESCRIPTOR_SET)
            .max_sets(2)
            .pool_sizes(&sizes);
        // SAFETY: sizes are not 0 and outlive the call.
        let pool = unsafe { device.create::<vk::DescriptorPool>(&info) }?;
        let sets = Sets::new(device, *pool, [*hash_set_layout, *draw_set_layout])?;

        let template = HashSet::template(device, *hash_set_layout)?;
        let whole = |buffer| vk::DescriptorBufferInfo { buffer, offset: 0, range: vk::WHOLE_SIZE };
        let data = HashSet {
            result: whole(*buffers.hashes),
            texels: *buffers.texel_view,
            parameters: whole(*buffers.parameters),
        };
        let out = (&raw const data).cast();
        // SAFETY: the template fits this set's layout and `HashSet`; buffers and view outlive every use of the sets.
        unsafe { device.update_descriptor_set_with_template(sets.hash(), *template, out) };

        let source = [vk::DescriptorImageInfo {
            sampler: *samplers.nearest,
            image_view: *images.texture_view,
            image_layout: vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
        }];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(sets.draw())
            .descriptor_type(Type::COMBINED_IMAGE_SAMPLER)
            .image_info(&source);
        // SAFETY: the set is not in use, its binding 0 has this type, view and sampler live.
        unsafe { device.update_descriptor_sets(&[write], &[]) };
        Ok(Self {
            _template: template,
            sets,
            _pool: pool,
            draw_layout,
            hash_layout,
            _draw_set_layout: draw_set_layout,
            _hash_set_layout: hash_set_layout,
        })
    }
}

/// Binding `i` has type `types[i]`.
fn set_layout<'d>(
    device: &'d Device<'d>,
    stage: vk::ShaderStageFlags,
    types: &[vk::DescriptorType],
) -> Result<Guard<'d, vk::DescriptorSetLayout>, WorkloadError> {
    let binding = |(binding, ty): (u32, &vk::DescriptorType)| {
        vk::DescriptorSetLayoutBinding::default()
            .binding(binding)
            .descriptor_type(*ty)
            .descriptor_count(1)
            .stage_flags(stage)
    };
    let bindings: Vec<_> = (0u32..).zip(types).map(binding).collect();
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    // SAFETY: the binding numbers differ, and the array outlives the call.
    unsafe { device.create(&info) }
}

fn pipeline_layout<'d>(
    device: &'d Device<'d>,
    set_layout: vk::DescriptorSetLayout,
    stage: vk::ShaderStageFlags,
) -> Result<Guard<'d, vk::PipelineLayout>, WorkloadError> {
    let seed = [vk::PushConstantRange { stage_flags: stage, offset: 0, size: size_of::<u32>() as u32 }];
    let layouts = [set_layout];
    let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&seed);
    // SAFETY: the set layout lives, and 4 bytes of push constants are within every device's limit.
    unsafe { device.create(&info) }
}

#[repr(C)]
struct HashSet {
    result: vk::DescriptorBufferInfo,
    texels: vk::BufferView,
    parameters: vk::DescriptorBufferInfo,
}

impl HashSet {
    fn template<'d>(
        device: &'d Device<'d>,
        layout: vk::DescriptorSetLayout,
    ) -> Result<Guard<'d, vk::DescriptorUpdateTemplate>, WorkloadError> {
        use vk::DescriptorType as Type;
        let entry = |binding, ty, offset| {
            let entry = vk::DescriptorUpdateTemplateEntry::default().dst_binding(binding).descriptor_count(1);
            entry.descriptor_type(ty).offset(offset)
        };
        let entries = [
            entry(0, Type::STORAGE_BUFFER, offset_of!(Self, result)),
            entry(1, Type::UNIFORM_TEXEL_BUFFER, offset_of!(Self, texels)),
            entry(2, Type::UNIFORM_BUFFER, offset_of!(Self, parameters)),
        ];
        let info = vk::DescriptorUpdateTemplateCreateInfo::default()
            .descriptor_update_entries(&entries)
            .template_type(vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET)
            .descriptor_set_layout(layout);
        // SAFETY: the layout lives and has these bindings.
        unsafe { device.create(&info) }
    }
}

/// The sets are freed one by one, before their pool is destroyed.
pub(super) struct Sets<'d> {
    device: &'d Device<'d>,
    pool: vk::DescriptorPool,
    handles: [vk::DescriptorSet; 2],
}

impl<'d> Sets<'d> {
    /// The pool outlives the sets: `Descriptors` declares it behind them.
    fn new(
        device: &'d Device<'d>,
        pool: vk::DescriptorPool,
        layouts: [vk::DescriptorSetLayout; 2],
    ) -> Result<Self, WorkloadError> {
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: pool and layouts live, and the pool has room for both sets.
        let allocated =
            unsafe { device.allocate_descriptor_sets(&info) }.map_err(WorkloadError::of("vkAllocateDescriptorSets"))?;
        let handles = allocated.try_into().unwrap_or_else(|_| unreachable!("as many as there are layouts"));
        Ok(Self { device, pool, handles })
    }

    pub(super) fn hash(&self) -> vk::DescriptorSet {
        self.handles[0]
    }

    pub(super) fn draw(&self) -> vk::DescriptorSet {
        self.handles[1]
    }
}

impl Drop for Sets<'_> {
    fn drop(&mut self) {
        self.device.phases().begin("teardown");
        // SAFETY: both sets come from this pool, which allows freeing them, and no pending work uses them.
        let freed = unsafe { self.device.free_descriptor_sets(self.pool, &self.handles) };
        // The specification allows only SUCCESS.
        let _ = freed;
    }
}
