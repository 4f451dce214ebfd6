//! A Vulkan device with one queue, for the examples: the first that the loader shows.
#![allow(dead_code, reason = "no example needs all of it")]

use std::error::Error;

use alloc_core::{ContextHandle, HostAllocator};
use ash::vk;
use gpu_suballoc::ash::{AshContextInfo, AshOptions};
use gpu_suballoc::{AllocatorOptions, AshDevice, DeviceMemory, GpuAllocator};

pub(crate) type Failure = Box<dyn Error>;

pub(crate) struct Gpu {
    entry: ash::Entry,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    pub(crate) queue: vk::Queue,
    pub(crate) pool: vk::CommandPool,
    pub(crate) name: String,
    options: AshOptions,
}

/// Runs an example, or says why it is skipped.
pub(crate) fn run(example: fn(&Gpu) -> Result<(), Failure>) -> Result<(), Failure> {
    match Gpu::open() {
        Ok(gpu) => {
            println!("on {}", gpu.name);
            example(&gpu)
        }
        Err(reason) => {
            println!("SKIPPED: {reason}");
            Ok(())
        }
    }
}

/// Prints what there is in device memory: totals, then each region by name.
pub(crate) fn print_report<D: DeviceMemory, A: HostAllocator + Clone>(
    moment: &str,
    memory: &GpuAllocator<D, A>,
) -> Result<(), Failure> {
    println!("\n{moment}:\n{}", memory.stats());
    for region in memory.memory_map()?.leaks() {
        println!("{region}");
    }
    Ok(())
}

impl Gpu {
    fn open() -> Result<Self, String> {
        // SAFETY: opening the loader runs its initialisers, which is what a Vulkan program asks for.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| format!("no Vulkan loader: {error}"))?;
        let version = vk::API_VERSION_1_1;
        let application = vk::ApplicationInfo::default().api_version(version);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: a valid info; destroyed in `drop`.
        let instance =
            unsafe { entry.create_instance(&info, None) }.map_err(|result| format!("no Vulkan driver: {result:?}"))?;
        // SAFETY: a live instance.
        let devices = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
        let opened = devices
            .first()
            .ok_or_else(|| "no Vulkan device".to_owned())
            .and_then(|physical| Self::device_of(&entry, &instance, *physical, version));
        if opened.is_err() {
            // SAFETY: nothing was made of it.
            unsafe { instance.destroy_instance(None) };
        }
        opened
    }

    fn device_of(
        entry: &ash::Entry,
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        version: u32,
    ) -> Result<Self, String> {
        let family = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        // SAFETY: a device of the instance.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let family = (0u32..)
            .zip(&families)
            .find(|(_, one)| one.queue_flags.intersects(family))
            .ok_or("no queue for graphics or compute")?
            .0;
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // SAFETY: a valid info; destroyed in `drop`.
        let device = unsafe { instance.create_device(physical, &info, None) }
            .map_err(|result| format!("no device: {result:?}"))?;
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: a valid info; destroyed in `drop`.
        let pool = match unsafe { device.create_command_pool(&info, None) } {
            Ok(pool) => pool,
            Err(result) => {
                // SAFETY: nothing was made of it.
                unsafe { device.destroy_device(None) };
                return Err(format!("no command pool: {result:?}"));
            }
        };
        // SAFETY: a device of the instance.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        Ok(Self {
            entry: entry.clone(),
            instance: instance.clone(),
            physical,
            // SAFETY: the family was asked for above, with one queue.
            queue: unsafe { device.get_device_queue(family, 0) },
            device,
            pool,
            name: properties.device_name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            options: AshOptions::new(version.min(properties.api_version)),
        })
    }

    /// The device as an allocator sees it.
    pub(crate) fn memory(&self) -> AshDevice {
        // SAFETY: all of one another; the examples end their allocators before `self`, and no feature is claimed.
        unsafe { AshDevice::new(&self.entry, &self.instance, self.physical, &self.device, self.options) }
    }

    /// A command buffer, which goes with the pool.
    pub(crate) fn command_buffer(&self) -> Result<vk::CommandBuffer, Failure> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        // SAFETY: a pool of the device.
        let buffers = unsafe { self.device.allocate_command_buffers(&info) }?;
        Ok(buffers.into_iter().next().ok_or("no command buffer")?)
    }

    /// Records commands into a buffer that the device does not use, and submits them; `fence` is signalled when they
    /// are done.
    pub(crate) fn submit(
        &self,
        commands: vk::CommandBuffer,
        fence: vk::Fence,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<(), Failure> {
        let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the caller's, not in use.
        unsafe { self.device.begin_command_buffer(commands, &once) }?;
        record(&self.device, commands);
        // SAFETY: it is being recorded.
        unsafe { self.device.end_command_buffer(commands) }?;
        let buffers = [commands];
        let info = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: recorded above; the fence is not in use.
        unsafe { self.device.queue_submit(self.queue, &info, fence) }?;
        Ok(())
    }

    /// As [`submit`](Self::submit), and waits until the device is done.
    pub(crate) fn run(&self, record: impl FnOnce(&ash::Device, vk::CommandBuffer)) -> Result<(), Failure> {
        let commands = self.command_buffer()?;
        self.submit(commands, vk::Fence::null(), record)?;
        // SAFETY: one thread uses the queue.
        unsafe { self.device.queue_wait_idle(self.queue) }?;
        // SAFETY: the device is done with it.
        unsafe { self.device.free_command_buffers(self.pool, &[commands]) };
        Ok(())
    }

    /// What a context on the device is made of; its tables lie in `memory`.
    pub(crate) fn context(&self, memory: ContextHandle) -> AshContextInfo<'static> {
        AshContextInfo {
            get_instance_proc_addr: self.entry.static_fn().get_instance_proc_addr,
            instance: self.instance.handle(),
            physical_device: self.physical,
            device: self.device.handle(),
            options: self.options,
            allocator: AllocatorOptions::default(),
            memory,
            pipeline_cache_data: &[],
        }
    }

    /// All types that there are.
    pub(crate) fn memory_properties(&self) -> vk::PhysicalDeviceMemoryProperties {
        // SAFETY: a device of the instance.
        unsafe { self.instance.get_physical_device_memory_properties(self.physical) }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: its buffers are done: every example waits.
        unsafe { self.device.destroy_command_pool(self.pool, None) };
        // SAFETY: the examples have destroyed what they made.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: as above.
        unsafe { self.instance.destroy_instance(None) };
    }
}
