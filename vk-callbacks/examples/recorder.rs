//! Records what a Vulkan driver asks of a program's callbacks, and writes it as a trace: `steward replay` and `steward
//! check --trace` read it on any machine, without the driver.
//!
//! ```text
//!  driver -> Tap "VkInstance" -> Bridge -> Context "instance"
//!            Tap "VkDevice"   -> Bridge -> Context "device"
//! ```
//!
//! `cargo run -p vk-callbacks --example recorder -- my.trace`; prints `SKIPPED` where there is no driver.

use std::error::Error;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, HostAllocator};
use ash::vk::{self, Handle as _};
use vk_callbacks::recorder::Tap;
use vk_callbacks::{Bridge, Recorder, TraceReader};

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

/// The numbers of the two owners in the trace.
const INSTANCE: u64 = 1;
const DEVICE: u64 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: opening the loader runs its initialisers, as in any Vulkan program.
    let entry = match unsafe { ash::Entry::load() } {
        Ok(entry) => entry,
        Err(error) => {
            println!("SKIPPED: no Vulkan loader: {error}");
            return Ok(());
        }
    };
    let root = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
    let instance = Bridge::new(root.child("instance")?)?;
    let device = Bridge::new(root.child("device")?)?;

    // The log's memory is not the callbacks': the recorder would record itself.
    let log: &(dyn HostAllocator + Sync) = &SYSTEM;
    let recorder = Recorder::new(log)?;
    recorder.owner(INSTANCE, 0, "VkInstance");
    recorder.owner(DEVICE, INSTANCE, "VkDevice");
    // SAFETY: the bridge outlives the recorder's use, and no callback comes after `close` below.
    let instance_tap = unsafe { recorder.tap(INSTANCE, instance.raw()) }?;
    // SAFETY: as above.
    let device_tap = unsafe { recorder.tap(DEVICE, device.raw()) }?;

    recorder.phase("start");
    if let Err(result) = run(&entry, &recorder, &instance_tap, &device_tap) {
        println!("SKIPPED: no Vulkan driver: {result:?}");
    } else {
        let mut trace = String::new();
        let written = recorder.write("the driver of my machine", &mut trace)?;
        let calls = TraceReader::new(&trace)?.count();
        println!("{} events in {} lines, {} lost; {calls} were read back", written.events, written.lines, written.lost);
        if let Some(file) = std::env::args_os().nth(1) {
            std::fs::write(&file, trace)?;
            println!("wrote {0}: steward replay {0}", file.display());
        }
    }
    recorder.close().map_err(|rejected| rejected.to_string())?; // an error while the driver holds a block
    for bridge in [device, instance] {
        bridge.close()?;
    }
    root.close_root()?;
    Ok(())
}

/// A program: an instance, a device, a buffer. Each command is bracketed, so that the trace names the command of each
/// call.
fn run(entry: &ash::Entry, recorder: &Recorder<'_>, instance_tap: &Tap, device_tap: &Tap) -> Result<(), vk::Result> {
    let info = vk::InstanceCreateInfo::default();
    let instance = bracket(recorder, INSTANCE, "vkCreateInstance", || {
        // SAFETY: a valid info; the tap's callbacks outlive the instance.
        unsafe { entry.create_instance(&info, Some(instance_tap.raw().as_ash())) }
    })?;
    recorder.created(INSTANCE, instance.handle().as_raw(), "VkInstance");
    let ran = with_device(&instance, recorder, device_tap);
    recorder.enter_for(INSTANCE, "vkDestroyInstance");
    // SAFETY: its device is gone.
    unsafe { instance.destroy_instance(Some(instance_tap.raw().as_ash())) };
    recorder.destroyed(INSTANCE, instance.handle().as_raw(), "VkInstance");
    recorder.leave(0);
    ran
}

fn with_device(instance: &ash::Instance, recorder: &Recorder<'_>, tap: &Tap) -> Result<(), vk::Result> {
    let callbacks = Some(tap.raw().as_ash());
    let devices = bracket(recorder, INSTANCE, "vkEnumeratePhysicalDevices", || {
        // SAFETY: a live instance.
        unsafe { instance.enumerate_physical_devices() }
    })?;
    let physical = *devices.first().ok_or(vk::Result::ERROR_INITIALIZATION_FAILED)?;
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    let device = bracket(recorder, DEVICE, "vkCreateDevice", || {
        // SAFETY: a valid info; every device has a first queue family; the tap's callbacks outlive the device.
        unsafe { instance.create_device(physical, &info, callbacks) }
    })?;
    recorder.created(DEVICE, device.handle().as_raw(), "VkDevice");

    recorder.phase("use");
    let info = vk::BufferCreateInfo::default().size(4096).usage(vk::BufferUsageFlags::TRANSFER_SRC);
    let made = bracket(recorder, DEVICE, "vkCreateBuffer", || {
        // SAFETY: a valid info.
        unsafe { device.create_buffer(&info, callbacks) }
    });
    if let Ok(buffer) = made {
        recorder.created(DEVICE, buffer.as_raw(), "VkBuffer");
        recorder.enter_for(DEVICE, "vkDestroyBuffer");
        // SAFETY: made above, and not in use.
        unsafe { device.destroy_buffer(buffer, callbacks) };
        recorder.destroyed(DEVICE, buffer.as_raw(), "VkBuffer");
        recorder.leave(0);
    }

    recorder.phase("end");
    recorder.enter_for(DEVICE, "vkDestroyDevice");
    // SAFETY: nothing of it is left.
    unsafe { device.destroy_device(callbacks) };
    recorder.destroyed(DEVICE, device.handle().as_raw(), "VkDevice");
    recorder.leave(0);
    made.map(drop)
}

fn bracket<T>(
    recorder: &Recorder<'_>,
    owner: u64,
    command: &'static str,
    call: impl FnOnce() -> Result<T, vk::Result>,
) -> Result<T, vk::Result> {
    recorder.enter_for(owner, command);
    let answer = call();
    let result = answer.as_ref().err().copied().unwrap_or(vk::Result::SUCCESS);
    recorder.leave(result.as_raw());
    answer
}
