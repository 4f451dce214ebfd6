//! An application with ash whose host and device memory are both in one tree: the driver's, through callbacks, and the
//! sub-allocator's own.
//!
//! ```text
//!  application
//!    +-- vulkan
//!    |     +-- instance        Bridge -> pAllocator of vkCreateInstance
//!    |     +-- device          Bridge -> pAllocator of vkCreateDevice, and of every buffer and memory object
//!    +-- gpu-suballoc          the sub-allocator's tables
//! ```
//!
//! `cargo run -p gpu-suballoc --example tracked_application`; prints `SKIPPED` where there is no driver.

use std::error::Error;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
use ash::vk;
use gpu_suballoc::ash::AshOptions;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BufferInfo, BufferUsage, GpuAllocator, Lifetime, MemoryPreference, PropertyFlags,
    RegionOptions,
};
use vk_callbacks::Bridge;

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

const VERSION: u32 = vk::API_VERSION_1_1;

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: opening the loader runs its initialisers, which is what a Vulkan program asks for.
    let entry = match unsafe { ash::Entry::load() } {
        Ok(entry) => entry,
        Err(error) => {
            println!("SKIPPED: no Vulkan loader: {error}");
            return Ok(());
        }
    };
    let root = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
    let vulkan = root.child("vulkan")?;
    // A bridge that is dropped too early would say so here; `close` below is the way to end one.
    let of_instance = Bridge::new(vulkan.child("instance")?)?.with_leak_listener(|leaked| eprintln!("{leaked}"));
    let of_device = Bridge::new(vulkan.child("device")?)?.with_leak_listener(|leaked| eprintln!("{leaked}"));

    let application = vk::ApplicationInfo::default().api_version(VERSION);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    let (instance_callbacks, device_callbacks) = (of_instance.callbacks(), of_device.callbacks());
    // SAFETY: a valid info; the bridge outlives the instance.
    let made = unsafe { entry.create_instance(&info, Some(instance_callbacks.as_ash())) };
    let ran = made.map_err(|result| format!("no Vulkan driver: {result:?}"));
    let ran = ran.and_then(|instance| {
        let ran = with_instance(&entry, &instance, &root, device_callbacks.as_ash());
        // SAFETY: its device is gone; the callbacks are those it was created with.
        unsafe { instance.destroy_instance(Some(instance_callbacks.as_ash())) };
        ran
    });
    match ran {
        Ok(()) => println!("nothing is left"),
        Err(reason) => println!("SKIPPED: {reason}"),
    }
    // Errors, with the bridge and what is live by scope, if the driver has not given everything back.
    of_device.close()?;
    of_instance.close()?;
    drop(vulkan);
    root.close_root()?;
    Ok(())
}

fn with_instance(
    entry: &ash::Entry,
    instance: &ash::Instance,
    root: &Context,
    callbacks: &vk::AllocationCallbacks<'_>,
) -> Result<(), String> {
    // SAFETY: a live instance.
    let devices = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
    let physical = *devices.first().ok_or("no Vulkan device")?;
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    // SAFETY: a valid info; every device has a first queue family; the bridge outlives the device.
    let device = unsafe { instance.create_device(physical, &info, Some(callbacks)) }
        .map_err(|result| format!("no device: {result:?}"))?;

    // The sub-allocator passes the same callbacks to vkAllocateMemory, vkCreateBuffer and their kin.
    let options = AshOptions::new(VERSION).with_callbacks(callbacks);
    // SAFETY: all of one another, and live until the allocator is closed; no feature is claimed.
    let memory = unsafe { AshDevice::new(entry, instance, physical, &device, options) };
    let used = use_memory(memory, root).map_err(|error| error.to_string());
    // SAFETY: nothing of it is left, or the process ends with an error.
    unsafe { device.destroy_device(Some(callbacks)) };
    used
}

fn use_memory(memory: AshDevice, root: &Context) -> Result<(), Box<dyn Error>> {
    let tables = root.child("gpu-suballoc")?;
    // SAFETY: infos are valid for the device, and nothing is freed while the device uses it.
    let made = unsafe { GpuAllocator::new(&memory, tables.handle(), AllocatorOptions::default()) };
    let gpu = made.map_err(|refused| refused.error)?;

    let visible = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE);
    let uploads = RegionOptions::new().preference(visible).lifetime(Lifetime::Transient);
    let staging =
        gpu.create_buffer(&BufferInfo::new(256 << 10, BufferUsage::TRANSFER_SRC), &uploads.name("staging"))?;
    let vertices = gpu
        .create_buffer(&BufferInfo::new(1 << 20, BufferUsage::VERTEX_BUFFER), &RegionOptions::new().name("vertices"))?;

    println!("{}", root.snapshot()?); // host memory, a row a context
    println!("{}", gpu.stats()); // device memory, a row a heap and a pool
    for region in gpu.memory_map()?.leaks() {
        println!("{region}"); // what lives, and where
    }

    for region in [staging, vertices] {
        gpu.free(region)?;
    }
    gpu.close().map_err(|refused| refused.to_string())?; // an error, with the allocator, while anything is left
    Ok(())
}
