//! The functions that contexts load instead of the driver's. Each calls the driver's in its [bracket](Brackets).
//!
//! A context loads its functions by name and passes no data, so the brackets in use are in statics: one run at a time.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk::{self, Handle as _};
use vk_callbacks::Owners;

use super::brackets::Brackets;

type Function = vk::PFN_vkVoidFunction;
type Callbacks = *const vk::AllocationCallbacks<'static>;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static BRACKETS: AtomicPtr<Brackets<'static>> = AtomicPtr::new(ptr::null_mut());
static INSTANCE_PROC: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static DEVICE_PROC: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// The functions use these brackets until it is dropped.
pub(super) struct InstalledBrackets<'b> {
    brackets: PhantomData<&'b ()>,
    _alone: MutexGuard<'static, ()>,
}

impl<'b> InstalledBrackets<'b> {
    /// Installs these brackets and the loader's or driver's functions. Use the functions only while it lives.
    pub(super) fn new(
        brackets: &'b Brackets<'b>,
        get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    ) -> Self {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        BRACKETS.store(ptr::from_ref(brackets).cast_mut().cast(), SeqCst);
        INSTANCE_PROC.store(get_instance_proc_addr as *mut (), SeqCst);
        Self {
            brackets: PhantomData,
            _alone,
        }
    }
}

impl Drop for InstalledBrackets<'_> {
    fn drop(&mut self) {
        BRACKETS.store(ptr::null_mut(), SeqCst);
    }
}

/// The brackets in use.
fn now() -> &'static Brackets<'static> {
    // SAFETY: null, or stored from a reference that lives as long as `InstalledBrackets`, which every context is used within.
    match unsafe { BRACKETS.load(SeqCst).as_ref() } {
        Some(brackets) => brackets,
        None => unreachable!("contexts are used while `InstalledBrackets` lives"),
    }
}

fn address(function: Function) -> *mut () {
    function.map_or(ptr::null_mut(), |function| function as *mut ())
}

/// # Safety
/// The address is a function's, and is called with its own type.
unsafe fn function(at: *const ()) -> Function {
    // SAFETY: the caller's promise; both are a pointer's size, and it is not null.
    unsafe { std::mem::transmute::<*const (), Function>(at) }
}

/// The function whose address was stored.
///
/// # Safety
/// `F` is the type of the function in `address`, which is not null.
unsafe fn stored<F: Copy>(address: &AtomicPtr<()>) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
    // SAFETY: the caller's promise; both are a pointer's size.
    unsafe { std::mem::transmute_copy::<*mut (), F>(&address.load(SeqCst)) }
}

/// Contexts get it as the loader's function of that name.
pub(super) unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> Function {
    // SAFETY: stored by `InstalledBrackets::new` from a function of this type.
    let real = unsafe { stored::<vk::PFN_vkGetInstanceProcAddr>(&INSTANCE_PROC) };
    // SAFETY: forwarded.
    let found = now().run("vkGetInstanceProcAddr", Owners::default(), || unsafe {
        real(instance, name)
    });
    // SAFETY: a C string, as Vulkan demands.
    let name = unsafe { CStr::from_ptr(name) };
    if name == c"vkGetDeviceProcAddr" {
        DEVICE_PROC.store(address(found), SeqCst);
        // SAFETY: of the type that the name says.
        return unsafe { function(get_device_proc_addr as *const ()) };
    }
    bracketed(name, found)
}

pub(super) unsafe extern "system" fn get_device_proc_addr(
    device: vk::Device,
    name: *const c_char,
) -> Function {
    // SAFETY: stored above from a function of this type.
    let real = unsafe { stored::<vk::PFN_vkGetDeviceProcAddr>(&DEVICE_PROC) };
    let brackets = now();
    // SAFETY: forwarded.
    let found = brackets.run("vkGetDeviceProcAddr", brackets.of_device(None), || unsafe {
        real(device, name)
    });
    // SAFETY: a C string, as Vulkan demands.
    bracketed(unsafe { CStr::from_ptr(name) }, found)
}

/// The bracketed function of this name, if there is one; the driver's is then in its static.
fn bracketed(name: &CStr, real: Function) -> Function {
    let Some((of, ours)) = name.to_str().ok().and_then(ours) else {
        return real;
    };
    real?;
    of.store(address(real), SeqCst);
    // SAFETY: of the type that the name says.
    unsafe { function(ours) }
}

/// Declares the functions and the list of their names.
macro_rules! commands {
    (
        create { $($create:ident $make:literal $made:literal)* }
        destroy { $($destroy:ident $end:literal $gone:literal)* }
        other { $($other:ident $name:literal [$($argument:ident: $type:ty),*] -> $answer:ty, $brackets:ident $owners:expr;)* }
    ) => {
        fn ours(name: &str) -> Option<(&'static AtomicPtr<()>, *const ())> {
            match name {
                $($make => Some((&$create::REAL, $create::call as *const ())),)*
                $($end => Some((&$destroy::REAL, $destroy::call as *const ())),)*
                $($name => Some((&$other::REAL, $other::call as *const ())),)*
                "vkCreateComputePipelines" => Some((&PIPELINES, create_compute_pipelines as *const ())),
                _ => None,
            }
        }

        $(mod $create {
            use super::*;

            pub(super) static REAL: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

            pub(super) unsafe extern "system" fn call(device: vk::Device, info: *const c_void, with: Callbacks, out: *mut u64) -> vk::Result {
                type Create = unsafe extern "system" fn(vk::Device, *const c_void, Callbacks, *mut u64) -> vk::Result;
                let brackets = now();
                // SAFETY: stored from the driver's function of this name; handles of this kind are numbers.
                let real = unsafe { stored::<Create>(&REAL) };
                // SAFETY: as Vulkan demands of `pAllocator`.
                let owner = unsafe { brackets.owner(with) };
                // SAFETY: forwarded.
                let result = brackets.run($make, brackets.of_device(owner), || unsafe { real(device, info, with, out) });
                if result == vk::Result::SUCCESS {
                    // SAFETY: a handle was written.
                    brackets.created($made, unsafe { out.read() }, owner);
                }
                result
            }
        })*

        $(mod $destroy {
            use super::*;

            pub(super) static REAL: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

            pub(super) unsafe extern "system" fn call(device: vk::Device, object: u64, with: Callbacks) {
                type Destroy = unsafe extern "system" fn(vk::Device, u64, Callbacks);
                let brackets = now();
                // SAFETY: as for those that create.
                let real = unsafe { stored::<Destroy>(&REAL) };
                // SAFETY: as Vulkan demands of `pAllocator`.
                let owner = unsafe { brackets.owner(with) };
                // SAFETY: forwarded.
                brackets.run($end, brackets.of_device(owner), || unsafe { real(device, object, with) });
                brackets.destroyed($gone, object, owner, $end);
            }
        })*

        $(mod $other {
            use super::*;

            pub(super) static REAL: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

            pub(super) unsafe extern "system" fn call($($argument: $type),*) -> $answer {
                type Other = unsafe extern "system" fn($($type),*) -> $answer;
                let $brackets = now();
                // SAFETY: stored from the driver's function of this name.
                let real = unsafe { stored::<Other>(&REAL) };
                // SAFETY: forwarded.
                $brackets.run($name, $owners, || unsafe { real($($argument),*) })
            }
        })*
    };
}

static PIPELINES: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// May use the cache's callbacks too, and may have created some pipelines although it fails.
unsafe extern "system" fn create_compute_pipelines(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    with: Callbacks,
    out: *mut vk::Pipeline,
) -> vk::Result {
    let brackets = now();
    // SAFETY: stored from the driver's function of this name.
    let real = unsafe { stored::<vk::PFN_vkCreateComputePipelines>(&PIPELINES) };
    // SAFETY: as Vulkan demands of `pAllocator`.
    let owner = unsafe { brackets.owner(with) };
    let of_cache = brackets
        .owner_of("VkPipelineCache", cache.as_raw())
        .filter(|cache| Some(*cache) != owner);
    let owners = Owners {
        cache: of_cache,
        ..brackets.of_device(owner)
    };
    // SAFETY: forwarded.
    let result = brackets.run("vkCreateComputePipelines", owners, || unsafe {
        real(device, cache, count, infos, with, out)
    });
    for index in 0..count as usize {
        // SAFETY: room for so many handles, which the caller has set to null and the driver writes.
        let made = unsafe { out.wrapping_add(index).read() };
        if made != vk::Pipeline::null() {
            brackets.created("VkPipeline", made.as_raw(), owner);
        }
    }
    result
}

/// A command about an object, by kind and handle, that uses the object's callbacks.
fn about(brackets: &Brackets<'_>, kind: &'static str, handle: u64) -> Owners {
    brackets.of_device(brackets.owner_of(kind, handle))
}

commands! {
    create {
        allocate_memory "vkAllocateMemory" "VkDeviceMemory"
        create_buffer "vkCreateBuffer" "VkBuffer"
        create_image "vkCreateImage" "VkImage"
        create_shader_module "vkCreateShaderModule" "VkShaderModule"
        create_descriptor_set_layout "vkCreateDescriptorSetLayout" "VkDescriptorSetLayout"
        create_pipeline_layout "vkCreatePipelineLayout" "VkPipelineLayout"
        create_pipeline_cache "vkCreatePipelineCache" "VkPipelineCache"
    }
    destroy {
        free_memory "vkFreeMemory" "VkDeviceMemory"
        destroy_buffer "vkDestroyBuffer" "VkBuffer"
        destroy_image "vkDestroyImage" "VkImage"
        destroy_shader_module "vkDestroyShaderModule" "VkShaderModule"
        destroy_descriptor_set_layout "vkDestroyDescriptorSetLayout" "VkDescriptorSetLayout"
        destroy_pipeline_layout "vkDestroyPipelineLayout" "VkPipelineLayout"
        destroy_pipeline_cache "vkDestroyPipelineCache" "VkPipelineCache"
        destroy_pipeline "vkDestroyPipeline" "VkPipeline"
    }
    other {
        map_memory "vkMapMemory" [device: vk::Device, memory: u64, offset: u64, size: u64, flags: u32, out: *mut *mut c_void]
            -> vk::Result, brackets about(brackets, "VkDeviceMemory", memory);
        unmap_memory "vkUnmapMemory" [device: vk::Device, memory: u64] -> (), brackets about(brackets, "VkDeviceMemory", memory);
        flush_ranges "vkFlushMappedMemoryRanges" [device: vk::Device, count: u32, ranges: *const c_void]
            -> vk::Result, brackets brackets.of_device(None);
        invalidate_ranges "vkInvalidateMappedMemoryRanges" [device: vk::Device, count: u32, ranges: *const c_void]
            -> vk::Result, brackets brackets.of_device(None);
        buffer_requirements "vkGetBufferMemoryRequirements" [device: vk::Device, buffer: u64, out: *mut c_void]
            -> (), brackets about(brackets, "VkBuffer", buffer);
        image_requirements "vkGetImageMemoryRequirements" [device: vk::Device, image: u64, out: *mut c_void]
            -> (), brackets about(brackets, "VkImage", image);
        buffer_requirements2 "vkGetBufferMemoryRequirements2" [device: vk::Device, info: *const c_void, out: *mut c_void]
            -> (), brackets brackets.of_device(None);
        image_requirements2 "vkGetImageMemoryRequirements2" [device: vk::Device, info: *const c_void, out: *mut c_void]
            -> (), brackets brackets.of_device(None);
        bind_buffer "vkBindBufferMemory" [device: vk::Device, buffer: u64, memory: u64, offset: u64]
            -> vk::Result, brackets about(brackets, "VkBuffer", buffer);
        bind_image "vkBindImageMemory" [device: vk::Device, image: u64, memory: u64, offset: u64]
            -> vk::Result, brackets about(brackets, "VkImage", image);
        pipeline_cache_data "vkGetPipelineCacheData" [device: vk::Device, cache: u64, size: *mut usize, data: *mut c_void]
            -> vk::Result, brackets about(brackets, "VkPipelineCache", cache);
        physical_properties "vkGetPhysicalDeviceProperties" [physical: vk::PhysicalDevice, out: *mut c_void]
            -> (), brackets Owners::default();
        physical_properties2 "vkGetPhysicalDeviceProperties2" [physical: vk::PhysicalDevice, out: *mut c_void]
            -> (), brackets Owners::default();
        memory_properties "vkGetPhysicalDeviceMemoryProperties" [physical: vk::PhysicalDevice, out: *mut c_void]
            -> (), brackets Owners::default();
        memory_properties2 "vkGetPhysicalDeviceMemoryProperties2" [physical: vk::PhysicalDevice, out: *mut c_void]
            -> (), brackets Owners::default();
    }
}
