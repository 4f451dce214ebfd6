//! A buffer that another library made: wrapped, cropped to a part of an image's rows, copied from on the device, and handed back.
//!
//! ```text
//!   the library's VkBuffer:  | .. header .. | row 0 | row 1 | .. | row 63 |
//!   wrapped region:                         |------------- rows ----------|
//!   crop of it:                                     |- rows 8 to 15 -|
//!   crop of the crop:                                  |- row 10 -|            offsets add up
//! ```
//!
//! `cargo run -p gpu-suballoc --example wrap_and_crop`; prints `SKIPPED` where there is no driver.

mod support;

use alloc_core::FromGlobalAlloc;
use ash::vk;
use gpu_suballoc::allocator::{Backing, WrapInfo};
use gpu_suballoc::device::{BufferHandle, MemoryHandle};
use gpu_suballoc::{
    AllocatorOptions, BufferInfo, GpuAllocator, GpuMisuse, MemoryPreference, PropertyFlags,
    RegionOptions,
};
use support::{Failure, Gpu};

const HEADER: u64 = 1024;
const ROW: u64 = 256;
const ROWS: u64 = 64;
const SIZE: u64 = HEADER + ROW * ROWS;

/// What the other library owns: it made the buffer and its memory, and destroys both.
struct Library<'g> {
    gpu: &'g Gpu,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    memory_size: u64,
    properties: vk::MemoryPropertyFlags,
}

fn main() -> Result<(), Failure> {
    support::run(wrap_and_crop)
}

fn wrap_and_crop(gpu: &Gpu) -> Result<(), Failure> {
    let library = Library::new(gpu)?;
    // SAFETY: infos are valid, the wrapped buffer outlives its region, and nothing is given back while the device uses it.
    let memory = unsafe {
        GpuAllocator::new(
            gpu.memory(),
            FromGlobalAlloc::SYSTEM,
            AllocatorOptions::default(),
        )
    }
    .map_err(|refused| refused.error)?;

    let handle = BufferHandle::try_from(library.buffer).map_err(|_| "a buffer")?;
    let backing = Backing {
        memory: MemoryHandle::try_from(library.memory).map_err(|_| "memory")?,
        offset: 0,
        memory_size: library.memory_size,
        properties: PropertyFlags::from_raw(library.properties.as_raw()),
        mapped: None,
    };
    let rows = memory.wrap(
        &WrapInfo::new(handle, ROW * ROWS)
            .offset(HEADER)
            .buffer_size(SIZE)
            .backing(backing)
            .name("the library's rows"),
    )?;
    // The host writes each row's number into it, through a mapping of memory that the library allocated.
    let mapping = memory.map(&rows)?;
    for byte in 0..mapping.len() {
        // SAFETY: within the mapping, and the device does not use it yet.
        unsafe {
            mapping
                .as_ptr()
                .wrapping_add(byte)
                .write((byte as u64 / ROW) as u8)
        };
    }
    drop(mapping);

    let some = memory.crop(&rows, 8 * ROW, 8 * ROW, 4)?;
    let row_10 = memory.crop(&some, 2 * ROW, ROW, 4)?;
    println!(
        "row 10 begins at byte {} of the library's buffer",
        row_10.copy_offset()
    );
    assert_eq!(row_10.copy_offset(), HEADER + 10 * ROW);
    let Err(refused) = memory.detach(rows) else {
        return Err("it has crops, and is not to be detached".into());
    };
    println!("detaching it now is refused: {refused}");
    assert_eq!(refused.error, GpuMisuse::HasCrops.into());
    let rows = refused.value;

    let host =
        MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT);
    let ours = memory.create_buffer(
        &BufferInfo::new(ROW, vk::BufferUsageFlags::TRANSFER_DST.into()),
        &RegionOptions::new().preference(host).name("our copy"),
    )?;
    let [from, to]: [Option<vk::Buffer>; 2] =
        [&row_10, &ours].map(|region| region.buffer().map(Into::into));
    let (from, to) = (from.ok_or("a buffer")?, to.ok_or("a buffer")?);
    let copy = [vk::BufferCopy {
        src_offset: row_10.copy_offset(),
        dst_offset: ours.copy_offset(),
        size: ROW,
    }];
    gpu.run(|device, commands| {
        // SAFETY: both buffers live, and the ranges lie within.
        unsafe { device.cmd_copy_buffer(commands, from, to, &copy) };
    })?;
    let mapping = memory.map(&ours)?;
    for byte in 0..ROW as usize {
        // SAFETY: within the mapping; the device is done.
        assert_eq!(unsafe { mapping.as_ptr().wrapping_add(byte).read() }, 10);
    }
    drop(mapping);
    println!("the device copied {ROW} bytes of row 10");

    support::print_report("with the wrapped buffer and its crops", &memory)?;
    memory.free(ours)?;
    memory.free(row_10)?;
    memory.free(some)?;
    let detached = memory.detach(rows)?;
    assert_eq!((detached.buffer, detached.offset), (handle, HEADER));
    memory.close().map_err(|refused| refused.to_string())?;
    println!("the buffer is the library's alone again");
    Ok(())
}

impl<'g> Library<'g> {
    fn new(gpu: &'g Gpu) -> Result<Self, Failure> {
        let info = vk::BufferCreateInfo::default()
            .size(SIZE)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC);
        // SAFETY: a valid info; destroyed in `drop`.
        let buffer = unsafe { gpu.device.create_buffer(&info, None) }?;
        // SAFETY: live.
        let needs = unsafe { gpu.device.get_buffer_memory_requirements(buffer) };
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let types = gpu.memory_properties();
        let (index, found) = (0u32..)
            .zip(types.memory_types_as_slice())
            .find(|(index, one)| {
                needs.memory_type_bits >> index & 1 == 1 && one.property_flags.contains(wanted)
            })
            .ok_or("Vulkan promises such a type")?;
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(index);
        // SAFETY: a type of the device; freed in `drop`.
        let memory = unsafe { gpu.device.allocate_memory(&info, None) }?;
        // SAFETY: both live, the memory is as large as the buffer wants it.
        unsafe { gpu.device.bind_buffer_memory(buffer, memory, 0) }?;
        Ok(Self {
            gpu,
            buffer,
            memory,
            memory_size: needs.size,
            properties: found.property_flags,
        })
    }
}

impl Drop for Library<'_> {
    fn drop(&mut self) {
        // SAFETY: the device is done with it, and it is wrapped no more.
        unsafe { self.gpu.device.destroy_buffer(self.buffer, None) };
        // SAFETY: as above.
        unsafe { self.gpu.device.free_memory(self.memory, None) };
    }
}
