//! What a context does on a real driver, and that its kernels go through a file.

use crate::*;

use crate::live::{CALLBACKS, Live};

/// A test by its name.
pub type Test = (&'static str, fn(&Live));

pub const TESTS: &[Test] = &[("kernels_go_through_a_file", file)];

/// `void main() {}`, one invocation a group.
pub const CODE: &[u32] = &[
    0x0723_0203,
    0x0001_0000,
    0,
    5,
    0, // SPIR-V 1.0, ids below 5
    0x0002_0011,
    1, // Shader
    0x0003_000e,
    0,
    1, // Logical GLSL450
    0x0005_000f,
    5,
    1,
    0x6e69_616d,
    0, // GLCompute %1 "main"
    0x0006_0010,
    1,
    17,
    1,
    1,
    1, // LocalSize 1 1 1
    0x0002_0013,
    2, // %2 = void
    0x0003_0021,
    3,
    2, // %3 = %2()
    0x0005_0036,
    2,
    1,
    0,
    3, // %1 = function
    0x0002_00f8,
    4,
    0x0001_00fd,
    0x0001_0038, // label, return, end
];

pub fn info<'a>(live: &Live, memory: &Context, get: vk::PFN_vkGetInstanceProcAddr) -> AshContextInfo<'a> {
    AshContextInfo {
        get_instance_proc_addr: get,
        instance: live.instance.handle(),
        physical_device: live.physical,
        device: live.device.handle(),
        options: AshOptions { callbacks: Some(CALLBACKS), ..live.options },
        allocator: AllocatorOptions::default(),
        memory: memory.handle(),
        pipeline_cache_data: &[],
    }
}

pub fn kernel(context: &AshContext, number: u64) -> ShaderRef<'_, CompiledKernel, GpuError> {
    try_kernel(context, number).expect("it compiles")
}

pub fn try_kernel(
    context: &AshContext,
    number: u64,
) -> Result<ShaderRef<'_, CompiledKernel, GpuError>, CacheError<GpuError>> {
    let bindings = [vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(1)
        .stage_flags(vk::ShaderStageFlags::COMPUTE)];
    let sets = [vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings)];
    let info = KernelInfo {
        code: CODE,
        set_layouts: &sets,
        push_constant_ranges: &[],
        pipelines: &[KernelPipeline { name: c"main", specialization: None }],
        keep_code: true,
    };
    let shaders = context.shaders();
    // SAFETY: valid SPIR-V, and a layout that it does not use.
    shaders.get_or_compile(ShaderKey::kernel(shaders.device(), number), || unsafe { context.compile(&info) })
}

/// A buffer that the host sees, filled.
pub fn filled(context: &AshContext, value: u8) -> Region {
    let gpu = context.allocator();
    let usage = BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());
    let options = RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
    let region = gpu.create_buffer(&BufferInfo::new(4096, usage), &options).unwrap();
    let mapping = gpu.map(&region).unwrap();
    // SAFETY: mapped, and nobody else is at it.
    unsafe { mapping.as_ptr().write_bytes(value, mapping.len()) };
    gpu.flush(&region, 0, 4096).unwrap();
    drop(mapping);
    region
}

/// Copies one over the other on the queue, and looks.
pub fn copied(live: &Live, context: &AshContext, from: &Region, to: &Region, value: u8) {
    let gpu = context.allocator();
    let [source, target]: [BufferHandle; 2] = [from, to].map(|region| region.buffer().unwrap());
    live.copy(&[(source, 0, target, 0, 4096)]);
    let mapping = gpu.map(to).unwrap();
    gpu.invalidate(to, 0, 4096).unwrap();
    // SAFETY: mapped, and the queue is idle.
    let bytes = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), 4096) };
    assert!(bytes.iter().all(|byte| *byte == value));
}

fn file(live: &Live) {
    let root = Context::root_static(&testkit_system::SYSTEM, ContextOptions::new("application")).unwrap();
    let memory = root.child("contexts").unwrap();
    let home = AshContexts::new(memory.handle(), CacheLimits::NONE).unwrap();
    let get = live.entry.static_fn().get_instance_proc_addr;
    // SAFETY: all of one another, and alive while `live` is.
    let context = unsafe { home.acquire_ash(info(live, &memory, get)) }.unwrap();
    drop(kernel(&context, 1));
    // SAFETY: of the instance.
    let mine = unsafe { physical_device_identity(&live.instance, live.physical, live.options.api_version, 1) };
    let mut blob = TryVec::new_in(memory.handle());
    context.pipeline_cache_data(&mut blob).expect("told");
    assert!(blob.len() >= 32 && blob[16..32] == mine.pipeline_cache_uuid, "the header of Vulkan's own");
    let mut bytes = TryVec::new_in(memory.handle());
    let mut writer = StoreWriter::new(&mut bytes, &mine).unwrap();
    home.cache().save(context.shaders().device(), &mut writer, |_, kernel| kernel.code()).unwrap();
    writer.finish().unwrap();
    context.release().unwrap();
    let other = StoreIdentity { driver_version: mine.driver_version ^ 1, ..mine };
    assert_eq!(StoredShaders::open(&bytes, &other).unwrap_err(), StoreError::OtherDevice);
    let stored = StoredShaders::open(&bytes, &mine).expect("whole");
    let again = AshContextInfo { pipeline_cache_data: &blob, ..info(live, &memory, get) };
    // SAFETY: all of one another, and alive while `live` is.
    let context = unsafe { home.acquire_ash(again) }.expect("acquired with what the cache had");
    let restored = context.shaders().restore(&stored, |_, binary| {
        let words: Vec<u32> = binary.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let main = KernelPipeline { name: c"main", specialization: None };
        let info = KernelInfo {
            code: &words,
            set_layouts: &[],
            push_constant_ranges: &[],
            pipelines: &[main],
            keep_code: false,
        };
        // SAFETY: what was valid before, as the file's hash says.
        unsafe { context.compile(&info) }
    });
    let restored = restored.unwrap();
    assert_eq!((restored.restored, restored.refused), (1, 0));
    assert_eq!(context.release().unwrap().shaders, 1);
    drop((blob, bytes, home, memory));
    root.close_root().unwrap();
}

mod testkit_system {
    use std::alloc::System;

    use alloc_core::FromGlobalAlloc;

    pub static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
}
