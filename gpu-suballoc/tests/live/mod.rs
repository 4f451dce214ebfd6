//! A real device for tests: the first one that the loader shows, whichever it is.

mod callbacks;
mod imports;

use crate::*;

pub use callbacks::{CALLBACKS, in_command, live_blocks, refuse, requests, taken_blocks};
pub use imports::imported;

/// What ends before the instance does, whether it had a device or not.
pub type Between = Option<Box<dyn FnOnce() + Send + Sync>>;

/// Instance, device and one queue that can copy. Destroyed with the value.
pub struct Live {
    pub name: String,
    pub driver: String,
    pub options: AshOptions,
    /// Whether memory can be given away and taken as file descriptors.
    pub has_memory_fd: bool,
    pub physical: vk::PhysicalDevice,
    pub instance: ash::Instance,
    pub device: ash::Device,
    queue: vk::Queue,
    family: u32,
    pub entry: ash::Entry,
    /// The device's.
    callbacks: Option<&'static vk::AllocationCallbacks<'static>>,
    /// Called when the device went, while the instance is there.
    between: Between,
}

impl Live {
    /// The first device, with everything switched on that an [`AshDevice`] can use; or why there is none.
    pub fn open() -> Result<Self, String> {
        Self::made_with(None, |_| true)
    }

    /// The first device of a driver, by its name, with callbacks for the device.
    pub fn made_with(
        callbacks: Option<&'static vk::AllocationCallbacks<'static>>,
        which: impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        let (entry, version) = loader()?;
        let application = vk::ApplicationInfo::default().application_name(c"gpu-suballoc tests").api_version(version);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: a valid info; destroyed with the value.
        let instance =
            unsafe { entry.create_instance(&info, None) }.map_err(|result| format!("no driver: {result:?}"))?;
        Self::on(&entry, instance, (version, callbacks), None, which)
    }

    /// The same on an instance of this version, which is the value's from now on, and with these callbacks for the
    /// device. `between` is called when the device went, or when there is none.
    pub fn on(
        entry: &ash::Entry,
        instance: ash::Instance,
        how: (u32, Option<&'static vk::AllocationCallbacks<'static>>),
        between: Between,
        which: impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        match Self::device_of(entry, &instance, how, which) {
            Ok(mut live) => {
                live.between = between;
                Ok(live)
            }
            Err(absent) => {
                if let Some(between) = between {
                    between();
                }
                // SAFETY: the caller's gift; nothing of it is left.
                unsafe { instance.destroy_instance(None) };
                Err(absent)
            }
        }
    }

    fn device_of(
        entry: &ash::Entry,
        instance: &ash::Instance,
        (version, callbacks): (u32, Option<&'static vk::AllocationCallbacks<'static>>),
        which: impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        // SAFETY: a live instance.
        let devices =
            unsafe { instance.enumerate_physical_devices() }.map_err(|result| format!("no device: {result:?}"))?;
        let told_version = |physical| {
            // SAFETY: of the instance.
            version.min(unsafe { instance.get_physical_device_properties(physical) }.api_version)
        };
        let mut devices = devices.into_iter();
        let physical = devices.find(|physical| which(&driver_of(instance, *physical, told_version(*physical))));
        let physical = physical.ok_or("the drivers show no such device")?;
        // SAFETY: of the instance, here and below.
        let told = unsafe { instance.get_physical_device_properties(physical) };
        let version = version.min(told.api_version);
        // SAFETY: of the instance, which lives.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let copies = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER;
        let family =
            families.iter().position(|family| family.queue_flags.intersects(copies)).ok_or("no queue copies")?;
        let family = u32::try_from(family).map_err(|_| "too many queue families")?;
        // SAFETY: of the instance, which lives.
        let extensions = unsafe { instance.enumerate_device_extension_properties(physical) }.unwrap_or_default();
        let has = |name: &CStr| extensions.iter().any(|one| one.extension_name_as_c_str() == Ok(name));
        let newer = version >= vk::API_VERSION_1_1;
        let (budget, has_memory_fd) =
            (newer && has(ash::ext::memory_budget::NAME), newer && has(ash::khr::external_memory_fd::NAME));

        let mut one_2 = vk::PhysicalDeviceVulkan12Features::default();
        if version >= vk::API_VERSION_1_2 {
            let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut one_2);
            // SAFETY: the chain holds what the version knows.
            unsafe { instance.get_physical_device_features2(physical, &mut all) };
        }
        let address = one_2.buffer_device_address == vk::TRUE;
        let mut one_2 = vk::PhysicalDeviceVulkan12Features::default().buffer_device_address(address);
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities)];
        let names = Vec::from_iter(
            [(budget, ash::ext::memory_budget::NAME), (has_memory_fd, ash::khr::external_memory_fd::NAME)]
                .into_iter()
                .filter_map(|(wanted, name)| wanted.then_some(name.as_ptr())),
        );
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
        info = if address { info.push_next(&mut one_2) } else { info };
        // SAFETY: a valid info with what the device has; destroyed in `drop`.
        let device = unsafe { instance.create_device(physical, &info, callbacks) }
            .map_err(|result| format!("no device: {result:?}"))?;
        // SAFETY: the family was asked for above, with one queue.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let mut options = AshOptions::new(version);
        options.features = DeviceFeatures { memory_budget: budget, buffer_device_address: address, ..options.features };
        Ok(Self {
            name: told.device_name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            driver: driver_of(instance, physical, version),
            options,
            has_memory_fd,
            physical,
            instance: instance.clone(),
            device,
            queue,
            family,
            entry: entry.clone(),
            callbacks,
            between: None,
        })
    }

    /// Mesa's software driver.
    pub fn is_lavapipe(&self) -> bool {
        self.driver == "llvmpipe"
    }

    /// The device as the allocator sees it.
    pub fn ash(&self, options: AshOptions) -> AshDevice {
        // SAFETY: all of one another, and alive while `self` is, which every test outlives its devices with; the
        // options are what the device was made with, or less.
        unsafe { AshDevice::new(&self.entry, &self.instance, self.physical, &self.device, options) }
    }

    /// Copies on the queue, one after the other, and waits: what the host flushed before is seen, what was written can
    /// be invalidated.
    pub fn copy(&self, copies: &[(BufferHandle, u64, BufferHandle, u64, u64)]) {
        self.submit(|commands| {
            let everything = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
            let barrier = |target: vk::AccessFlags, stage| {
                let barriers = [vk::MemoryBarrier::default().src_access_mask(everything).dst_access_mask(target)];
                let all = vk::PipelineStageFlags::ALL_COMMANDS;
                let none = vk::DependencyFlags::empty();
                // SAFETY: recording.
                unsafe { self.device.cmd_pipeline_barrier(commands, all, stage, none, &barriers, &[], &[]) };
            };
            for (source, from, target, to, size) in copies {
                let [source, target] = [source, target].map(|buffer| vk::Handle::from_raw(buffer.as_raw()));
                let region = [vk::BufferCopy { src_offset: *from, dst_offset: *to, size: *size }];
                // SAFETY: recording; the test's buffers live, and are large enough.
                unsafe { self.device.cmd_copy_buffer(commands, source, target, &region) };
                barrier(everything, vk::PipelineStageFlags::ALL_COMMANDS);
            }
            barrier(vk::AccessFlags::HOST_READ, vk::PipelineStageFlags::HOST);
        });
    }

    /// Records and runs commands, and waits.
    pub fn submit(&self, record: impl FnOnce(vk::CommandBuffer)) {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.family);
        // SAFETY: of the device, destroyed below.
        let pool = unsafe { self.device.create_command_pool(&info, None) }.unwrap();
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: of the pool, and freed with it.
        let commands = unsafe { self.device.allocate_command_buffers(&info) }.unwrap()[0];
        let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: just made.
        unsafe { self.device.begin_command_buffer(commands, &once) }.unwrap();
        record(commands);
        // SAFETY: recording ends.
        unsafe { self.device.end_command_buffer(commands) }.unwrap();
        let all = [commands];
        let submit = [vk::SubmitInfo::default().command_buffers(&all)];
        // SAFETY: one thread uses the queue at a time: the tests run one after the other.
        unsafe { self.device.queue_submit(self.queue, &submit, vk::Fence::null()) }.unwrap();
        // SAFETY: one thread uses the queue at a time: the tests run one after the other.
        unsafe { self.device.queue_wait_idle(self.queue) }.unwrap();
        // SAFETY: nothing of the pool is in use any more.
        unsafe { self.device.destroy_command_pool(pool, None) };
    }
}

/// The loader, and the version of an instance of it.
pub fn loader() -> Result<(ash::Entry, u32), String> {
    // SAFETY: opening the loader runs its initialisers, which is what a Vulkan program asks for.
    let entry = unsafe { ash::Entry::load() }.map_err(|error| format!("no Vulkan loader: {error}"))?;
    // SAFETY: a function of the loader without conditions.
    let version = unsafe { entry.try_enumerate_instance_version() }.ok().flatten().unwrap_or(vk::API_VERSION_1_0);
    Ok((entry, version.min(vk::API_VERSION_1_3)))
}

fn driver_of(instance: &ash::Instance, physical: vk::PhysicalDevice, version: u32) -> String {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    if version >= vk::API_VERSION_1_2 {
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: of the instance; driver properties are part of the version.
        unsafe { instance.get_physical_device_properties2(physical, &mut all) };
    }
    driver.driver_name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Drop for Live {
    fn drop(&mut self) {
        // SAFETY: nothing of the device is in use: every copy was waited for.
        unsafe { self.device.destroy_device(self.callbacks) };
        if let Some(between) = self.between.take() {
            between();
        }
        // SAFETY: its only device went.
        unsafe { self.instance.destroy_instance(None) };
    }
}

/// Whether the words of the command line, of which a part of the name is one, ask for the test. Where they ask for a
/// list, it is named.
pub fn is_selected(name: &str) -> bool {
    if std::env::args().any(|word| word == "--list") {
        println!("{name}: test");
        return false;
    }
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

/// Runs tests one after the other, each on a device of its own; words of the command line select by part of the name.
/// What they answered, of those that ran.
pub fn run<T: Copy, R>(tests: &[(&str, T)], body: impl Fn(T, &Live) -> R) -> Vec<R> {
    let mut answers = Vec::new();
    for (name, test) in tests {
        if !is_selected(name) {
            continue;
        }
        match Live::open() {
            Err(reason) => testkit::skip("lavapipe", name, &reason),
            Ok(live) => {
                println!("test {name} on {} ({})", live.name, live.driver);
                answers.push(body(*test, &live));
                println!("test {name} ... ok");
            }
        }
    }
    answers
}
