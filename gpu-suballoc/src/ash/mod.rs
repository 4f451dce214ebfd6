//! The one folder that names ash: a real Vulkan device behind [`DeviceMemory`].
//!
//! ```text
//!   AshDevice -- DeviceCommands   the functions that are called, those later than Vulkan 1.0 by name
//!             |- PhysicalDeviceInfo      types, heaps, limits: asked once
//!             |- callbacks  the application's, passed to every command that has pAllocator
//!   AshContext -- tables loaded once and verified (context) -- LoadedDevice: AshDevice, pipeline cache -- CompiledKernel, in the shader cache
//! ```

mod commands;
#[cfg(feature = "cache")]
mod context;
#[cfg(feature = "cache")]
mod kernel;
mod layout;
mod physical_device;

use core::ffi::CStr;
use core::fmt;
use core::num::NonZeroU64;
use core::ptr::NonNull;

use ash::vk::{self, Handle};

pub use self::physical_device::physical_device_capabilities;
use crate::device::{
    BufferHandle, BufferInfo, DeviceError, DeviceFeatures, DeviceMemory, DeviceProperties, HeapBudget, ImageHandle,
    ImageInfo, MappedRange, MemoryHandle, MemoryRequest, ResourceRequirements,
};
use crate::flags::debug_fields;
use commands::{CommandTables, DeviceCommands, PhysicalDevice2};
#[cfg(feature = "cache")]
pub use context::{AshContext, AshContextInfo, AshContextTable, AshContexts, physical_device_identity};
#[cfg(feature = "cache")]
pub use kernel::{CompiledKernel, KernelInfo, KernelPipeline, LoadedDevice};
use layout::{check, families, new_handle, pointer_to};
use physical_device::PhysicalDeviceInfo;

const RANGES_AT_ONCE: usize = 16;

/// What an application must say of its device, because Vulkan does not tell.
#[derive(Clone, Copy)]
pub struct AshOptions {
    /// The lesser of what `VkApplicationInfo::apiVersion` named and what the physical device supports
    /// (`VK_API_VERSION_*`).
    pub api_version: u32,
    /// The extensions and features that the device was made with.
    pub features: DeviceFeatures,
    /// Passed as `pAllocator` to every command that has it; copied.
    pub callbacks: Option<vk::AllocationCallbacks<'static>>,
}

impl AshOptions {
    /// Without callbacks, and with the features alone that are part of the version.
    #[must_use]
    pub const fn new(api_version: u32) -> Self {
        let core_1_1 = api_version >= vk::API_VERSION_1_1;
        let features = DeviceFeatures {
            dedicated_allocation: core_1_1,
            memory_budget: false,
            memory_priority: false,
            buffer_device_address: false,
            external_memory: core_1_1,
            device_coherent_memory: false,
        };
        Self { api_version, features, callbacks: None }
    }

    /// With callbacks that something lends, a bridge for instance. What they point at must live as long as
    /// [`AshDevice::new`] demands, which is longer than this borrow.
    ///
    /// ```
    ///
    /// # static SYSTEM: alloc_core::FromGlobalAlloc<std::alloc::System> = alloc_core::FromGlobalAlloc::SYSTEM;
    /// # // SAFETY: a static lives for ever.
    /// # let root = unsafe { alloc_core::Context::root(&SYSTEM, alloc_core::ContextOptions::new("application")) }?;
    /// let bridge = vk_callbacks::Bridge::new(root.child("vulkan device")?)?;
    /// let options = gpu_suballoc::ash::AshOptions::new(ash::vk::API_VERSION_1_3).with_callbacks(bridge.callbacks().as_ash());
    /// # assert!(options.callbacks.is_some());
    /// # bridge.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_callbacks(self, callbacks: &vk::AllocationCallbacks<'_>) -> Self {
        let vk::AllocationCallbacks {
            p_user_data,
            pfn_allocation,
            pfn_reallocation,
            pfn_free,
            pfn_internal_allocation,
            pfn_internal_free,
            ..
        } = *callbacks;
        Self {
            callbacks: Some(vk::AllocationCallbacks {
                p_user_data,
                pfn_allocation,
                pfn_reallocation,
                pfn_free,
                pfn_internal_allocation,
                pfn_internal_free,
                ..vk::AllocationCallbacks::default()
            }),
            ..self
        }
    }
}

impl fmt::Debug for AshOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("AshOptions");
        all.field("api_version", &self.api_version).field("features", &self.features);
        all.field("callbacks", &self.callbacks.is_some()).finish()
    }
}

/// A Vulkan device, as far as memory goes. It allocates and owns nothing: neither device nor instance is destroyed with
/// it.
///
/// Works from Vulkan 1.0 on. It uses, where they are there, `vkGet*MemoryRequirements2` (1.1, or
/// `VK_KHR_get_memory_requirements2`), `vkGetPhysicalDevice*2` (1.1, or `VK_KHR_get_physical_device_properties2`) and
/// `vkGetBufferDeviceAddress` (1.2, or `VK_KHR_buffer_device_address`, or `VK_EXT_buffer_device_address`).
///
/// Handles and flags of this crate are ash's by `From`, and back by `From` or, where they may be null, `TryFrom`.
///
/// ```no_run
/// use alloc_core::FromGlobalAlloc;
/// use ash::vk;
/// use gpu_suballoc::{AllocatorOptions, AshDevice, BufferInfo, GpuAllocator, RegionOptions};
/// use gpu_suballoc::ash::AshOptions;
///
/// /// # Safety
/// /// `instance` was made with `entry` for Vulkan 1.3, and `device` of `physical` with it.
/// unsafe fn vertices(
///     entry: &ash::Entry,
///     instance: &ash::Instance,
///     physical: vk::PhysicalDevice,
///     device: &ash::Device,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     // SAFETY: the physical device is the instance's.
///     let version = unsafe { instance.get_physical_device_properties(physical) }.api_version.min(vk::API_VERSION_1_3);
///     // SAFETY: all four belong together and outlive what is made here; the version is true, and no feature is claimed.
///     let ours = unsafe { AshDevice::new(entry, instance, physical, device, AshOptions::new(version)) };
///     // SAFETY: the infos below are valid, and nothing is freed while the device uses it.
///     let gpu = unsafe { GpuAllocator::new(ours, FromGlobalAlloc::SYSTEM, AllocatorOptions::default()) }
///         .map_err(|refused| refused.error)?;
///     let info = BufferInfo::new(65_536, vk::BufferUsageFlags::VERTEX_BUFFER.into());
///     let region = gpu.create_buffer(&info, &RegionOptions::new().name("vertices"))?;
///     let buffer: vk::Buffer = region.buffer().expect("it was made with one").into();
///     let _bound: (vk::Buffer, vk::DeviceSize) = (buffer, region.copy_offset()); // for vkCmdBindVertexBuffers
///     gpu.free(region)?;
///     gpu.close().map_err(|refused| refused.to_string())?;
///     Ok(())
/// }
/// ```
pub struct AshDevice {
    device: vk::Device,
    physical: vk::PhysicalDevice,
    commands: DeviceCommands,
    info: PhysicalDeviceInfo,
    callbacks: Option<vk::AllocationCallbacks<'static>>,
}

debug_fields!([] AshDevice, "AshDevice", |this| device = this.device, physical = this.physical);

impl AshDevice {
    /// What it calls of Vulkan 1.0, by `vkGetInstanceProcAddr`. Ash's tables panic for a command that is not there: ask
    /// for these before, where handles and functions may not belong together.
    pub const INSTANCE_COMMANDS: [&CStr; 2] = commands::OF_INSTANCE;
    /// The same, by `vkGetDeviceProcAddr`.
    pub const DEVICE_COMMANDS: [&CStr; 15] = commands::OF_DEVICE;

    /// Asks for the functions, and for types, heaps and limits.
    ///
    /// A feature of the options whose command the driver does not have is left out of
    /// [`properties`](DeviceMemory::properties).
    ///
    /// # Safety
    /// - `instance` was made with `entry`, `physical` is of it, `device` was made from both; they outlive the value
    ///   that is returned.
    /// - `options` tells the truth: see its fields.
    /// - Callbacks are what Vulkan demands (*Host Memory*), for as long as an object that was made with them lives, and
    ///   compatible with those of what this value destroys and did not create.
    #[must_use]
    pub unsafe fn new(
        entry: &ash::Entry,
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
        options: AshOptions,
    ) -> Self {
        let (loader, version) = (entry.static_fn().get_instance_proc_addr, options.api_version);
        let tables = CommandTables {
            of_instance: instance.fp_v1_0(),
            // SAFETY: the instance is live, of this loader, and of this version (`new`).
            physical_device2: unsafe { PhysicalDevice2::load(loader, instance.handle(), version) },
            device: device.handle(),
            of_device: device.fp_v1_0(),
        };
        // SAFETY: instance, physical device and device belong together, and the options are true (`new`).
        unsafe { Self::of_tables(&tables, physical, options) }
    }

    /// As [`new`](Self::new), without an [`ash::Entry`]. On an instance of Vulkan 1.0 there is no
    /// [`memory_budget`](DeviceFeatures::memory_budget), and no limit later than 1.0.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[must_use]
    pub unsafe fn of_device(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
        options: AshOptions,
    ) -> Self {
        let tables = CommandTables {
            of_instance: instance.fp_v1_0(),
            physical_device2: PhysicalDevice2::of_instance(instance, options.api_version),
            device: device.handle(),
            of_device: device.fp_v1_0(),
        };
        // SAFETY: instance, physical device and device belong together, and the options are true (`of_device`).
        unsafe { Self::of_tables(&tables, physical, options) }
    }

    /// # Safety
    /// As [`new`](Self::new).
    unsafe fn of_tables(tables: &CommandTables<'_>, physical: vk::PhysicalDevice, options: AshOptions) -> Self {
        // SAFETY: instance and device are live and of these tables; version and features are the device's.
        let commands = unsafe { DeviceCommands::load(tables, options.api_version, &options.features) };
        let mut features = options.features;
        features.memory_budget &= commands.physical_device2.memory_properties.is_some();
        features.dedicated_allocation &= commands.requirements2.is_some();
        features.buffer_device_address &= commands.buffer_address.is_some();
        // SAFETY: the physical device is the instance's, and supports the version (`of_tables`).
        let info = unsafe {
            PhysicalDeviceInfo::query(tables.of_instance, &commands, physical, options.api_version, features)
        };
        Self { device: tables.device, physical, commands, info, callbacks: options.callbacks }
    }

    /// # Safety
    /// `info` is valid for the command.
    unsafe fn create<I, V: Handle + Default, H>(
        &self,
        command: unsafe extern "system" fn(
            vk::Device,
            *const I,
            *const vk::AllocationCallbacks<'_>,
            *mut V,
        ) -> vk::Result,
        info: *const I,
        ours: fn(u64) -> Option<H>,
    ) -> Result<H, DeviceError> {
        let mut handle = V::default();
        // SAFETY: the info is valid (`create`); device and callbacks are live (`new`).
        let result = unsafe { command(self.device, info, self.callbacks(), &raw mut handle) };
        new_handle(result, handle, ours)
    }

    /// # Safety
    /// The resource is live, of this device, and named by `info`.
    unsafe fn requirements<V, I>(
        &self,
        command: unsafe extern "system" fn(vk::Device, V, *mut vk::MemoryRequirements),
        resource: V,
        command2: Option<unsafe extern "system" fn(vk::Device, *const I, *mut vk::MemoryRequirements2<'_>)>,
        info: &I,
    ) -> ResourceRequirements {
        let Some(command2) = command2 else {
            let mut core = vk::MemoryRequirements::default();
            // SAFETY: the resource is live and of this device (`requirements`).
            unsafe { command(self.device, resource, &raw mut core) };
            return layout::requirements(&core, None);
        };
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut all = vk::MemoryRequirements2::default();
        let has_dedicated = self.info.features.dedicated_allocation;
        if has_dedicated {
            all.p_next = (&raw mut dedicated).cast();
        }
        // SAFETY: the resource in `info` is live and of this device (`requirements`); the chain holds what is enabled.
        unsafe { command2(self.device, info, &raw mut all) };
        layout::requirements(&all.memory_requirements, has_dedicated.then_some(&dedicated))
    }

    const fn core(&self) -> &ash::DeviceFnV1_0 {
        &self.commands.core
    }

    fn callbacks(&self) -> *const vk::AllocationCallbacks<'static> {
        pointer_to(self.callbacks.as_ref())
    }

    fn ranges(
        &self,
        ranges: &[MappedRange],
        mut command: impl FnMut(&[vk::MappedMemoryRange<'_>]) -> vk::Result,
    ) -> Result<(), DeviceError> {
        let mut raw = [vk::MappedMemoryRange::default(); RANGES_AT_ONCE];
        for some in ranges.chunks(RANGES_AT_ONCE) {
            for (raw, range) in raw.iter_mut().zip(some) {
                *raw =
                    vk::MappedMemoryRange::default().memory(range.memory.into()).offset(range.offset).size(range.size);
            }
            check(command(raw.get(..some.len()).unwrap_or_default()))?;
        }
        Ok(())
    }
}

// SAFETY: the driver's results are passed on; C functions do not unwind into Rust (`extern "system"` aborts instead).
unsafe impl DeviceMemory for AshDevice {
    fn properties(&self) -> DeviceProperties<'_> {
        self.info.properties()
    }

    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
        layout::with_allocate_info(request, |info| {
            // SAFETY: the request names what is live and enabled (`DeviceMemory::allocate`).
            unsafe { self.create(self.core().allocate_memory, info, MemoryHandle::from_raw) }
        })
    }

    unsafe fn free(&self, memory: MemoryHandle) {
        // SAFETY: the memory is live and unused; the callbacks fit those of its creation.
        unsafe { (self.core().free_memory)(self.device, memory.into(), self.callbacks()) }
    }

    unsafe fn map(&self, memory: MemoryHandle, offset: u64, size: u64) -> Result<NonNull<u8>, DeviceError> {
        let mut first = core::ptr::null_mut();
        let (memory, flags) = (memory.into(), vk::MemoryMapFlags::empty());
        let map = self.core().map_memory;
        // SAFETY: the memory is live, host-visible, not mapped, and this thread's alone.
        check(unsafe { map(self.device, memory, offset, size, flags, &raw mut first) })?;
        NonNull::new(first.cast()).ok_or(DeviceError::MapFailed)
    }

    unsafe fn unmap(&self, memory: MemoryHandle) {
        // SAFETY: the memory is live, mapped, and this thread's alone.
        unsafe { (self.core().unmap_memory)(self.device, memory.into()) }
    }

    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        let flush = self.core().flush_mapped_memory_ranges;
        self.ranges(ranges, |raw| {
            // SAFETY: the ranges are mapped, in whole atoms; `raw` has at most `RANGES_AT_ONCE` of them.
            unsafe { flush(self.device, raw.len() as u32, raw.as_ptr()) }
        })
    }

    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        let invalidate = self.core().invalidate_mapped_memory_ranges;
        self.ranges(ranges, |raw| {
            // SAFETY: the ranges are mapped, in whole atoms; `raw` has at most `RANGES_AT_ONCE` of them.
            unsafe { invalidate(self.device, raw.len() as u32, raw.as_ptr()) }
        })
    }

    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        let external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(info.external.into());
        let mut indices = [0; 64];
        let mut raw = vk::BufferCreateInfo::default()
            .flags(vk::BufferCreateFlags::from_raw(info.flags))
            .size(info.size)
            .usage(info.usage.into())
            .sharing_mode(layout::sharing_mode(info.sharing))
            .queue_family_indices(families(info.sharing, &mut indices));
        if !info.external.is_empty() {
            raw.p_next = (&raw const external).cast();
        }
        // SAFETY: the info is valid; `external` and `indices` outlive the call.
        unsafe { self.create(self.core().create_buffer, &raw, BufferHandle::from_raw) }
    }

    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        // SAFETY: the buffer is live and unused; the callbacks fit those of its creation.
        unsafe { (self.core().destroy_buffer)(self.device, buffer.into(), self.callbacks()) }
    }

    unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
        let command = self.core().get_buffer_memory_requirements;
        let command2 = self.commands.requirements2.map(|both| both.buffer);
        let info = vk::BufferMemoryRequirementsInfo2::default().buffer(buffer.into());
        // SAFETY: the buffer is live and of this device.
        unsafe { self.requirements(command, info.buffer, command2, &info) }
    }

    unsafe fn bind_buffer(&self, buffer: BufferHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        let bind = self.core().bind_buffer_memory;
        // SAFETY: both are live, the buffer is not bound, and the place meets its requirements.
        check(unsafe { bind(self.device, buffer.into(), memory.into(), offset) })
    }

    unsafe fn create_image(&self, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
        let external = vk::ExternalMemoryImageCreateInfo::default().handle_types(info.external.into());
        let mut indices = [0; 64];
        let mut raw = layout::image_info(info).queue_family_indices(families(info.sharing, &mut indices));
        if !info.external.is_empty() {
            raw.p_next = (&raw const external).cast();
        }
        // SAFETY: the info is valid; `external` and `indices` outlive the call.
        unsafe { self.create(self.core().create_image, &raw, ImageHandle::from_raw) }
    }

    unsafe fn destroy_image(&self, image: ImageHandle) {
        // SAFETY: the image is live and unused; the callbacks fit those of its creation.
        unsafe { (self.core().destroy_image)(self.device, image.into(), self.callbacks()) }
    }

    unsafe fn image_requirements(&self, image: ImageHandle) -> ResourceRequirements {
        let command = self.core().get_image_memory_requirements;
        let command2 = self.commands.requirements2.map(|both| both.image);
        let info = vk::ImageMemoryRequirementsInfo2::default().image(image.into());
        // SAFETY: the image is live and of this device.
        unsafe { self.requirements(command, info.image, command2, &info) }
    }

    unsafe fn bind_image(&self, image: ImageHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        let bind = self.core().bind_image_memory;
        // SAFETY: both are live, the image is not bound, and the place meets its requirements.
        check(unsafe { bind(self.device, image.into(), memory.into(), offset) })
    }

    unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
        let command = self.commands.buffer_address.filter(|_| self.info.features.buffer_device_address)?;
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer.into());
        // SAFETY: the buffer is live, bound, and made for addresses; the feature is enabled.
        NonZeroU64::new(unsafe { command(self.device, &raw const info) })
    }

    unsafe fn commitment(&self, memory: MemoryHandle) -> Option<u64> {
        let mut bytes = 0;
        let command = self.core().get_device_memory_commitment;
        // SAFETY: the memory is live and lazily allocated.
        unsafe { command(self.device, memory.into(), &raw mut bytes) };
        Some(bytes)
    }

    fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
        let Some(command) =
            self.commands.physical_device2.memory_properties.filter(|_| self.info.features.memory_budget)
        else {
            return false;
        };
        let mut budgets = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budgets);
        // SAFETY: the physical device is `new`'s, and the extension is enabled.
        unsafe { command(self.physical, &raw mut properties) };
        let pairs = budgets.heap_usage.into_iter().zip(budgets.heap_budget);
        for ((heap, (usage, budget)), of) in heaps.iter_mut().zip(pairs).zip(self.info.properties().heaps) {
            // Vulkan allows no budget of 0: the driver did not write one.
            let budget = if budget == 0 { of.size } else { budget };
            *heap = HeapBudget { usage, budget };
        }
        true
    }
}
