//! A dispatch table's functions, counted on their way to the driver: what is created and destroyed, and the bytes of
//! device memory.

use crate::*;

use ash::vk::Handle;

use crate::live::in_command;

static INSTANCE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static DEVICE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static MEMORY: LazyLock<Mutex<HashMap<u64, u64>>> = LazyLock::new(Mutex::default);

type Function = vk::PFN_vkVoidFunction;
type Callbacks<'a> = *const vk::AllocationCallbacks<'a>;

/// The driver's function of this type, as it was stored.
macro_rules! real {
    ($of:ty, $stored:expr) => {
        // SAFETY: a function of this type was stored when the driver was asked for it, which the caller has seen.
        unsafe { std::mem::transmute::<*mut (), $of>($stored.load(SeqCst)) }
    };
}

/// Where the calls go.
pub fn forward_to(get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr) {
    INSTANCE.store(get_instance_proc_addr as *mut (), SeqCst);
}

/// Bytes that are allocated now.
pub fn device_bytes() -> u64 {
    MEMORY.lock().unwrap().values().sum()
}

fn address(function: Function) -> *mut () {
    function.map_or(ptr::null_mut(), |function| function as *mut ())
}

pub unsafe extern "system" fn get_instance_proc_addr(instance: vk::Instance, name: *const c_char) -> Function {
    let real = real!(vk::PFN_vkGetInstanceProcAddr, INSTANCE);
    // SAFETY: the caller's instance and name, as the driver's function demands them of it.
    let function = unsafe { real(instance, name) };
    // SAFETY: a C string, as Vulkan demands.
    if unsafe { CStr::from_ptr(name) } == c"vkGetDeviceProcAddr" {
        DEVICE.store(address(function), SeqCst);
        // SAFETY: a function's address as that of another type of function; whoever calls it turns it back.
        return unsafe { std::mem::transmute::<*const (), Function>(get_device_proc_addr as *const ()) };
    }
    function
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> Function {
    let real = real!(vk::PFN_vkGetDeviceProcAddr, DEVICE);
    // SAFETY: the caller's device and name, as the driver's function demands them of it.
    let function = unsafe { real(device, name) };
    // SAFETY: a C string, as Vulkan demands.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    counted(name, address(function)).or(function)
}

/// Kinds with a create and a destroy, whose infos are looked at by nobody here.
macro_rules! objects {
    ($($kind:literal $make:literal $create:ident $end:literal $destroy:ident, $live:ident $real:ident $gone:ident;)*) => {
        $(
            static $live: AtomicI64 = AtomicI64::new(0);
            static $real: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
            static $gone: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

            unsafe extern "system" fn $create(device: vk::Device, info: *const c_void, with: *const c_void, made: *mut u64) -> vk::Result {
                type Create = unsafe extern "system" fn(vk::Device, *const c_void, *const c_void, *mut u64) -> vk::Result;
                let real = real!(Create, $real);
                in_command($make);
                // SAFETY: the caller's arguments, as the driver's function demands them of it.
                let result = unsafe { real(device, info, with, made) };
                if result == vk::Result::SUCCESS {
                    $live.fetch_add(1, SeqCst);
                }
                result
            }

            unsafe extern "system" fn $destroy(device: vk::Device, object: u64, with: *const c_void) {
                type Destroy = unsafe extern "system" fn(vk::Device, u64, *const c_void);
                $live.fetch_sub(i64::from(object != 0), SeqCst);
                in_command($end);
                let real = real!(Destroy, $gone);
                // SAFETY: the caller's arguments, as the driver's function demands them of it.
                unsafe { real(device, object, with) }
            }
        )*

        /// What lives, by kind, and how many of each were made so far.
        pub fn live() -> Vec<(&'static str, i64)> {
            vec![
                $(($kind, $live.load(SeqCst)),)*
                ("VkPipeline", PIPELINES.load(SeqCst)),
                ("VkDeviceMemory", MEMORY.lock().unwrap().len() as i64),
            ]
        }

        fn counted(name: &str, real: *mut ()) -> Function {
            let function = match name {
                $(
                    $make => { $real.store(real, SeqCst); $create as *const () }
                    $end => { $gone.store(real, SeqCst); $destroy as *const () }
                )*
                "vkAllocateMemory" => { ALLOCATE.store(real, SeqCst); allocate as *const () }
                "vkFreeMemory" => { FREE.store(real, SeqCst); free as *const () }
                "vkCreateComputePipelines" => { PIPELINES_MADE.store(real, SeqCst); create_pipelines as *const () }
                "vkDestroyPipeline" => { PIPELINE_GONE.store(real, SeqCst); destroy_pipeline as *const () }
                _ => return None,
            };
            // SAFETY: a function's address as that of another type of function; whoever calls it turns it back.
            unsafe { std::mem::transmute::<*const (), Function>(function) }
        }
    };
}

objects! {
    "VkBuffer" "vkCreateBuffer" create_buffer "vkDestroyBuffer" destroy_buffer, BUFFERS BUFFER_MADE BUFFER_GONE;
    "VkImage" "vkCreateImage" create_image "vkDestroyImage" destroy_image, IMAGES IMAGE_MADE IMAGE_GONE;
    "VkShaderModule" "vkCreateShaderModule" create_module "vkDestroyShaderModule" destroy_module, MODULES MODULE_MADE MODULE_GONE;
    "VkDescriptorSetLayout" "vkCreateDescriptorSetLayout" create_set "vkDestroyDescriptorSetLayout" destroy_set, SETS SET_MADE SET_GONE;
    "VkPipelineLayout" "vkCreatePipelineLayout" create_layout "vkDestroyPipelineLayout" destroy_layout, LAYOUTS LAYOUT_MADE LAYOUT_GONE;
    "VkPipelineCache" "vkCreatePipelineCache" create_cache "vkDestroyPipelineCache" destroy_cache, CACHES CACHE_MADE CACHE_GONE;
}

static ALLOCATE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static FREE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static PIPELINES: AtomicI64 = AtomicI64::new(0);
static PIPELINES_MADE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static PIPELINE_GONE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

unsafe extern "system" fn allocate(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    with: Callbacks<'_>,
    made: *mut vk::DeviceMemory,
) -> vk::Result {
    let real = real!(vk::PFN_vkAllocateMemory, ALLOCATE);
    in_command("vkAllocateMemory");
    // SAFETY: the caller's arguments, as the driver's function demands them of it.
    let result = unsafe { real(device, info, with, made) };
    if result == vk::Result::SUCCESS {
        // SAFETY: a handle was written.
        let memory = unsafe { made.read() }.as_raw();
        // SAFETY: an info, as Vulkan demands.
        let size = unsafe { (*info).allocation_size };
        MEMORY.lock().unwrap().insert(memory, size);
    }
    result
}

unsafe extern "system" fn free(device: vk::Device, memory: vk::DeviceMemory, with: Callbacks<'_>) {
    assert!(MEMORY.lock().unwrap().remove(&memory.as_raw()).is_some(), "memory of this table's");
    let real = real!(vk::PFN_vkFreeMemory, FREE);
    // SAFETY: the caller's arguments, as the driver's function demands them of it.
    unsafe { real(device, memory, with) }
}

unsafe extern "system" fn create_pipelines(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    with: Callbacks<'_>,
    made: *mut vk::Pipeline,
) -> vk::Result {
    let real = real!(vk::PFN_vkCreateComputePipelines, PIPELINES_MADE);
    in_command("vkCreateComputePipelines");
    // SAFETY: the caller's arguments, as the driver's function demands them of it.
    let result = unsafe { real(device, cache, count, infos, with, made) };
    PIPELINES.fetch_add(if result == vk::Result::SUCCESS { i64::from(count) } else { 0 }, SeqCst);
    result
}

unsafe extern "system" fn destroy_pipeline(device: vk::Device, pipeline: vk::Pipeline, with: Callbacks<'_>) {
    PIPELINES.fetch_sub(i64::from(pipeline != vk::Pipeline::null()), SeqCst);
    let real = real!(vk::PFN_vkDestroyPipeline, PIPELINE_GONE);
    // SAFETY: the caller's arguments, as the driver's function demands them of it.
    unsafe { real(device, pipeline, with) }
}
