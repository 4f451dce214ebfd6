//! The driver behind whole allocators: one that only counts, or the software driver of this machine.
//!
//! Peers that speak Vulkan are given function tables. Those of the counting driver lead to the functions below; so do
//! those of the software driver where it is to be counted, and then on to it.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ash::vk;
use ash::vk::Handle;

use super::witness::apart;

/// An instance and a device, as every peer wants them.
pub struct Driver {
    pub instance: ash::Instance,
    pub device: ash::Device,
    pub physical: vk::PhysicalDevice,
    /// Keeps the loader loaded.
    pub entry: ash::Entry,
    pub api_version: u32,
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static RESERVED: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Calls are counted from here on, and the most from what is reserved now.
pub fn reset() {
    CALLS.store(0, Relaxed);
    MOST.store(RESERVED.load(Relaxed), Relaxed);
}

pub fn calls() -> u64 {
    CALLS.load(Relaxed)
}

/// What is reserved now.
pub fn reserved() -> u64 {
    RESERVED.load(Relaxed)
}

pub fn most_reserved() -> u64 {
    MOST.load(Relaxed)
}

/// The most that the counting driver gives, until told otherwise.
pub fn limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}

/// False, and nothing taken, over the limit.
pub fn take(bytes: u64) -> bool {
    let fits = RESERVED.load(Relaxed) + bytes <= LIMIT.load(Relaxed);
    if fits {
        took(bytes);
    }
    fits
}

fn took(bytes: u64) {
    CALLS.fetch_add(1, Relaxed);
    MOST.fetch_max(RESERVED.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

pub fn gave(bytes: u64) {
    CALLS.fetch_add(1, Relaxed);
    RESERVED.fetch_sub(bytes, Relaxed);
}

/// Sizes of the live memories.
fn sizes() -> MutexGuard<'static, HashMap<u64, u64>> {
    static SIZES: OnceLock<Mutex<HashMap<u64, u64>>> = OnceLock::new();
    SIZES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions that are counted on their way.
static BEHIND: OnceLock<(vk::PFN_vkAllocateMemory, vk::PFN_vkFreeMemory)> = OnceLock::new();

unsafe extern "system" fn counted_allocate(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    apart(|| {
        let (allocate, _) = BEHIND.get().expect("set before the table was made");
        // SAFETY: valid usage of vkAllocateMemory, the driver's as well.
        let result = unsafe { allocate(device, info, callbacks, memory) };
        if result == vk::Result::SUCCESS {
            // SAFETY: valid usage of vkAllocateMemory: a valid structure.
            let size = unsafe { (*info).allocation_size };
            // SAFETY: the driver wrote a handle there.
            sizes().insert(unsafe { *memory }.as_raw(), size);
            took(size);
        }
        result
    })
}

unsafe extern "system" fn counted_free(
    device: vk::Device,
    memory: vk::DeviceMemory,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    apart(|| {
        let (_, free) = BEHIND.get().expect("set before the table was made");
        gave(sizes().remove(&memory.as_raw()).unwrap_or(0));
        // SAFETY: valid usage of vkFreeMemory, the driver's as well.
        unsafe { free(device, memory, callbacks) }
    })
}

unsafe extern "system" fn hollow_allocate(
    _: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    apart(|| {
        // SAFETY: valid usage of vkAllocateMemory: a valid structure.
        let size = unsafe { (*info).allocation_size };
        if !take(size) {
            return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        }
        let handle = NEXT.fetch_add(1, Relaxed);
        sizes().insert(handle, size);
        // SAFETY: valid usage of vkAllocateMemory: a place for the handle.
        unsafe { memory.write(vk::DeviceMemory::from_raw(handle)) };
        vk::Result::SUCCESS
    })
}

unsafe extern "system" fn hollow_free(_: vk::Device, memory: vk::DeviceMemory, _: *const vk::AllocationCallbacks<'_>) {
    apart(|| gave(sizes().remove(&memory.as_raw()).unwrap_or(0)));
}

unsafe extern "system" fn hollow_properties(_: vk::PhysicalDevice, properties: *mut vk::PhysicalDeviceProperties) {
    let limits = vk::PhysicalDeviceLimits {
        max_memory_allocation_count: 4096,
        buffer_image_granularity: 1,
        non_coherent_atom_size: 64,
        min_memory_map_alignment: 64,
        ..Default::default()
    };
    let told = vk::PhysicalDeviceProperties { api_version: vk::API_VERSION_1_3, limits, ..Default::default() };
    // SAFETY: valid usage: a place for the properties.
    unsafe { properties.write(told) };
}

/// One type of the device's own memory, one that the host sees.
unsafe extern "system" fn hollow_memory(_: vk::PhysicalDevice, properties: *mut vk::PhysicalDeviceMemoryProperties) {
    let mut told =
        vk::PhysicalDeviceMemoryProperties { memory_type_count: 2, memory_heap_count: 2, ..Default::default() };
    let host = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    told.memory_types[0] = vk::MemoryType { property_flags: vk::MemoryPropertyFlags::DEVICE_LOCAL, heap_index: 0 };
    told.memory_types[1] = vk::MemoryType { property_flags: host, heap_index: 1 };
    told.memory_heaps[0] = vk::MemoryHeap { size: HEAP, flags: vk::MemoryHeapFlags::DEVICE_LOCAL };
    told.memory_heaps[1] = vk::MemoryHeap { size: HEAP, flags: vk::MemoryHeapFlags::empty() };
    // SAFETY: valid usage: a place for the properties.
    unsafe { properties.write(told) };
}

/// No function but those in the tables.
unsafe extern "system" fn hollow_of_device(_: vk::Device, _: *const c_char) -> vk::PFN_vkVoidFunction {
    None
}

unsafe extern "system" fn hollow_of_instance(_: vk::Instance, _: *const c_char) -> vk::PFN_vkVoidFunction {
    None
}

/// The heaps of the counting driver.
pub const HEAP: u64 = 64 << 30;

fn name_of(instance: &ash::Instance, device: vk::PhysicalDevice) -> String {
    // SAFETY: a device of this instance.
    let properties = unsafe { instance.get_physical_device_properties(device) };
    let name = properties.device_name_as_c_str();
    name.map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

impl Driver {
    pub fn name(&self) -> String {
        name_of(&self.instance, self.physical)
    }

    /// A memory type of the device's own memory, one that the host does not see if there is one; and the bytes of its
    /// heap.
    pub fn memory_type(&self) -> (u32, u64) {
        // SAFETY: the device of this instance.
        let memory = unsafe { self.instance.get_physical_device_memory_properties(self.physical) };
        let types = memory.memory_types_as_slice();
        let local = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let visible = vk::MemoryPropertyFlags::HOST_VISIBLE;
        let is_own = |of: &vk::MemoryType| of.property_flags == local;
        let is_local = |of: &vk::MemoryType| of.property_flags.contains(local);
        let first = |is: &dyn Fn(&vk::MemoryType) -> bool| types.iter().position(is);
        let hidden = |of: &vk::MemoryType| is_local(of) && !of.property_flags.contains(visible);
        let index = first(&is_own)
            .or_else(|| first(&hidden))
            .or_else(|| first(&is_local))
            .expect("every device has own memory");
        let heap = memory.memory_heaps[types[index].heap_index as usize];
        (index as u32, heap.size)
    }

    /// Counts and does nothing: what is timed with it is the allocator.
    pub fn hollow() -> Self {
        let of_instance = |name: &CStr| -> *const c_void {
            match name.to_bytes() {
                b"vkGetPhysicalDeviceProperties" => hollow_properties as *const c_void,
                b"vkGetPhysicalDeviceMemoryProperties" => hollow_memory as *const c_void,
                b"vkGetDeviceProcAddr" => hollow_of_device as *const c_void,
                _ => std::ptr::null(),
            }
        };
        let of_device = |name: &CStr| -> *const c_void {
            match name.to_bytes() {
                b"vkAllocateMemory" => hollow_allocate as *const c_void,
                b"vkFreeMemory" => hollow_free as *const c_void,
                _ => std::ptr::null(),
            }
        };
        // SAFETY: the functions are of the named types; the others panic when they are called.
        let instance = unsafe { ash::Instance::load_with(of_instance, vk::Instance::from_raw(1)) };
        // SAFETY: the functions are of the named types; the others panic when they are called.
        let device = unsafe { ash::Device::load_with(of_device, vk::Device::from_raw(1)) };
        let nothing = |_: &CStr| std::ptr::null();
        let (first, second) = (ash::EntryFnV1_0::load(nothing), ash::EntryFnV1_1::load(nothing));
        let entry =
            ash::Entry::from_parts_1_1(ash::StaticFn { get_instance_proc_addr: hollow_of_instance }, first, second);
        Self { instance, device, physical: vk::PhysicalDevice::from_raw(1), entry, api_version: vk::API_VERSION_1_0 }
    }

    /// A real driver, twice, as it is and counted, and the name of its rows: lavapipe, or with `--device=WORD` the
    /// first device whose name contains the word. `None`, said why, where there is none.
    pub fn real() -> Option<([Self; 2], &'static str)> {
        let word = std::env::args().find_map(|it| it.strip_prefix("--device=").map(str::to_owned));
        let label = word.as_ref().map_or("lavapipe", |_| "device");
        match Self::open(word.as_deref().unwrap_or("llvmpipe")) {
            Ok(drivers) => Some((drivers, label)),
            Err(why) => {
                println!("SKIPPED gpu_region/{label}: {why}");
                None
            }
        }
    }

    /// The first device whose name contains the word, whatever the case: as it is, and counted. Once in a process.
    pub fn open(word: &str) -> Result<[Self; 2], String> {
        // SAFETY: the loader is opened as it opens itself everywhere.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| format!("no loader: {error}"))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: a valid structure.
        let instance =
            unsafe { entry.create_instance(&info, None) }.map_err(|error| format!("no instance: {error}"))?;
        // SAFETY: a live instance.
        let devices = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
        let (mut names, word) = (Vec::new(), word.to_lowercase());
        let mut is_named = |device: &vk::PhysicalDevice| {
            names.push(name_of(&instance, *device));
            names.last().is_some_and(|name| name.to_lowercase().contains(&word))
        };
        let found = devices.into_iter().find(&mut is_named);
        let physical = found.ok_or_else(|| format!("no device is called {word}, there are {names:?}"))?;
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // SAFETY: valid structures; every device has a first queue family.
        let device =
            unsafe { instance.create_device(physical, &info, None) }.map_err(|error| format!("no device: {error}"))?;
        BEHIND.get_or_init(|| (device.fp_v1_0().allocate_memory, device.fp_v1_0().free_memory));
        let counted = |name: &CStr| -> *const c_void {
            match name.to_bytes() {
                b"vkAllocateMemory" => counted_allocate as *const c_void,
                b"vkFreeMemory" => counted_free as *const c_void,
                _ => {
                    // SAFETY: a live device.
                    let function = unsafe { instance.get_device_proc_addr(device.handle(), name.as_ptr()) };
                    // SAFETY: a function pointer is an address here.
                    unsafe { transmute::<vk::PFN_vkVoidFunction, *const c_void>(function) }
                }
            }
        };
        // SAFETY: functions of the device, or ones of their types that lead to them.
        let counted = unsafe { ash::Device::load_with(counted, device.handle()) };
        let of = |device| Self {
            instance: instance.clone(),
            device,
            physical,
            entry: entry.clone(),
            api_version: vk::API_VERSION_1_3,
        };
        Ok([of(device), of(counted)])
    }
}
