//! A program of a thousand frames that forgets one buffer in each: `steward run --stacks` says which, and where it
//! comes from.
//!
//! ```sh
//! cargo build --release
//! target/release/steward run --stacks -- target/release/leaky_frames
//! ```

use std::error::Error;
use std::ffi::CString;

use ash::vk;

fn main() -> Result<(), Box<dyn Error>> {
    run(1000, |_| ())
}

/// Draws so many frames, and calls `after` at the end of each.
pub(crate) fn run(frames: u32, after: impl Fn(u32)) -> Result<(), Box<dyn Error>> {
    // SAFETY: the loader that the system has; nothing else has begun.
    let entry = unsafe { ash::Entry::load() }?;
    let application = vk::ApplicationInfo::default().application_name(c"leaky_frames");
    let extensions = [vk::EXT_DEBUG_UTILS_NAME.as_ptr()];
    let info = vk::InstanceCreateInfo::default().application_info(&application).enabled_extension_names(&extensions);
    // SAFETY: a whole info, and no callbacks.
    let instance = unsafe { entry.create_instance(&info, None) }?;
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&priorities)];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    // SAFETY: a live instance.
    let devices = unsafe { instance.enumerate_physical_devices() }?;
    let physical_device = devices.first().ok_or("there is no device")?;
    // SAFETY: a device of this instance; every device has a first queue family.
    let device = unsafe { instance.create_device(*physical_device, &info, None) }?;
    let renderer = Renderer {
        names: ash::ext::debug_utils::Device::new(&instance, &device),
        // SAFETY: the queue that was asked for.
        queue: unsafe { device.get_device_queue(0, 0) },
        device,
    };
    for frame in 0..frames {
        renderer.draw(frame)?;
        after(frame);
    }
    // SAFETY: nothing runs on it.
    unsafe { renderer.device.destroy_device(None) };
    // SAFETY: its device is gone.
    unsafe { instance.destroy_instance(None) };
    Ok(())
}

struct Renderer {
    names: ash::ext::debug_utils::Device,
    queue: vk::Queue,
    device: ash::Device,
}

impl Renderer {
    fn draw(&self, frame: u32) -> Result<(), Box<dyn Error>> {
        let uniforms = self.create_buffer(256)?;
        self.upload_vertices(frame)?;
        // SAFETY: a queue of the device, and nothing to do.
        unsafe { self.device.queue_submit(self.queue, &[], vk::Fence::null()) }?;
        // SAFETY: created above, and used by nobody.
        unsafe { self.device.destroy_buffer(uniforms, None) };
        Ok(())
    }

    /// The mistake: nobody destroys this buffer.
    fn upload_vertices(&self, frame: u32) -> Result<(), Box<dyn Error>> {
        let vertices = self.create_buffer(4096)?;
        let name = CString::new(format!("vertices of frame {frame}"))?;
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(vertices).object_name(&name);
        // SAFETY: a live buffer, which only this thread uses.
        unsafe { self.names.set_debug_utils_object_name(&info) }?;
        Ok(())
    }

    fn create_buffer(&self, size: u64) -> Result<vk::Buffer, vk::Result> {
        let info = vk::BufferCreateInfo::default().size(size).usage(vk::BufferUsageFlags::VERTEX_BUFFER);
        // SAFETY: a whole info, and no callbacks.
        unsafe { self.device.create_buffer(&info, None) }
    }
}
