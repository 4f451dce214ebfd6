//! A Vulkan driver in this process that notes what it is asked, makes objects out of numbers, and takes 32 bytes
//! through the callbacks for each. Its handles lead to it, so that two of them are two drivers. What has no objects is
//! that of [`fake_vulkan`].

use super::*;

use crate::fake_vulkan::{self, Callbacks, Function};

/// A driver with one instance, physical device and device.
pub struct LifecycleDriver {
    state: Mutex<FakeState>,
}

#[derive(Default)]
struct FakeState {
    log: Vec<&'static str>,
    /// What lives: its kind, the bytes taken for it, and the user data they were taken with.
    live: HashMap<u64, (&'static str, usize, usize)>,
    next: u64,
    loads: u64,
    missing: Option<&'static str>,
    /// Of the commands that can fail, the one that does: counted from 1.
    fail: Option<(u64, vk::Result)>,
    /// What commands for pipelines return that have created one.
    refused_pipelines: vk::Result,
    asked: u64,
    cache: Vec<u8>,
}

thread_local! {
    /// Without an instance nobody says which driver is meant.
    static WITHOUT_INSTANCE: Cell<bool> = const { Cell::new(true) };
}

impl LifecycleDriver {
    pub fn new() -> Box<Self> {
        Box::new(Self { state: Mutex::default() })
    }

    fn address(&self) -> u64 {
        ptr::from_ref(self).expose_provenance() as u64
    }

    pub fn instance(&self) -> vk::Instance {
        vk::Instance::from_raw(self.address())
    }

    pub fn physical_device(&self) -> vk::PhysicalDevice {
        vk::PhysicalDevice::from_raw(self.address() + 1)
    }

    pub fn device(&self) -> vk::Device {
        vk::Device::from_raw(self.address() + 2)
    }

    /// The commands since the last time.
    pub fn log(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// Functions that were asked for.
    pub fn loads(&self) -> u64 {
        self.state.lock().unwrap().loads
    }

    /// Objects that live, of all kinds.
    pub fn live(&self) -> usize {
        self.state.lock().unwrap().live.len()
    }

    /// A command that this driver does not have.
    pub fn without(&self, name: Option<&'static str>) {
        self.state.lock().unwrap().missing = name;
        WITHOUT_INSTANCE.set(name != Some("vkCreateInstance"));
    }

    /// The nth command from now that can fail does, with this.
    pub fn fail(&self, fail: Option<(u64, vk::Result)>) {
        let mut state = self.state.lock().unwrap();
        (state.fail, state.asked) = (fail, 0);
    }

    /// From now on, pipelines are created, and the command returns this.
    pub fn refuse_created_pipelines(&self, result: vk::Result) {
        self.state.lock().unwrap().refused_pipelines = result;
    }

    /// True when it did.
    pub fn failed(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.fail.is_some_and(|(nth, _)| state.asked >= nth)
    }

    /// The device goes with what lives in it, and without a call: answers how many that was.
    pub fn lose(&self) -> usize {
        std::mem::take(&mut self.state.lock().unwrap().live).len()
    }

    /// What a pipeline cache was begun with, last.
    pub fn pipeline_cache(&self) -> Vec<u8> {
        self.state.lock().unwrap().cache.clone()
    }
}

impl Drop for LifecycleDriver {
    fn drop(&mut self) {
        let live = &self.state.get_mut().unwrap().live;
        assert!(live.is_empty() || thread::panicking(), "left with the driver: {live:?}");
    }
}

fn driver<'d>(handle: u64) -> &'d LifecycleDriver {
    // SAFETY: every handle is the address of a driver that the test keeps, and up to 2.
    unsafe { &*ptr::with_exposed_provenance::<LifecycleDriver>((handle & !7) as usize) }
}

fn note(device: vk::Device, name: &'static str) {
    driver(device.as_raw()).state.lock().unwrap().log.push(name);
}

/// Makes an object, if it is to succeed.
fn create<H: Handle>(
    device: vk::Device,
    name: &'static str,
    kind: &'static str,
    with: Callbacks<'_>,
    made: *mut H,
) -> vk::Result {
    let driver = driver(device.as_raw());
    let refused = {
        let mut state = driver.state.lock().unwrap();
        state.log.push(name);
        state.asked += 1;
        state.fail.filter(|(nth, _)| *nth == state.asked)
    };
    if let Some((_, result)) = refused {
        return result;
    }
    let (mut block, mut user) = (0, 0);
    // SAFETY: null, or callbacks.
    if let Some(with) = unsafe { with.as_ref() } {
        let allocate = with.pfn_allocation.expect("callbacks have one");
        // SAFETY: as Vulkan calls them.
        block = unsafe { allocate(with.p_user_data, 32, 8, vk::SystemAllocationScope::OBJECT) }.expose_provenance();
        user = with.p_user_data.addr();
        if block == 0 {
            return vk::Result::ERROR_OUT_OF_HOST_MEMORY;
        }
    }
    let mut state = driver.state.lock().unwrap();
    state.next += 16;
    let handle = state.next;
    state.live.insert(handle, (kind, block, user));
    // SAFETY: room for one.
    unsafe { made.write(H::from_raw(handle)) };
    vk::Result::SUCCESS
}

fn destroy<H: Handle>(device: vk::Device, name: &'static str, kind: &'static str, object: H, with: Callbacks<'_>) {
    note(device, name);
    let gone = driver(device.as_raw()).state.lock().unwrap().live.remove(&object.as_raw());
    let (was, block, user) = gone.unwrap_or_else(|| panic!("{name} of what is none of this driver's"));
    assert_eq!(was, kind, "{name}");
    // SAFETY: null, or callbacks.
    let Some(with) = (unsafe { with.as_ref() }) else {
        return assert_eq!(block, 0, "{name} without the callbacks it was made with");
    };
    assert_eq!(with.p_user_data.addr(), user, "{name} with other callbacks than it was made with");
    let free = with.pfn_free.expect("callbacks have one");
    // SAFETY: as Vulkan calls them, with their block.
    unsafe { free(with.p_user_data, ptr::with_exposed_provenance_mut(block)) }
}

/// A create and a destroy that differ in nothing but their kind.
macro_rules! objects {
    ($($kind:literal $make:literal $end:literal $handle:ty, $info:ty => $create:ident $destroy:ident;)*) => {
        $(
            unsafe extern "system" fn $create(
                device: vk::Device,
                _: *const $info,
                with: Callbacks<'_>,
                made: *mut $handle,
            ) -> vk::Result {
                create(device, $make, $kind, with, made)
            }

            unsafe extern "system" fn $destroy(device: vk::Device, object: $handle, with: Callbacks<'_>) {
                destroy(device, $end, $kind, object, with);
            }
        )*

        fn of_objects(name: &str) -> Function {
            match name {
                $($make => function!($create), $end => function!($destroy),)*
                _ => None,
            }
        }
    };
}

objects! {
    "VkDeviceMemory" "vkAllocateMemory" "vkFreeMemory" vk::DeviceMemory, vk::MemoryAllocateInfo<'_> => allocate free;
    "VkBuffer" "vkCreateBuffer" "vkDestroyBuffer" vk::Buffer, vk::BufferCreateInfo<'_> => create_buffer destroy_buffer;
    "VkImage" "vkCreateImage" "vkDestroyImage" vk::Image, vk::ImageCreateInfo<'_> => create_image destroy_image;
    "VkShaderModule" "vkCreateShaderModule" "vkDestroyShaderModule" vk::ShaderModule, vk::ShaderModuleCreateInfo<'_>
        => create_module destroy_module;
    "VkDescriptorSetLayout" "vkCreateDescriptorSetLayout" "vkDestroyDescriptorSetLayout" vk::DescriptorSetLayout,
        vk::DescriptorSetLayoutCreateInfo<'_> => create_set destroy_set;
    "VkPipelineLayout" "vkCreatePipelineLayout" "vkDestroyPipelineLayout" vk::PipelineLayout, vk::PipelineLayoutCreateInfo<'_>
        => create_layout destroy_layout;
    "VkPipeline" "a pipeline" "vkDestroyPipeline" vk::Pipeline, vk::ComputePipelineCreateInfo<'_> => create_pipeline destroy_pipeline;
    "VkPipelineCache" "a pipeline cache" "vkDestroyPipelineCache" vk::PipelineCache, vk::PipelineCacheCreateInfo<'_>
        => create_cache destroy_cache;
}

unsafe extern "system" fn create_pipelines(
    device: vk::Device,
    _: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    with: Callbacks<'_>,
    made: *mut vk::Pipeline,
) -> vk::Result {
    assert_eq!(count, 1);
    // SAFETY: the arguments are of the type that this alias of `create_pipeline` has, by Vulkan's contract.
    let result = unsafe { create_pipeline(device, infos, with, made) };
    let refused = driver(device.as_raw()).state.lock().unwrap().refused_pipelines;
    if result == vk::Result::SUCCESS { refused } else { result }
}

unsafe extern "system" fn begin_cache(
    device: vk::Device,
    info: *const vk::PipelineCacheCreateInfo<'_>,
    with: Callbacks<'_>,
    made: *mut vk::PipelineCache,
) -> vk::Result {
    // SAFETY: one info.
    let told = unsafe { &*info };
    let data = if told.initial_data_size == 0 {
        Vec::new()
    } else {
        // SAFETY: so many bytes.
        unsafe { std::slice::from_raw_parts(told.p_initial_data.cast::<u8>(), told.initial_data_size) }.to_vec()
    };
    driver(device.as_raw()).state.lock().unwrap().cache = data;
    // SAFETY: room for one handle, by Vulkan's contract.
    unsafe { create_cache(device, info, with, made) }
}

unsafe extern "system" fn cache_data(
    _: vk::Device,
    _: vk::PipelineCache,
    size: *mut usize,
    data: *mut c_void,
) -> vk::Result {
    const DATA: &[u8] = b"what was compiled";
    // SAFETY: a size, and, where there is room, as much of it.
    unsafe { size.write(DATA.len()) };
    if !data.is_null() {
        // SAFETY: the caller asked how much it is.
        unsafe { ptr::copy_nonoverlapping(DATA.as_ptr(), data.cast(), DATA.len()) };
    }
    vk::Result::SUCCESS
}

pub unsafe extern "system" fn get_instance_proc_addr(instance: vk::Instance, text: *const c_char) -> Function {
    // SAFETY: a C string, as Vulkan demands.
    let name = unsafe { CStr::from_ptr(text) }.to_str().unwrap();
    if instance == vk::Instance::null() {
        return if name == "vkCreateInstance" && WITHOUT_INSTANCE.get() { function!(nothing) } else { None };
    }
    let mut state = driver(instance.as_raw()).state.lock().unwrap();
    state.loads += 1;
    match name {
        _ if state.missing == Some(name) => None,
        "vkGetDeviceProcAddr" => function!(get_device_proc_addr),
        // SAFETY: forwarded: what is the same on every driver.
        _ => unsafe { fake_vulkan::get_instance_proc_addr(instance, text) },
    }
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, text: *const c_char) -> Function {
    // SAFETY: a C string, as Vulkan demands.
    let name = unsafe { CStr::from_ptr(text) }.to_str().unwrap();
    let mut state = driver(device.as_raw()).state.lock().unwrap();
    state.loads += 1;
    match name {
        _ if state.missing == Some(name) => None,
        "vkCreateComputePipelines" => function!(create_pipelines),
        "vkCreatePipelineCache" => function!(begin_cache),
        "vkGetPipelineCacheData" => function!(cache_data),
        // What nobody may call, as memory is not lazily allocated.
        "vkGetDeviceMemoryCommitment" | "vkDestroyDevice" | "vkDeviceWaitIdle" | "vkQueueWaitIdle" => {
            function!(nothing)
        }
        name => of_objects(name).or_else(|| {
            // SAFETY: forwarded.
            unsafe { fake_vulkan::get_device_proc_addr(device, text) }
        }),
    }
}

extern "system" fn nothing() {
    panic!("a command that is the application's alone");
}
