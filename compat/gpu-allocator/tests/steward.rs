//! What only this implementation has: the book-keeping is a context's, which may refuse. One test: the default context
//! is set once a process.

use alloc_core::{Budget, Context, ContextOptions, FromGlobalAlloc, set_default_context};
use ash::vk;
use gpu_allocator::vulkan::{AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationError, AllocationSizes, AllocatorDebugSettings, MemoryLocation};

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

#[test]
fn a_budget_of_the_programs_context_refuses_and_everything_returns() {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("program")).expect("a root");
    let account =
        root.child_with(ContextOptions::new("device memory").budget(Budget::exact(64 << 10))).expect("a context");
    set_default_context(account.handle()).expect("the first");
    let skipped = |why: &str| {
        let required = std::env::var("STEWARD_REQUIRE").unwrap_or_default();
        assert!(!required.contains("lavapipe"), "{why}");
        eprintln!("skipped: {why}");
    };
    // SAFETY: the loader is loaded as any program does.
    let Ok(entry) = (unsafe { ash::Entry::load() }) else {
        return skipped("there is no Vulkan loader");
    };
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the infos live as long as the call.
    let Ok(instance) = (unsafe { entry.create_instance(&info, None) }) else {
        return skipped("there is no Vulkan driver");
    };
    // SAFETY: the instance is live.
    let devices = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
    let Some(&physical_device) = devices.first() else {
        return skipped("there is no Vulkan driver");
    };
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
    // SAFETY: the infos live as long as the call.
    let device = unsafe { instance.create_device(physical_device, &info, None) }.expect("a device");
    let before = account.usage().total().live_bytes;
    let mut allocator = Allocator::new(&AllocatorCreateDesc {
        instance: instance.clone(),
        device: device.clone(),
        physical_device,
        debug_settings: AllocatorDebugSettings::default(),
        buffer_device_address: false,
        allocation_sizes: AllocationSizes::new(8 << 20, 8 << 20),
    })
    .expect("an allocator");
    let desc = AllocationCreateDesc {
        name: "one of many",
        requirements: vk::MemoryRequirements { size: 256, alignment: 16, memory_type_bits: u32::MAX },
        location: MemoryLocation::GpuOnly,
        linear: true,
        allocation_scheme: AllocationScheme::GpuAllocatorManaged,
    };
    let mut live = Vec::new();
    let refused = loop {
        match allocator.allocate(&desc) {
            Ok(allocation) => live.push(allocation),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, AllocationError::OutOfMemory), "{refused}");
    assert!(live.len() > 100, "{}", live.len());
    let held = account.usage().total().live_bytes - before;
    assert!(held > 32 << 10 && held <= 64 << 10, "{held}");
    for allocation in live {
        allocator.free(allocation).expect("freed");
    }
    allocator.allocate(&desc).map(drop).expect("there is room again");
    drop(allocator);
    assert_eq!(account.usage().total().live_bytes, before);
    // SAFETY: nothing of them is left.
    unsafe { device.destroy_device(None) };
    // SAFETY: its device is gone.
    unsafe { instance.destroy_instance(None) };
}
