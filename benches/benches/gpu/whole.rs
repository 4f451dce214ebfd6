//! Allocators with a driver behind them.

use alloc_core::Context;
use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, AllocatorCreateDesc};
use gpu_suballoc::ash::AshOptions;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, GpuAllocator, MemoryPreference, PropertyFlags, Region, RegionOptions,
    ResourceRequirements,
};
use vk::Handle;
use vk_mem::{Alloc, AllocationCreateInfo, AllocatorCreateInfo};

use super::driver::Driver;
use super::play::Places;

fn requirements(size: u64, alignment: u64, memory_type_bits: u32) -> vk::MemoryRequirements {
    vk::MemoryRequirements { size, alignment, memory_type_bits }
}

/// Ours, its book-keeping in memory of a context.
pub struct Ours<'c> {
    /// `None` once it is closed.
    allocator: Option<GpuAllocator<AshDevice, &'c Context>>,
    options: RegionOptions<'static>,
    memory_type_bits: u32,
}

impl<'c> Ours<'c> {
    pub fn new(driver: &Driver, context: &'c Context) -> Self {
        let options = AshOptions::new(driver.api_version);
        // SAFETY: all four belong together and outlive the bench; nothing is enabled, and no callbacks are passed.
        let device =
            unsafe { AshDevice::new(&driver.entry, &driver.instance, driver.physical, &driver.device, options) };
        // SAFETY: nothing is wrapped, created or used.
        let allocator = unsafe { GpuAllocator::new(device, context, AllocatorOptions::default()) };
        let options = RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL));
        let memory_type_bits = 1 << driver.memory_type().0;
        Self { allocator: Some(allocator.expect("a device that is fine")), options, memory_type_bits }
    }

    #[inline]
    pub fn take_shared(&self, size: u64, align: u64) -> Option<Region> {
        let requirements =
            ResourceRequirements { memory_type_bits: self.memory_type_bits, ..ResourceRequirements::new(size, align) };
        self.allocator().allocate(&requirements, &self.options).ok()
    }

    #[inline]
    pub fn give_shared(&self, piece: Region) {
        self.allocator().free(piece).expect("a live piece");
    }

    #[inline]
    pub fn allocator(&self) -> &GpuAllocator<AshDevice, &'c Context> {
        self.allocator.as_ref().expect("open until it is dropped")
    }
}

impl Places for Ours<'_> {
    type Piece = Region;
    #[inline]
    fn take(&mut self, size: u64, align: u64) -> Option<Region> {
        self.take_shared(size, align)
    }
    #[inline]
    fn give(&mut self, piece: Region) {
        self.give_shared(piece);
    }
    fn place(&self, piece: &Region) -> (u64, u64) {
        (piece.memory().expect("it has memory").as_raw(), piece.offset())
    }
    fn accounts(&self) -> Option<u64> {
        Some(self.allocator().host_bytes())
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        if let Some(allocator) = self.allocator.take() {
            allocator.close().expect("everything was given back");
        }
    }
}

/// VMA as a whole, with its mutexes, as it is by default.
pub struct Vma {
    pub allocator: vk_mem::Allocator,
    memory_type_bits: u32,
}

impl Vma {
    pub fn new(driver: &Driver) -> Self {
        let info = AllocatorCreateInfo::new(&driver.instance, &driver.device, driver.physical);
        // SAFETY: a live device of the instance, both of which outlive the bench.
        let allocator = unsafe { vk_mem::Allocator::new(info) }.expect("memory");
        Self { allocator, memory_type_bits: 1 << driver.memory_type().0 }
    }

    #[inline]
    pub fn take_shared(&self, size: u64, align: u64) -> Option<vk_mem::Allocation> {
        let info = AllocationCreateInfo { required_flags: vk::MemoryPropertyFlags::DEVICE_LOCAL, ..Default::default() };
        let requirements = requirements(size, align, self.memory_type_bits);
        // SAFETY: valid requirements.
        unsafe { self.allocator.allocate_memory(&requirements, &info) }.ok()
    }

    #[inline]
    pub fn give_shared(&self, mut piece: vk_mem::Allocation) {
        // SAFETY: a live piece of this allocator.
        unsafe { self.allocator.free_memory(&mut piece) };
    }
}

impl Places for Vma {
    type Piece = vk_mem::Allocation;
    #[inline]
    fn take(&mut self, size: u64, align: u64) -> Option<Self::Piece> {
        self.take_shared(size, align)
    }
    #[inline]
    fn give(&mut self, piece: Self::Piece) {
        self.give_shared(piece);
    }
    fn place(&self, piece: &Self::Piece) -> (u64, u64) {
        let info = self.allocator.get_allocation_info(piece);
        (info.device_memory.as_raw(), info.offset)
    }
}

/// gpu-allocator, with names and reports as it is by default.
pub struct Traverse {
    allocator: gpu_allocator::vulkan::Allocator,
    memory_type_bits: u32,
}

impl Traverse {
    pub fn new(driver: &Driver) -> Self {
        let mut debug_settings = gpu_allocator::AllocatorDebugSettings::default();
        debug_settings.log_leaks_on_shutdown = false;
        let desc = AllocatorCreateDesc {
            instance: driver.instance.clone(),
            device: driver.device.clone(),
            physical_device: driver.physical,
            debug_settings,
            buffer_device_address: false,
            allocation_sizes: gpu_allocator::AllocationSizes::default(),
        };
        let allocator = gpu_allocator::vulkan::Allocator::new(&desc).expect("memory");
        Self { allocator, memory_type_bits: 1 << driver.memory_type().0 }
    }
}

impl Places for Traverse {
    type Piece = Allocation;
    #[inline]
    fn take(&mut self, size: u64, align: u64) -> Option<Allocation> {
        let desc = AllocationCreateDesc {
            name: "piece",
            requirements: requirements(size, align, self.memory_type_bits),
            location: gpu_allocator::MemoryLocation::GpuOnly,
            linear: true,
            allocation_scheme: AllocationScheme::GpuAllocatorManaged,
        };
        self.allocator.allocate(&desc).ok()
    }
    #[inline]
    fn give(&mut self, piece: Allocation) {
        self.allocator.free(piece).expect("a live piece");
    }
    fn place(&self, piece: &Allocation) -> (u64, u64) {
        // SAFETY: the memory is not freed through the handle.
        (unsafe { piece.memory() }.as_raw(), piece.offset())
    }
}

/// Every piece a memory of its own.
pub struct Raw<'d> {
    driver: &'d Driver,
    memory_type: u32,
}

impl<'d> Raw<'d> {
    pub fn new(driver: &'d Driver) -> Self {
        Self { driver, memory_type: driver.memory_type().0 }
    }
}

impl Places for Raw<'_> {
    type Piece = vk::DeviceMemory;
    #[inline]
    fn take(&mut self, size: u64, _: u64) -> Option<vk::DeviceMemory> {
        let info = vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(self.memory_type);
        // SAFETY: a valid structure; the device has that type.
        unsafe { self.driver.device.allocate_memory(&info, None) }.ok()
    }
    #[inline]
    fn give(&mut self, piece: vk::DeviceMemory) {
        // SAFETY: a live memory of this device, which nothing uses.
        unsafe { self.driver.device.free_memory(piece, None) };
    }
    fn place(&self, piece: &vk::DeviceMemory) -> (u64, u64) {
        (piece.as_raw(), 0)
    }
}
