//! A pipeline is a copy of the shaders' words with their specialisation constants.

use core::ffi::CStr;

use alloc_core::Scope;
use ash::vk;
use vk_callbacks::FallbackChain;
use vk_callbacks::driver::ArrayObject;

use crate::device::{Device, own};
use crate::edge::{Items, commands, raw, slice, slice_mut, typed};
use crate::interpreter::{self, Output, World};
use crate::objects::{destroy, placed};
use crate::pipeline_state::{EntryName, NO_STATE, State, graphics_state};
use crate::spirv::{Module, Unsupported};
use crate::words::each_specialization;

/// The words of a compute shader, or of a vertex shader followed by a fragment shader.
pub(crate) type Pipeline = ArrayObject<State, u32>;

/// For the trial run of a shader: no resources.
struct Nowhere(vk::ShaderStageFlags);

/// By SPIR-V's numbers: gl_FragCoord, gl_VertexIndex, gl_GlobalInvocationID.
pub(crate) fn has_builtin(stage: vk::ShaderStageFlags, number: u32) -> bool {
    matches!(
        (stage, number),
        (vk::ShaderStageFlags::FRAGMENT, 15) | (vk::ShaderStageFlags::VERTEX, 42) | (vk::ShaderStageFlags::COMPUTE, 28)
    )
}

impl World for Nowhere {
    fn builtin(&self, number: u32) -> Option<[u32; 4]> {
        has_builtin(self.0, number).then_some([0; 4])
    }
    fn push_constant(&self, _: u32) -> u32 {
        0
    }
    fn load(&self, _: u32, _: u32) -> u32 {
        0
    }
    fn store(&mut self, _: u32, _: u32, _: u32) {}
    fn fetch(&self, _: u32, _: u32) -> u32 {
        0
    }
    fn sample(&self, _: u32, _: [f32; 2]) -> u32 {
        0
    }
    fn output(&mut self, _: Output, _: [u32; 4]) {}
}

/// Runs the shader once without resources: every later run takes the same path.
pub(crate) fn try_shader(words: &[u32], stage: vk::ShaderStageFlags, name: &[u8]) -> Result<(), Unsupported> {
    let module = Module::new(words, stage, name)?;
    interpreter::run(&module, &mut Nowhere(stage))
}

pub(crate) const UNSUPPORTED: vk::Result = vk::Result::ERROR_FEATURE_NOT_PRESENT;

fn create(
    chain: &FallbackChain<'_>,
    stages: &[vk::PipelineShaderStageCreateInfo<'_>],
    mut state: State,
) -> Result<u64, vk::Result> {
    let mut modules = [&[][..]; 2];
    for ((stage, words), name) in stages.iter().zip(&mut modules).zip(&mut state.names) {
        // SAFETY: valid usage: a live module.
        let found = unsafe { Items::<((), u32)>::get(raw(stage.module)) };
        *words = found.ok_or(UNSUPPORTED)?.1;
        // SAFETY: valid usage: the name ends with a NUL.
        *name = EntryName::new(unsafe { CStr::from_ptr(stage.p_name) }.to_bytes())?;
    }
    let [first, second] = modules;
    state.first = first.len();
    let word = |index: usize| {
        let word = first.get(index).or_else(|| second.get(index - first.len()));
        word.copied().unwrap_or(0)
    };
    let length = first.len() + second.len();
    let pipeline = placed(ArrayObject::create(chain, Scope::Object, state, length, word))?;
    let handle = pipeline.into_handle();
    // SAFETY: no other reference to the new pipeline exists.
    let usable = unsafe { Items::<(State, u32)>::get_mut(handle) }.ok_or(Unsupported).and_then(|(_, words)| {
        let (first, second) = words.split_at_mut(state.first);
        let shaders = [first, second].into_iter().zip(&state.names);
        shaders.zip(stages).try_for_each(|((words, name), stage)| {
            specialize(words, stage)?;
            try_shader(words, stage.stage, name.as_bytes())
        })
    });
    if usable.is_ok() {
        return Ok(handle);
    }
    // SAFETY: this is the last use of the new pipeline.
    if let Some(pipeline) = unsafe { Pipeline::from_handle(handle) } {
        // SAFETY: the chain that it was created with.
        let _ = unsafe { pipeline.destroy(chain) };
    }
    Err(UNSUPPORTED)
}

fn specialize(words: &mut [u32], stage: &vk::PipelineShaderStageCreateInfo<'_>) -> Result<(), Unsupported> {
    // SAFETY: valid usage: NULL or valid.
    let Some(info) = (unsafe { stage.p_specialization_info.as_ref() }) else {
        return Ok(());
    };
    // SAFETY: valid usage: so many entries.
    let entries = unsafe { slice(info.p_map_entries, info.map_entry_count) };
    // SAFETY: valid usage: so many bytes.
    let data = unsafe { slice(info.p_data.cast::<u8>(), info.data_size as u32) };
    for entry in entries {
        let from = entry.offset as usize;
        let bytes = data.get(from..from.saturating_add(4)).and_then(|bytes| bytes.try_into().ok());
        let word = u32::from_ne_bytes(bytes.ok_or(Unsupported)?);
        let mut place = None;
        each_specialization(words, |at, number| {
            if number == entry.constant_id {
                place = Some(at);
            }
        })?;
        if let Some(place) = place.and_then(|at| words.get_mut(at)) {
            *place = word;
        }
    }
    Ok(())
}

fn graphics(chain: &FallbackChain<'_>, info: &vk::GraphicsPipelineCreateInfo<'_>) -> Result<u64, vk::Result> {
    // SAFETY: valid usage: so many stages.
    let stages = unsafe { slice(info.p_stages, info.stage_count) };
    let of = |flag| stages.iter().find(|stage| stage.stage == flag).copied();
    let vertex = of(vk::ShaderStageFlags::VERTEX).ok_or(UNSUPPORTED)?;
    let fragment = of(vk::ShaderStageFlags::FRAGMENT).ok_or(UNSUPPORTED)?;
    if stages.len() != 2 {
        return Err(UNSUPPORTED);
    }
    create(chain, &[vertex, fragment], graphics_state(info).ok_or(UNSUPPORTED)?)
}

/// Creates each pipeline, also after a failure. Returns the first failure.
fn create_all<I>(
    device: &Device,
    infos: &[I],
    p_allocator: *const vk::AllocationCallbacks<'_>,
    out: &mut [vk::Pipeline],
    flags: impl Fn(&I) -> vk::PipelineCreateFlags,
    make: impl Fn(&FallbackChain<'_>, &I) -> Result<u64, vk::Result>,
) -> vk::Result {
    out.iter_mut().for_each(|handle| *handle = vk::Pipeline::null());
    // SAFETY: valid usage of the creating command.
    let own = match unsafe { own(p_allocator.cast()) } {
        Ok(own) => own,
        Err(result) => return result,
    };
    let chain = device.chain(own.as_ref());
    let mut answer = vk::Result::SUCCESS;
    for (info, handle) in infos.iter().zip(out) {
        // Caches are empty.
        let flags = flags(info);
        let made = if flags.contains(vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED_EXT) {
            Err(vk::Result::PIPELINE_COMPILE_REQUIRED_EXT)
        } else {
            make(&chain, info)
        };
        match made {
            Ok(pipeline) => *handle = typed(pipeline),
            Err(result) => {
                if answer == vk::Result::SUCCESS {
                    answer = result;
                }
                if flags.contains(vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE_EXT) {
                    break;
                }
            }
        }
    }
    answer
}

commands! {
    fn create_compute_pipelines(device: vk::Device as object Device, _cache: vk::PipelineCache, count: u32, infos: *const vk::ComputePipelineCreateInfo<'_>, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Pipeline) -> vk::Result {
        // SAFETY: valid usage: so many infos.
        let infos = unsafe { slice(infos, count) };
        // SAFETY: valid usage: room for so many handles.
        let out = unsafe { slice_mut(out, count) };
        create_all(device, infos, p_allocator, out, |info| info.flags, |chain, info| create(chain, &[info.stage], NO_STATE))
    }
    fn create_graphics_pipelines(device: vk::Device as object Device, _cache: vk::PipelineCache, count: u32, infos: *const vk::GraphicsPipelineCreateInfo<'_>, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Pipeline) -> vk::Result {
        // SAFETY: valid usage: so many infos.
        let infos = unsafe { slice(infos, count) };
        // SAFETY: valid usage: room for so many handles.
        let out = unsafe { slice_mut(out, count) };
        create_all(device, infos, p_allocator, out, |info| info.flags, graphics)
    }
    fn destroy_pipeline(device: vk::Device as object Device, pipeline: vk::Pipeline, p_allocator: *const vk::AllocationCallbacks<'_>) {
        destroy::<Pipeline>(device, p_allocator, raw(pipeline));
    }
}
