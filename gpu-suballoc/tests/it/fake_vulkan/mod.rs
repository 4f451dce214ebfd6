//! Vulkan's entry points in this process, for [`AshDevice`](gpu_suballoc::AshDevice) without a loader: they note what
//! they are passed, on the thread that calls, and answer from [`Fake`]. No heap.
#![allow(dead_code, reason = "each test binary uses its part")]

mod memory;
mod physical;
mod resources;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use ash::vk::{self, Handle};
use memory::*;
use physical::*;
use resources::*;

/// Behaviour and record of this thread's driver.
#[derive(Clone, Copy)]
pub struct Fake {
    /// The commands of Vulkan 1.1 and 1.2 are there under their own names.
    pub core: bool,
    /// They are there under the names of their extensions.
    pub khr: bool,
    /// What the next command that can fail answers, once.
    pub fail: vk::Result,
    /// Resources ask for memory of their own: prefers, requires.
    pub dedicated: (bool, bool),
    /// How often each command was called, in the order of [`COMMANDS`].
    pub calls: [u32; COMMANDS.len()],
    /// What each was last passed as `pAllocator`.
    pub allocators: [usize; COMMANDS.len()],
    /// The structures behind the last info, in order, by `sType`; 0 is none.
    pub chain: [i32; 8],
    /// What stood in them.
    pub seen: SeenCommands,
}

/// Values of the last call.
#[derive(Clone, Copy, Default)]
pub struct SeenCommands {
    pub size: u64,
    pub memory_type: u32,
    pub dedicated: (u64, u64),
    pub priority: f32,
    pub export: u32,
    pub flags: u32,
    pub families: [u32; 3],
    pub concurrent: bool,
    pub external: u32,
    pub extent: (u32, u32, u32),
    pub ranges: [(u32, u64, u64); 2],
}

/// Everything that [`AshDevice`](gpu_suballoc::AshDevice) calls on a device, under the names of Vulkan 1.0 to 1.2.
pub const COMMANDS: [&str; 18] = [
    "vkAllocateMemory",
    "vkFreeMemory",
    "vkMapMemory",
    "vkUnmapMemory",
    "vkFlushMappedMemoryRanges",
    "vkInvalidateMappedMemoryRanges",
    "vkCreateBuffer",
    "vkDestroyBuffer",
    "vkGetBufferMemoryRequirements",
    "vkBindBufferMemory",
    "vkCreateImage",
    "vkDestroyImage",
    "vkGetImageMemoryRequirements",
    "vkBindImageMemory",
    "vkGetBufferMemoryRequirements2",
    "vkGetImageMemoryRequirements2",
    "vkGetBufferDeviceAddress",
    "vkGetDeviceMemoryCommitment",
];

impl Fake {
    pub const NEW: Self = Self {
        core: true,
        khr: false,
        fail: vk::Result::SUCCESS,
        dedicated: (false, false),
        calls: [0; COMMANDS.len()],
        allocators: [0; COMMANDS.len()],
        chain: [0; 8],
        seen: SeenCommands {
            size: 0,
            memory_type: 0,
            dedicated: (0, 0),
            priority: -1.0,
            export: 0,
            flags: 0,
            families: [u32::MAX; 3],
            concurrent: false,
            external: 0,
            extent: (0, 0, 0),
            ranges: [(0, 0, 0); 2],
        },
    };

    pub fn calls(&self, command: &str) -> u32 {
        COMMANDS.iter().zip(self.calls).find(|(name, _)| **name == command).map_or(0, |(_, calls)| calls)
    }

    pub fn allocator(&self, command: &str) -> usize {
        COMMANDS.iter().zip(self.allocators).find(|(name, _)| **name == command).map_or(0, |(_, given)| given)
    }
}

thread_local! {
    static FAKE: Cell<Fake> = const { Cell::new(Fake::NEW) };
}

/// This thread's driver now.
pub fn fake() -> Fake {
    FAKE.get()
}

/// Makes this thread's driver another one, or forgets what it has seen.
pub fn set(fake: Fake) {
    FAKE.set(fake);
}

fn change(with: impl FnOnce(&mut Fake)) {
    let mut fake = FAKE.get();
    with(&mut fake);
    FAKE.set(fake);
}

fn called(command: usize, allocator: Callbacks<'_>) {
    change(|fake| {
        fake.calls[command] += 1;
        fake.allocators[command] = allocator as usize;
    });
}

fn result() -> vk::Result {
    let result = fake().fail;
    change(|fake| fake.fail = vk::Result::SUCCESS);
    result
}

/// Entry, instance and device of the fake.
pub fn vulkan() -> (ash::Entry, ash::Instance, ash::Device) {
    let table = ash::StaticFn { get_instance_proc_addr };
    // SAFETY: the function is one, below.
    let entry = unsafe { ash::Entry::from_static_fn(table) };
    // SAFETY: the entry's functions are the fake's, which looks at no handle.
    let instance = unsafe { ash::Instance::load(entry.static_fn(), vk::Instance::from_raw(1)) };
    // SAFETY: the instance's functions are the fake's, which looks at no handle.
    let device = unsafe { ash::Device::load(instance.fp_v1_0(), vk::Device::from_raw(2)) };
    (entry, instance, device)
}

pub type Callbacks<'a> = *const vk::AllocationCallbacks<'a>;
pub type Function = vk::PFN_vkVoidFunction;

macro_rules! function {
    ($function:expr) => {{
        let function: *const () = $function as *const ();
        // SAFETY: a function's address as that of another type of function; whoever calls it turns it back.
        unsafe { std::mem::transmute::<*const (), Function>(function) }
    }};
}

pub unsafe extern "system" fn get_instance_proc_addr(_: vk::Instance, name: *const c_char) -> Function {
    // SAFETY: a C string, as Vulkan demands.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("");
    let Fake { core, khr, .. } = fake();
    match name {
        "vkCreateInstance" => function!(create_instance),
        "vkGetDeviceProcAddr" => function!(get_device_proc_addr),
        "vkGetPhysicalDeviceProperties" => function!(properties),
        "vkGetPhysicalDeviceMemoryProperties" => function!(memory_properties),
        "vkGetPhysicalDeviceProperties2" if core => function!(properties2),
        "vkGetPhysicalDeviceMemoryProperties2" if core => function!(memory_properties2),
        "vkGetPhysicalDeviceProperties2KHR" if khr => function!(properties2),
        "vkGetPhysicalDeviceMemoryProperties2KHR" if khr => function!(memory_properties2),
        _ => None,
    }
}

pub unsafe extern "system" fn get_device_proc_addr(_: vk::Device, name: *const c_char) -> Function {
    // SAFETY: a C string, as Vulkan demands.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("");
    let Fake { core, khr, .. } = fake();
    match name {
        "vkAllocateMemory" => function!(allocate),
        "vkFreeMemory" => function!(free),
        "vkMapMemory" => function!(map),
        "vkUnmapMemory" => function!(unmap),
        "vkFlushMappedMemoryRanges" => function!(flush),
        "vkInvalidateMappedMemoryRanges" => function!(invalidate),
        "vkGetDeviceMemoryCommitment" => function!(commitment),
        "vkCreateBuffer" => function!(create_buffer),
        "vkDestroyBuffer" => function!(destroy_buffer),
        "vkGetBufferMemoryRequirements" => function!(buffer_requirements),
        "vkBindBufferMemory" => function!(bind_buffer),
        "vkCreateImage" => function!(create_image),
        "vkDestroyImage" => function!(destroy_image),
        "vkGetImageMemoryRequirements" => function!(image_requirements),
        "vkBindImageMemory" => function!(bind_image),
        "vkCreateShaderModule" | "vkCreateDescriptorSetLayout" | "vkCreatePipelineLayout" | "vkCreatePipelineCache" => {
            function!(create_any)
        }
        "vkDestroyShaderModule"
        | "vkDestroyDescriptorSetLayout"
        | "vkDestroyPipelineLayout"
        | "vkDestroyPipelineCache"
        | "vkDestroyPipeline" => function!(destroy_any),
        "vkCreateComputePipelines" => function!(create_pipelines),
        "vkGetPipelineCacheData" => function!(pipeline_cache_data),
        "vkGetBufferMemoryRequirements2" if core => function!(buffer_requirements2),
        "vkGetImageMemoryRequirements2" if core => function!(image_requirements2),
        "vkGetBufferDeviceAddress" if core => function!(buffer_address),
        "vkGetBufferMemoryRequirements2KHR" if khr => function!(buffer_requirements2),
        "vkGetImageMemoryRequirements2KHR" if khr => function!(image_requirements2),
        "vkGetBufferDeviceAddressEXT" if khr => function!(buffer_address),
        _ => None,
    }
}

/// Notes the `sType`s of a chain, and hands each structure to `see`.
fn walk(mut next: *const c_void, mut see: impl FnMut(*const vk::BaseInStructure<'_>)) {
    let mut at = 0;
    change(|fake| fake.chain = [0; 8]);
    while !next.is_null() {
        let structure = next.cast::<vk::BaseInStructure<'_>>();
        see(structure);
        // SAFETY: a chain of structures, as Vulkan demands.
        let vk::BaseInStructure { s_type, p_next, .. } = unsafe { structure.read() };
        change(|fake| fake.chain[at] = s_type.as_raw());
        (at, next) = (at + 1, p_next.cast());
    }
}

extern "system" fn create_instance() {
    panic!("instances are the application's");
}

/// Modules, layouts, caches: numbers, of which nobody asks anything.
unsafe extern "system" fn create_any(_: vk::Device, _: *const c_void, _: Callbacks<'_>, made: *mut u64) -> vk::Result {
    // SAFETY: room for one handle, which is a number on every target.
    unsafe { made.write(0x5000) };
    result()
}

unsafe extern "system" fn create_pipelines(
    _: vk::Device,
    _: vk::PipelineCache,
    _: u32,
    _: *const c_void,
    _: Callbacks<'_>,
    made: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: room for one, for one is asked for at a time.
    unsafe { made.write(vk::Pipeline::from_raw(0x6000)) };
    result()
}

unsafe extern "system" fn destroy_any(_: vk::Device, _: u64, _: Callbacks<'_>) {}

unsafe extern "system" fn pipeline_cache_data(
    _: vk::Device,
    _: vk::PipelineCache,
    size: *mut usize,
    _: *mut c_void,
) -> vk::Result {
    // SAFETY: a size; the data is what the caller's room has in it.
    unsafe { size.write(64) };
    vk::Result::SUCCESS
}
