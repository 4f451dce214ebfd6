//! Vulkan's entry points in this process, for [`AshDevice`](gpu_suballoc::AshDevice) without a loader: they note what they are
//! passed, on the thread that calls, and answer from [`Fake`]. No heap.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use ash::vk::{self, Handle};

/// Behaviour and record of this thread's driver.
#[derive(Clone, Copy)]
pub(crate) struct Fake {
    /// The commands of Vulkan 1.1 and 1.2 are there under their own names.
    pub(crate) core: bool,
    /// They are there under the names of their extensions.
    pub(crate) khr: bool,
    /// What the next command that can fail answers, once.
    pub(crate) fail: vk::Result,
    /// Resources ask for memory of their own: prefers, requires.
    pub(crate) dedicated: (bool, bool),
    /// How often each command was called, in the order of [`COMMANDS`].
    pub(crate) calls: [u32; COMMANDS.len()],
    /// What each was last passed as `pAllocator`.
    pub(crate) allocators: [usize; COMMANDS.len()],
    /// The structures behind the last info, in order, by `sType`; 0 is none.
    pub(crate) chain: [i32; 8],
    /// What stood in them.
    pub(crate) seen: SeenCommands,
}

/// Values of the last call.
#[derive(Clone, Copy, Default)]
pub(crate) struct SeenCommands {
    pub(crate) size: u64,
    pub(crate) memory_type: u32,
    pub(crate) dedicated: (u64, u64),
    pub(crate) priority: f32,
    pub(crate) export: u32,
    pub(crate) flags: u32,
    pub(crate) families: [u32; 3],
    pub(crate) concurrent: bool,
    pub(crate) external: u32,
    pub(crate) extent: (u32, u32, u32),
    pub(crate) ranges: [(u32, u64, u64); 2],
}

/// Everything that [`AshDevice`](gpu_suballoc::AshDevice) calls on a device, under the names of Vulkan 1.0 to 1.2.
pub(crate) const COMMANDS: [&str; 17] = [
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
];

impl Fake {
    pub(crate) const NEW: Self = Self {
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

    pub(crate) fn calls(&self, command: &str) -> u32 {
        COMMANDS
            .iter()
            .zip(self.calls)
            .find(|(name, _)| **name == command)
            .map_or(0, |(_, calls)| calls)
    }

    pub(crate) fn allocator(&self, command: &str) -> usize {
        COMMANDS
            .iter()
            .zip(self.allocators)
            .find(|(name, _)| **name == command)
            .map_or(0, |(_, given)| given)
    }
}

thread_local! {
    static FAKE: Cell<Fake> = const { Cell::new(Fake::NEW) };
}

/// This thread's driver now.
pub(crate) fn fake() -> Fake {
    FAKE.get()
}

/// Makes this thread's driver another one, or forgets what it has seen.
pub(crate) fn set(fake: Fake) {
    FAKE.set(fake);
}

fn change(with: impl FnOnce(&mut Fake)) {
    let mut fake = FAKE.get();
    with(&mut fake);
    FAKE.set(fake);
}

fn called(command: usize, allocator: *const vk::AllocationCallbacks<'_>) {
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
pub(crate) fn vulkan() -> (ash::Entry, ash::Instance, ash::Device) {
    let table = ash::StaticFn {
        get_instance_proc_addr,
    };
    // SAFETY: the function is one, below.
    let entry = unsafe { ash::Entry::from_static_fn(table) };
    // SAFETY: as above; the fake looks at no handle.
    let instance = unsafe { ash::Instance::load(entry.static_fn(), vk::Instance::from_raw(1)) };
    // SAFETY: as above.
    let device = unsafe { ash::Device::load(instance.fp_v1_0(), vk::Device::from_raw(2)) };
    (entry, instance, device)
}

type Function = vk::PFN_vkVoidFunction;

macro_rules! function {
    ($function:expr) => {{
        let function: *const () = $function as *const ();
        // SAFETY: a function's address as that of another type of function; whoever calls it turns it back.
        unsafe { std::mem::transmute::<*const (), Function>(function) }
    }};
}

pub(crate) unsafe extern "system" fn get_instance_proc_addr(
    _: vk::Instance,
    name: *const c_char,
) -> Function {
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

unsafe extern "system" fn get_device_proc_addr(_: vk::Device, name: *const c_char) -> Function {
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
        "vkCreateBuffer" => function!(create_buffer),
        "vkDestroyBuffer" => function!(destroy_buffer),
        "vkGetBufferMemoryRequirements" => function!(buffer_requirements),
        "vkBindBufferMemory" => function!(bind_buffer),
        "vkCreateImage" => function!(create_image),
        "vkDestroyImage" => function!(destroy_image),
        "vkGetImageMemoryRequirements" => function!(image_requirements),
        "vkBindImageMemory" => function!(bind_image),
        "vkCreateShaderModule"
        | "vkCreateDescriptorSetLayout"
        | "vkCreatePipelineLayout"
        | "vkCreatePipelineCache" => {
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

const LIMITS: vk::PhysicalDeviceLimits = {
    // SAFETY: numbers alone; zeros are some.
    let mut limits: vk::PhysicalDeviceLimits = unsafe { std::mem::zeroed() };
    limits.buffer_image_granularity = 1024;
    limits.non_coherent_atom_size = 128;
    limits.max_memory_allocation_count = 99;
    limits.min_memory_map_alignment = 64;
    limits
};

unsafe extern "system" fn properties(
    _: vk::PhysicalDevice,
    told: *mut vk::PhysicalDeviceProperties,
) {
    let properties = vk::PhysicalDeviceProperties {
        limits: LIMITS,
        ..Default::default()
    };
    // SAFETY: room for one.
    unsafe { told.write(properties) };
}

unsafe extern "system" fn properties2(
    _: vk::PhysicalDevice,
    told: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: a structure to be filled in.
    let told = unsafe { &mut *told };
    told.properties.limits = LIMITS;
    walk(told.p_next.cast_const(), |structure| {
        // SAFETY: a structure of the chain, which may be written to here.
        match unsafe { (*structure).s_type } {
            vk::StructureType::PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES => {
                let told = structure
                    .cast::<vk::PhysicalDeviceMaintenance3Properties<'_>>()
                    .cast_mut();
                // SAFETY: of this type, by its `sType`.
                unsafe { (*told).max_memory_allocation_size = 1 << 31 };
            }
            vk::StructureType::PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES => {
                let told = structure
                    .cast::<vk::PhysicalDeviceMaintenance4Properties<'_>>()
                    .cast_mut();
                // SAFETY: of this type, by its `sType`.
                unsafe { (*told).max_buffer_size = 1 << 30 };
            }
            _ => {}
        }
    });
}

unsafe extern "system" fn memory_properties(
    _: vk::PhysicalDevice,
    told: *mut vk::PhysicalDeviceMemoryProperties,
) {
    // SAFETY: a structure to be filled in.
    unsafe { told.write(memory()) };
}

unsafe extern "system" fn memory_properties2(
    _: vk::PhysicalDevice,
    told: *mut vk::PhysicalDeviceMemoryProperties2<'_>,
) {
    // SAFETY: a structure to be filled in.
    let told = unsafe { &mut *told };
    told.memory_properties = memory();
    walk(told.p_next.cast_const(), |structure| {
        // SAFETY: a structure of the chain.
        if unsafe { (*structure).s_type }
            == vk::StructureType::PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
        {
            let told = structure
                .cast::<vk::PhysicalDeviceMemoryBudgetPropertiesEXT<'_>>()
                .cast_mut();
            // SAFETY: of this type, by its `sType`, and to be filled in.
            let told = unsafe { &mut *told };
            (
                told.heap_usage[0],
                told.heap_budget[0],
                told.heap_usage[1],
                told.heap_budget[1],
            ) = (10, 20, 30, 40);
        }
    });
}

fn memory() -> vk::PhysicalDeviceMemoryProperties {
    let kind = |property_flags, heap_index| vk::MemoryType {
        property_flags,
        heap_index,
    };
    let heap = |size, flags| vk::MemoryHeap { size, flags };
    vk::PhysicalDeviceMemoryProperties::default()
        .memory_types(&[
            kind(vk::MemoryPropertyFlags::DEVICE_LOCAL, 0),
            kind(
                vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT,
                1,
            ),
        ])
        .memory_heaps(&[
            heap(1 << 30, vk::MemoryHeapFlags::DEVICE_LOCAL),
            heap(1 << 31, vk::MemoryHeapFlags::empty()),
        ])
}

unsafe extern "system" fn allocate(
    _: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::DeviceMemory,
) -> vk::Result {
    called(0, allocator);
    // SAFETY: one info.
    let info = unsafe { &*info };
    change(|fake| {
        (fake.seen.size, fake.seen.memory_type) = (info.allocation_size, info.memory_type_index)
    });
    walk(info.p_next, |structure| {
        // SAFETY: a structure of the chain.
        match unsafe { (*structure).s_type } {
            vk::StructureType::MEMORY_DEDICATED_ALLOCATE_INFO => {
                // SAFETY: of this type, by its `sType`.
                let told = unsafe { &*structure.cast::<vk::MemoryDedicatedAllocateInfo<'_>>() };
                change(|fake| fake.seen.dedicated = (told.buffer.as_raw(), told.image.as_raw()));
            }
            vk::StructureType::MEMORY_PRIORITY_ALLOCATE_INFO_EXT => {
                // SAFETY: as above.
                let told = unsafe { &*structure.cast::<vk::MemoryPriorityAllocateInfoEXT<'_>>() };
                change(|fake| fake.seen.priority = told.priority);
            }
            vk::StructureType::EXPORT_MEMORY_ALLOCATE_INFO => {
                // SAFETY: as above.
                let told = unsafe { &*structure.cast::<vk::ExportMemoryAllocateInfo<'_>>() };
                change(|fake| fake.seen.export = told.handle_types.as_raw());
            }
            vk::StructureType::MEMORY_ALLOCATE_FLAGS_INFO => {
                // SAFETY: as above.
                let told = unsafe { &*structure.cast::<vk::MemoryAllocateFlagsInfo<'_>>() };
                change(|fake| fake.seen.flags = told.flags.as_raw());
            }
            _ => {}
        }
    });
    // SAFETY: room for one handle.
    unsafe { made.write(vk::DeviceMemory::from_raw(0x3000)) };
    result()
}

unsafe extern "system" fn free(
    _: vk::Device,
    _: vk::DeviceMemory,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    called(1, allocator);
}

unsafe extern "system" fn map(
    _: vk::Device,
    _: vk::DeviceMemory,
    offset: u64,
    _: u64,
    _: vk::MemoryMapFlags,
    first: *mut *mut c_void,
) -> vk::Result {
    called(2, ptr::null());
    // SAFETY: room for one pointer. Nobody looks at what it points to; 0 stands for a driver that maps nothing.
    unsafe { first.write(ptr::without_provenance_mut(offset as usize)) };
    result()
}

unsafe extern "system" fn unmap(_: vk::Device, _: vk::DeviceMemory) {
    called(3, ptr::null());
}

unsafe extern "system" fn flush(
    _: vk::Device,
    count: u32,
    ranges: *const vk::MappedMemoryRange<'_>,
) -> vk::Result {
    called(4, ptr::null());
    // SAFETY: forwarded.
    unsafe { note_ranges(count, ranges) }
}

unsafe extern "system" fn invalidate(
    _: vk::Device,
    count: u32,
    ranges: *const vk::MappedMemoryRange<'_>,
) -> vk::Result {
    called(5, ptr::null());
    // SAFETY: forwarded.
    unsafe { note_ranges(count, ranges) }
}

/// # Safety
/// So many ranges.
unsafe fn note_ranges(count: u32, ranges: *const vk::MappedMemoryRange<'_>) -> vk::Result {
    // SAFETY: the caller's promise.
    let last = unsafe { ranges.wrapping_add(count as usize - 1).read() };
    change(|fake| fake.seen.ranges = [fake.seen.ranges[1], (count, last.offset, last.size)]);
    result()
}

unsafe extern "system" fn create_buffer(
    _: vk::Device,
    info: *const vk::BufferCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::Buffer,
) -> vk::Result {
    called(6, allocator);
    // SAFETY: one info.
    let info = unsafe { &*info };
    // SAFETY: so many families.
    let families = unsafe {
        std::slice::from_raw_parts(
            info.p_queue_family_indices,
            info.queue_family_index_count as usize,
        )
    };
    note_resource(info.size, families, info.sharing_mode, info.p_next);
    // SAFETY: room for one handle.
    unsafe { made.write(vk::Buffer::from_raw(0x4000)) };
    result()
}

unsafe extern "system" fn destroy_buffer(
    _: vk::Device,
    _: vk::Buffer,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    called(7, allocator);
}

const NEEDS: vk::MemoryRequirements = vk::MemoryRequirements {
    size: 256,
    alignment: 64,
    memory_type_bits: 0b11,
};

unsafe extern "system" fn buffer_requirements(
    _: vk::Device,
    _: vk::Buffer,
    told: *mut vk::MemoryRequirements,
) {
    called(8, ptr::null());
    // SAFETY: room for one.
    unsafe { told.write(NEEDS) };
}

unsafe extern "system" fn bind_buffer(
    _: vk::Device,
    _: vk::Buffer,
    _: vk::DeviceMemory,
    offset: u64,
) -> vk::Result {
    called(9, ptr::null());
    change(|fake| fake.seen.size = offset);
    result()
}

unsafe extern "system" fn create_image(
    _: vk::Device,
    info: *const vk::ImageCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::Image,
) -> vk::Result {
    called(10, allocator);
    // SAFETY: one info.
    let info = unsafe { &*info };
    // SAFETY: so many families.
    let families = unsafe {
        std::slice::from_raw_parts(
            info.p_queue_family_indices,
            info.queue_family_index_count as usize,
        )
    };
    note_resource(0, families, info.sharing_mode, info.p_next);
    change(|fake| fake.seen.extent = (info.extent.width, info.extent.height, info.extent.depth));
    // SAFETY: room for one handle.
    unsafe { made.write(vk::Image::from_raw(0x5000)) };
    result()
}

fn note_resource(size: u64, families: &[u32], mode: vk::SharingMode, next: *const c_void) {
    change(|fake| {
        fake.seen.families = [u32::MAX; 3];
        fake.seen
            .families
            .iter_mut()
            .zip(families)
            .for_each(|(place, family)| *place = *family);
        (fake.seen.size, fake.seen.concurrent, fake.seen.external) =
            (size, mode == vk::SharingMode::CONCURRENT, 0);
    });
    walk(next, |structure| {
        // SAFETY: the two structures of external memory have the same fields.
        let told = unsafe { &*structure.cast::<vk::ExternalMemoryBufferCreateInfo<'_>>() };
        change(|fake| fake.seen.external = told.handle_types.as_raw());
    });
}

unsafe extern "system" fn destroy_image(
    _: vk::Device,
    _: vk::Image,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    called(11, allocator);
}

unsafe extern "system" fn image_requirements(
    _: vk::Device,
    _: vk::Image,
    told: *mut vk::MemoryRequirements,
) {
    called(12, ptr::null());
    // SAFETY: room for one.
    unsafe { told.write(NEEDS) };
}

unsafe extern "system" fn bind_image(
    _: vk::Device,
    _: vk::Image,
    _: vk::DeviceMemory,
    offset: u64,
) -> vk::Result {
    called(13, ptr::null());
    change(|fake| fake.seen.size = offset);
    result()
}

unsafe extern "system" fn buffer_requirements2(
    _: vk::Device,
    _: *const vk::BufferMemoryRequirementsInfo2<'_>,
    told: *mut vk::MemoryRequirements2<'_>,
) {
    called(14, ptr::null());
    // SAFETY: forwarded.
    unsafe { requirements2(told) }
}

unsafe extern "system" fn image_requirements2(
    _: vk::Device,
    _: *const vk::ImageMemoryRequirementsInfo2<'_>,
    told: *mut vk::MemoryRequirements2<'_>,
) {
    called(15, ptr::null());
    // SAFETY: forwarded.
    unsafe { requirements2(told) }
}

/// # Safety
/// A structure to be filled in.
unsafe fn requirements2(told: *mut vk::MemoryRequirements2<'_>) {
    // SAFETY: the caller's promise.
    let told = unsafe { &mut *told };
    told.memory_requirements = NEEDS;
    walk(told.p_next.cast_const(), |structure| {
        let (prefers, requires) = fake().dedicated;
        let told = structure
            .cast::<vk::MemoryDedicatedRequirements<'_>>()
            .cast_mut();
        // SAFETY: the one structure that may be here, and to be filled in.
        let told = unsafe { &mut *told };
        (
            told.prefers_dedicated_allocation,
            told.requires_dedicated_allocation,
        ) = (prefers.into(), requires.into());
    });
}

unsafe extern "system" fn buffer_address(
    _: vk::Device,
    _: *const vk::BufferDeviceAddressInfo<'_>,
) -> u64 {
    called(16, ptr::null());
    0x1_0000
}

extern "system" fn create_instance() {
    panic!("instances are the application's");
}

/// Modules, layouts, caches: numbers, of which nobody asks anything.
unsafe extern "system" fn create_any(
    _: vk::Device,
    _: *const c_void,
    _: *const vk::AllocationCallbacks<'_>,
    made: *mut u64,
) -> vk::Result {
    // SAFETY: room for one handle, which is a number on every target.
    unsafe { made.write(0x5000) };
    result()
}

unsafe extern "system" fn create_pipelines(
    _: vk::Device,
    _: vk::PipelineCache,
    _: u32,
    _: *const c_void,
    _: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::Pipeline,
) -> vk::Result {
    // SAFETY: room for one, for one is asked for at a time.
    unsafe { made.write(vk::Pipeline::from_raw(0x6000)) };
    result()
}

unsafe extern "system" fn destroy_any(
    _: vk::Device,
    _: u64,
    _: *const vk::AllocationCallbacks<'_>,
) {
}

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
