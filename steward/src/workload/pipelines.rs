use ash::vk;

use super::descriptors::Descriptors;
use super::device::Device;
use super::error::WorkloadError;
use super::graphics::Graphics;
use super::object::Guard;
use super::shaders::{Code, DRAW_FRAG, DRAW_VERT, HASH_COMP};

/// Fields are in reverse order of creation.
pub(super) struct Pipelines<'d> {
    _merged: Guard<'d, vk::PipelineCache>,
    pub(super) graphics: Graphics<'d>,
    pub(super) hash: [Guard<'d, vk::Pipeline>; 2],
    _cache: Guard<'d, vk::PipelineCache>,
    _modules: [Guard<'d, vk::ShaderModule>; 3],
}

impl<'d> Pipelines<'d> {
    pub(super) fn new(
        device: &'d Device<'d>,
        descriptors: &Descriptors<'_>,
        target: vk::ImageView,
    ) -> Result<Self, WorkloadError> {
        let modules = [module(device, HASH_COMP)?, module(device, DRAW_VERT)?, module(device, DRAW_FRAG)?];
        let [hash, vert, frag] = &modules;
        let cache = pipeline_cache(device, &[])?;
        let hash = hash_pipelines(device, *cache, **hash, *descriptors.hash_layout)?;
        let graphics = Graphics::new(device, *cache, [**vert, **frag], *descriptors.draw_layout, target)?;
        let merged = merged_cache(device, &cache)?;
        Ok(Self { _merged: merged, graphics, hash, _cache: cache, _modules: modules })
    }
}

fn module<'d>(device: &'d Device<'d>, code: Code) -> Result<Guard<'d, vk::ShaderModule>, WorkloadError> {
    let words = code.words();
    let info = vk::ShaderModuleCreateInfo::default().code(&words);
    // SAFETY: the code is valid SPIR-V 1.3 with capabilities of core Vulkan 1.1 only.
    unsafe { device.create(&info) }
}

/// One command creates both pipelines, with one specialisation each (V44: each is destroyed on its own).
fn hash_pipelines<'d>(
    device: &'d Device<'d>,
    cache: vk::PipelineCache,
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
) -> Result<[Guard<'d, vk::Pipeline>; 2], WorkloadError> {
    let entry = [vk::SpecializationMapEntry { constant_id: 0, offset: 0, size: size_of::<u32>() }];
    let halves = [0u32.to_ne_bytes(), 1u32.to_ne_bytes()];
    let halves = halves.each_ref().map(|half| vk::SpecializationInfo::default().map_entries(&entry).data(half));
    let infos = halves.each_ref().map(|half| {
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        vk::ComputePipelineCreateInfo::default().stage(stage.specialization_info(half)).layout(layout)
    });
    let (mut handles, none) = ([vk::Pipeline::null(); 2], std::ptr::null());
    let (create, this) = (device.fp_v1_0().create_compute_pipelines, device.handle());
    let out = handles.as_mut_ptr();
    // SAFETY: cache, module and layout live and fit one another; arrays and names outlive the call.
    let made = unsafe { create(this, cache, 2, infos.as_ptr(), none, out) };
    // A command that fails may have created some of the pipelines; their guards destroy them.
    // SAFETY: a handle that is not NULL was created by this command, and nothing else destroys it.
    let guards = handles.map(|handle| unsafe { guard(device, handle) });
    made.result().map_err(WorkloadError::of("vkCreateComputePipelines"))?;
    match guards {
        [Some(first), Some(second)] => Ok([first, second]),
        _ => Err(WorkloadError::Command { command: "vkCreateComputePipelines", result: vk::Result::ERROR_UNKNOWN }),
    }
}

/// Returns `None` for NULL: ash's wrappers of the commands that create some leave handles unwritten where a driver
/// does.
///
/// # Safety
/// `handle` is NULL, or `device` created it and nothing else destroys it.
pub(super) unsafe fn guard<'d>(device: &'d Device<'d>, handle: vk::Pipeline) -> Option<Guard<'d, vk::Pipeline>> {
    if handle == vk::Pipeline::null() {
        return None;
    }
    // SAFETY: called once for the handle, when nothing uses the pipeline any more.
    let destroy = |device: &ash::Device, handle| unsafe { device.destroy_pipeline(handle, None) };
    // SAFETY: not NULL, so this device created it, and nothing else destroys it.
    Some(unsafe { Guard::new(device, handle, destroy) })
}

fn pipeline_cache<'d>(device: &'d Device<'d>, data: &[u8]) -> Result<Guard<'d, vk::PipelineCache>, WorkloadError> {
    let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
    // SAFETY: the data is empty, or comes from vkGetPipelineCacheData of the same device.
    unsafe { device.create(&info) }
}

fn merged_cache<'d>(
    device: &'d Device<'d>,
    first: &Guard<'d, vk::PipelineCache>,
) -> Result<Guard<'d, vk::PipelineCache>, WorkloadError> {
    // SAFETY: the cache lives.
    let data =
        unsafe { device.get_pipeline_cache_data(**first) }.map_err(WorkloadError::of("vkGetPipelineCacheData"))?;
    let merged = pipeline_cache(device, &data)?;
    // SAFETY: two different caches of this device, used by no other thread.
    unsafe { device.merge_pipeline_caches(*merged, &[**first]) }.map_err(WorkloadError::of("vkMergePipelineCaches"))?;
    Ok(merged)
}
