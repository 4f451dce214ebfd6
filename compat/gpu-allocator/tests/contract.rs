//! What programs rely on of gpu-allocator's Vulkan interface: passes over the original and over Steward. On the first
//! driver that the loader finds, under the validation layer where that is installed; without a driver each test prints
//! that it was skipped.

use std::collections::HashSet;
use std::ffi::{CStr, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationError, AllocationSizes, MemoryLocation};

const MIB: u64 = 1 << 20;

static VALIDATION_MESSAGES: AtomicU32 = AtomicU32::new(0);

unsafe extern "system" fn heard(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer's message.
    let text = unsafe { CStr::from_ptr((*data).p_message) };
    eprintln!("validation: {}", text.to_string_lossy());
    VALIDATION_MESSAGES.fetch_add(1, Ordering::Relaxed);
    vk::FALSE
}

/// What the allocators of this process have logged.
struct Logged(Mutex<Vec<String>>);

static LOGGED: Logged = Logged(Mutex::new(Vec::new()));

impl log::Log for Logged {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let mut lines = self.0.lock().expect("no panic");
        lines.push(record.args().to_string());
    }

    fn flush(&self) {}
}

struct LiveDevice {
    // Dropped last: it unloads the loader.
    entry: ash::Entry,
    instance: ash::Instance,
    messenger: Option<vk::DebugUtilsMessengerEXT>,
    physical: vk::PhysicalDevice,
    device: ash::Device,
}

/// Vulkan's loader and the layers load and unload libraries: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

impl LiveDevice {
    fn new(with_addresses: bool) -> Option<Self> {
        // SAFETY: the loader is loaded as any program does.
        let entry = unsafe { ash::Entry::load() }.ok()?;
        // SAFETY: no argument is needed.
        let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
        let name = c"VK_LAYER_KHRONOS_validation";
        let has_layer = layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(name));
        let (layers, extensions) = if has_layer {
            (vec![name.as_ptr()], vec![ash::ext::debug_utils::NAME.as_ptr()])
        } else {
            eprintln!("the validation layer is not installed: nobody watches");
            (vec![], vec![])
        };
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions);
        // SAFETY: the infos live as long as the call.
        let instance = unsafe { entry.create_instance(&info, None) }.ok()?;
        let messenger = has_layer.then(|| {
            let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
                .message_severity(
                    vk::DebugUtilsMessageSeverityFlagsEXT::ERROR | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
                )
                .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
                .pfn_user_callback(Some(heard));
            // SAFETY: the extension is enabled.
            unsafe { ash::ext::debug_utils::Instance::new(&entry, &instance).create_debug_utils_messenger(&info, None) }
                .expect("a messenger")
        });
        // SAFETY: the instance is live.
        let physical = unsafe { instance.enumerate_physical_devices() }.ok()?.into_iter().next()?;
        let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let mut addresses = vk::PhysicalDeviceBufferDeviceAddressFeatures::default().buffer_device_address(true);
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
        if with_addresses {
            info = info.push_next(&mut addresses);
        }
        // SAFETY: the infos live as long as the call.
        let device = unsafe { instance.create_device(physical, &info, None) }.ok()?;
        Some(Self { entry, instance, messenger, physical, device })
    }

    fn allocator_with(&self, sizes: AllocationSizes, addresses: bool) -> Allocator {
        let mut debug_settings = gpu_allocator::AllocatorDebugSettings::default();
        debug_settings.log_leaks_on_shutdown = false;
        debug_settings.log_frees = true;
        Allocator::new(&AllocatorCreateDesc {
            instance: self.instance.clone(),
            device: self.device.clone(),
            physical_device: self.physical,
            debug_settings,
            buffer_device_address: addresses,
            allocation_sizes: sizes,
        })
        .expect("an allocator")
    }

    fn allocator(&self) -> Allocator {
        self.allocator_with(AllocationSizes::new(8 * MIB, 8 * MIB), false)
    }

    fn buffer(&self, size: u64, usage: vk::BufferUsageFlags) -> (vk::Buffer, vk::MemoryRequirements) {
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: a valid info.
        let buffer = unsafe { self.device.create_buffer(&info, None) }.expect("a buffer");
        // SAFETY: the buffer is live.
        (buffer, unsafe { self.device.get_buffer_memory_requirements(buffer) })
    }

    fn image(&self, side: u32) -> (vk::Image, vk::MemoryRequirements) {
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .extent(vk::Extent3D { width: side, height: side, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_DST);
        // SAFETY: a valid info.
        let image = unsafe { self.device.create_image(&info, None) }.expect("an image");
        // SAFETY: the image is live.
        (image, unsafe { self.device.get_image_memory_requirements(image) })
    }

    fn bind(&self, buffer: vk::Buffer, to: &Allocation) {
        // SAFETY: the allocation is for this buffer.
        unsafe { self.device.bind_buffer_memory(buffer, to.memory(), to.offset()) }.expect("bound");
    }

    fn destroy(&self, buffer: vk::Buffer) {
        // SAFETY: made by `buffer`, and used no more.
        unsafe { self.device.destroy_buffer(buffer, None) };
    }
}

impl Drop for LiveDevice {
    fn drop(&mut self) {
        // SAFETY: nothing of the device is left; what is, the layer tells.
        unsafe { self.device.destroy_device(None) };
        if let Some(messenger) = self.messenger {
            // SAFETY: made by `new`.
            unsafe {
                ash::ext::debug_utils::Instance::new(&self.entry, &self.instance)
                    .destroy_debug_utils_messenger(messenger, None);
            }
        }
        // SAFETY: its device is gone.
        unsafe { self.instance.destroy_instance(None) };
    }
}

/// Runs a test on a device, alone; validation has nothing to say.
fn on_a_device(name: &str, with_addresses: bool, test: impl FnOnce(&LiveDevice)) {
    let _alone = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = VALIDATION_MESSAGES.load(Ordering::Relaxed);
    match LiveDevice::new(with_addresses) {
        Some(device) => test(&device),
        None if std::env::var("STEWARD_REQUIRE").is_ok_and(|what| what.contains("lavapipe")) => {
            panic!("{name}: there is no Vulkan driver")
        }
        None => eprintln!("skipped: {name}: there is no Vulkan driver"),
    }
    assert_eq!(VALIDATION_MESSAGES.load(Ordering::Relaxed), before, "{name}");
}

fn wanted(requirements: vk::MemoryRequirements, location: MemoryLocation) -> AllocationCreateDesc<'static> {
    AllocationCreateDesc {
        name: "wanted",
        requirements,
        location,
        linear: true,
        allocation_scheme: AllocationScheme::GpuAllocatorManaged,
    }
}

#[test]
fn an_allocation_has_the_size_that_was_asked_and_its_own_bytes() {
    on_a_device("own bytes", false, |device| {
        let mut allocator = device.allocator();
        let mut ids = HashSet::new();
        let mut live = Vec::new();
        for index in 0..100_u8 {
            let (buffer, requirements) = device.buffer(1000 + u64::from(index), vk::BufferUsageFlags::TRANSFER_SRC);
            let mut allocation = allocator.allocate(&wanted(requirements, MemoryLocation::CpuToGpu)).expect("memory");
            assert_eq!(allocation.size(), requirements.size);
            assert_eq!(allocation.offset() % requirements.alignment, 0);
            assert!(!allocation.is_null() && !allocation.is_dedicated());
            assert!(
                (allocation.memory_properties())
                    .contains(vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT)
            );
            assert!(ids.insert(allocation.chunk_id().expect("an id")));
            allocation.mapped_slice_mut().expect("mapped").fill(index);
            device.bind(buffer, &allocation);
            live.push((buffer, allocation, index));
        }
        for (buffer, allocation, index) in live {
            assert!((allocation.mapped_slice().expect("mapped").iter()).all(|&byte| byte == index));
            device.destroy(buffer);
            allocator.free(allocation).expect("freed");
        }
        assert_eq!(allocator.generate_report().total_allocated_bytes, 0);
    });
}

#[test]
fn what_is_no_request_is_refused() {
    on_a_device("refusals", false, |device| {
        let mut allocator = device.allocator();
        let (buffer, good) = device.buffer(1000, vk::BufferUsageFlags::TRANSFER_SRC);
        let cases = [
            (vk::MemoryRequirements { size: 0, ..good }, "Invalid AllocationCreateDesc"),
            (vk::MemoryRequirements { alignment: 3, ..good }, "Invalid AllocationCreateDesc"),
            (vk::MemoryRequirements { alignment: 0, ..good }, "Invalid AllocationCreateDesc"),
            (vk::MemoryRequirements { memory_type_bits: 0, ..good }, "No compatible memory type available"),
            (vk::MemoryRequirements { size: 1 << 50, ..good }, "Out of memory"),
        ];
        for (requirements, said) in cases {
            let refused = allocator.allocate(&wanted(requirements, MemoryLocation::GpuOnly));
            assert_eq!(refused.expect_err("refused").to_string(), said);
        }
        device.destroy(buffer);
        let description = AllocatorCreateDesc {
            instance: device.instance.clone(),
            device: device.device.clone(),
            physical_device: vk::PhysicalDevice::null(),
            debug_settings: gpu_allocator::AllocatorDebugSettings::default(),
            buffer_device_address: false,
            allocation_sizes: AllocationSizes::default(),
        };
        assert!(matches!(Allocator::new(&description), Err(AllocationError::InvalidAllocatorCreateDesc(_))));
        allocator.free(Allocation::default()).expect("nothing is freed");
    });
}

#[test]
fn a_large_or_dedicated_allocation_has_a_memory_object_of_its_own() {
    on_a_device("dedicated", false, |device| {
        let mut allocator = device.allocator();
        let (buffer, requirements) = device.buffer(1000, vk::BufferUsageFlags::STORAGE_BUFFER);
        let (image, of_image) = device.image(64);
        let dedicated = allocator
            .allocate(&AllocationCreateDesc {
                allocation_scheme: AllocationScheme::DedicatedBuffer(buffer),
                ..wanted(requirements, MemoryLocation::GpuOnly)
            })
            .expect("memory");
        let with_image = allocator
            .allocate(&AllocationCreateDesc {
                allocation_scheme: AllocationScheme::DedicatedImage(image),
                linear: false,
                ..wanted(of_image, MemoryLocation::GpuOnly)
            })
            .expect("memory");
        let (large, of_large) = device.buffer(20 * MIB, vk::BufferUsageFlags::STORAGE_BUFFER);
        let above = allocator.allocate(&wanted(of_large, MemoryLocation::GpuOnly)).expect("memory");
        assert!(dedicated.is_dedicated() && with_image.is_dedicated() && !above.is_dedicated());
        for (allocation, size) in
            [(&dedicated, requirements.size), (&with_image, of_image.size), (&above, of_large.size)]
        {
            assert_eq!((allocation.offset(), allocation.size()), (0, size));
        }
        device.bind(buffer, &dedicated);
        device.bind(large, &above);
        // SAFETY: its own memory.
        unsafe { device.device.bind_image_memory(image, with_image.memory(), 0) }.expect("bound");
        device.destroy(buffer);
        device.destroy(large);
        // SAFETY: used no more.
        unsafe { device.device.destroy_image(image, None) };
        for allocation in [dedicated, with_image, above] {
            allocator.free(allocation).expect("freed");
        }
    });
}

#[test]
fn a_report_names_what_lives_and_where() {
    on_a_device("report", false, |device| {
        let mut allocator = device.allocator();
        let (buffer, requirements) = device.buffer(MIB, vk::BufferUsageFlags::STORAGE_BUFFER);
        let mut allocation = allocator
            .allocate(&AllocationCreateDesc { name: "first", ..wanted(requirements, MemoryLocation::GpuOnly) })
            .expect("memory");
        let report = allocator.generate_report();
        assert_eq!((report.allocations.len(), report.blocks.len()), (1, 1));
        assert_eq!(report.allocations[0].name, "first");
        assert_eq!(report.allocations[0].offset, allocation.offset());
        assert!(report.allocations[0].size >= requirements.size);
        assert_eq!(report.blocks[0].allocations, 0..1);
        assert_eq!(report.total_capacity_bytes, allocator.capacity());
        assert!(report.total_capacity_bytes >= 4 * MIB && report.total_capacity_bytes <= 8 * MIB);
        assert!(format!("{allocator:?}").contains("first"));
        allocator.rename_allocation(&mut allocation, "second").expect("renamed");
        assert_eq!(allocator.generate_report().allocations[0].name, "second");
        device.destroy(buffer);
        log::set_logger(&LOGGED).expect("the first");
        log::set_max_level(log::LevelFilter::Debug);
        allocator.free(allocation).expect("freed");
        assert!(allocator.generate_report().allocations.is_empty());
        let lines = LOGGED.0.lock().expect("no panic");
        assert!(lines.iter().any(|line| line == "Freeing `second`."));
    });
}

/// The validation layer tells of memory objects that outlive the device.
#[test]
fn what_leaks_is_freed_with_the_allocator() {
    on_a_device("leaks", false, |device| {
        let mut allocator = device.allocator();
        for location in [MemoryLocation::GpuOnly, MemoryLocation::CpuToGpu, MemoryLocation::GpuToCpu] {
            let (buffer, requirements) = device.buffer(1000, vk::BufferUsageFlags::TRANSFER_DST);
            let leaked = allocator.allocate(&wanted(requirements, location)).expect("memory");
            device.bind(buffer, &leaked);
            device.destroy(buffer);
            drop(leaked);
        }
        assert_eq!(allocator.generate_report().allocations.len(), 3);
        drop(allocator);
    });
}

#[test]
fn images_lie_beside_buffers() {
    on_a_device("images", false, |device| {
        let mut allocator = device.allocator();
        let mut live = Vec::new();
        for side in 1..40 {
            let (buffer, requirements) = device.buffer(u64::from(side) * 40, vk::BufferUsageFlags::UNIFORM_BUFFER);
            let memory = allocator.allocate(&wanted(requirements, MemoryLocation::GpuOnly)).expect("memory");
            device.bind(buffer, &memory);
            let (image, requirements) = device.image(side);
            let under = allocator
                .allocate(&AllocationCreateDesc { linear: false, ..wanted(requirements, MemoryLocation::GpuOnly) })
                .expect("memory");
            // SAFETY: memory for this image.
            unsafe { device.device.bind_image_memory(image, under.memory(), under.offset()) }.expect("bound");
            live.push((buffer, memory, image, under));
        }
        for (buffer, memory, image, under) in live {
            device.destroy(buffer);
            // SAFETY: used no more.
            unsafe { device.device.destroy_image(image, None) };
            allocator.free(memory).expect("freed");
            allocator.free(under).expect("freed");
        }
    });
}

#[test]
fn buffers_have_addresses_where_the_device_has_them() {
    on_a_device("addresses", true, |device| {
        let mut allocator = device.allocator_with(AllocationSizes::default(), true);
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let (buffer, requirements) = device.buffer(1000, usage);
        let memory = allocator.allocate(&wanted(requirements, MemoryLocation::GpuOnly)).expect("memory");
        device.bind(buffer, &memory);
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        // SAFETY: the buffer is bound.
        assert_ne!(unsafe { device.device.get_buffer_device_address(&info) }, 0);
        device.destroy(buffer);
        allocator.free(memory).expect("freed");
    });
}

/// The last empty block stays: a frame that allocates and frees one thing calls the driver once.
#[test]
fn an_emptied_block_is_kept() {
    on_a_device("emptied", false, |device| {
        let mut allocator = device.allocator_with(AllocationSizes::default(), false);
        let (buffer, requirements) = device.buffer(1000, vk::BufferUsageFlags::TRANSFER_DST);
        for _ in 0..3 {
            let memory = allocator.allocate(&wanted(requirements, MemoryLocation::GpuOnly)).expect("memory");
            let held = allocator.capacity();
            allocator.free(memory).expect("freed");
            assert_eq!(allocator.capacity(), held);
        }
        device.destroy(buffer);
    });
}

#[test]
fn allocators_and_allocations_go_to_other_threads() {
    fn moves<T: Send + Sync>() {}
    moves::<Allocation>();
    moves::<Allocator>();
}

#[test]
fn presser_copies_into_a_mapped_allocation() {
    on_a_device("presser", false, |device| {
        let mut allocator = device.allocator();
        let (buffer, requirements) = device.buffer(64, vk::BufferUsageFlags::TRANSFER_SRC);
        let mut memory = allocator.allocate(&wanted(requirements, MemoryLocation::CpuToGpu)).expect("memory");
        presser::copy_from_slice_to_offset(&[1_u32, 2, 3], &mut memory, 4).expect("copied");
        assert_eq!(memory.mapped_slice().expect("mapped")[4..16], [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        let mut slab = memory.try_as_mapped_slab().expect("mapped");
        presser::copy_from_slice_to_offset(&[7_u8], &mut slab, 0).expect("copied");
        assert_eq!(memory.mapped_slice().expect("mapped")[0], 7);
        device.destroy(buffer);
        allocator.free(memory).expect("freed");
    });
}
