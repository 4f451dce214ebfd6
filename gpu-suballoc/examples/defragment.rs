//! Defragmentation between frames: a level of meshes is left, a quarter of them stay, and each frame copies a few until
//! blocks are empty.
//!
//! ```text
//!   frame n:    next_pass -> buffers at the new places -> copies, then the frame's own commands -> submit with a fence
//!   frame n+1:  the fence -> finish: the meshes lie at their new places, the old buffers go, empty blocks go back to the driver
//! ```
//!
//! `cargo run -p gpu-suballoc --example defragment`; prints `SKIPPED` where there is no driver.

mod support;

use alloc_core::FromGlobalAlloc;
use ash::vk;
use gpu_suballoc::allocator::{DefragmentationOptions, MoveOutcome, MoveResult};
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BufferInfo, GpuAllocator, MemoryPreference, PropertyFlags, Region, RegionOptions,
};
use support::{Failure, Gpu};

const MIB: u64 = 1 << 20;
const MESHES: u32 = 256;
/// A frame copies at most so much.
const BYTES_A_FRAME: u64 = MIB;

type Memory = GpuAllocator<AshDevice, FromGlobalAlloc<std::alloc::System>>;

struct Mesh {
    number: u32,
    region: Region,
}

fn main() -> Result<(), Failure> {
    support::run(defragment)
}

/// 16 to 112 KiB.
const fn size_of_mesh(number: u32) -> u64 {
    (16 << 10) * (1 + number as u64 * 5 % 7)
}

fn defragment(gpu: &Gpu) -> Result<(), Failure> {
    let options = AllocatorOptions {
        memory: MemoryOptions { first_block: Some(2 * MIB), max_block: Some(2 * MIB), ..MemoryOptions::default() },
        ..AllocatorOptions::default()
    };
    // SAFETY: infos are valid, and what is freed or finished is not in use by the device: each frame is waited for.
    let memory = unsafe { GpuAllocator::new(gpu.memory(), FromGlobalAlloc::SYSTEM, options) }
        .map_err(|refused| refused.error)?;
    let mut meshes = (0..MESHES).map(|number| Mesh::new(gpu, &memory, number)).collect::<Result<Vec<_>, _>>()?;
    // The player leaves the level: what stays lies in every block.
    let mut kept = Vec::new();
    for mesh in meshes.drain(..) {
        if mesh.number % 4 == 0 {
            kept.push(mesh);
        } else {
            memory.free(mesh.region)?;
        }
    }
    print("before", &memory);
    let before = memory.stats().total;

    // SAFETY: a valid info; destroyed below.
    let fence = unsafe { gpu.device.create_fence(&vk::FenceCreateInfo::default(), None) }?;
    let commands = gpu.command_buffer()?;
    let limits = DefragmentationOptions::new().max_bytes_per_pass(BYTES_A_FRAME);
    let mut run = memory.defragment(limits)?;
    let mut frames = 0u32;
    loop {
        let mut pass = run.next_pass()?;
        if pass.is_empty() {
            break;
        }
        let mut copies: Vec<(vk::Buffer, vk::Buffer, u64)> = Vec::new();
        for index in 0..pass.moves().len() {
            // A frame that has no memory for it goes on without: the region stays where it is.
            let Ok(new) = pass.make_buffer(index) else {
                continue;
            };
            let one = &pass.moves()[index];
            let old = one.old_buffer().ok_or("all of them are buffers")?;
            copies.push((old.into(), new.into(), one.size()));
            pass.set_outcome(index, MoveOutcome::Copied)?;
        }
        gpu.submit(commands, fence, |device, commands| {
            for (old, new, size) in &copies {
                let whole = [vk::BufferCopy::default().size(*size)];
                // SAFETY: both live until the pass is finished, and are as large.
                unsafe { device.cmd_copy_buffer(commands, *old, *new, &whole) };
            }
            // The frame's own commands follow. They use the old buffers still, which stay readable until `finish`.
        })?;
        // The program goes on while the device copies: regions come, go and are looked up.
        let brief = Mesh::new_uninitialized(&memory, MESHES + frames)?;
        memory.free(brief.region)?;
        // SAFETY: submitted above.
        unsafe { gpu.device.wait_for_fences(&[fence], true, u64::MAX) }?;
        // SAFETY: signalled, and in no queue any more.
        unsafe { gpu.device.reset_fences(&[fence]) }?;
        let mut moved = 0u32;
        pass.finish(|_, result| moved += u32::from(result == MoveResult::Moved));
        frames += 1;
        println!("frame {frames}: {moved} meshes moved");
    }
    let (totals, skipped) = (run.totals(), run.skipped());
    drop(run);
    // SAFETY: the device is done with it.
    unsafe { gpu.device.destroy_fence(fence, None) };
    // SAFETY: as above.
    unsafe { gpu.device.free_command_buffers(gpu.pool, &[commands]) };
    print("after", &memory);
    println!(
        "{} moves of {} KiB in {frames} frames freed {} blocks of {} KiB; skipped: {skipped:?}",
        totals.moves,
        totals.moved_bytes >> 10,
        totals.freed_blocks,
        totals.freed_bytes >> 10
    );
    let after = memory.stats().total;
    if after.block_bytes * 2 > before.block_bytes || after.region_bytes != before.region_bytes {
        return Err(format!("half of the memory at least was to go: {before:?}, {after:?}").into());
    }

    // The ids are what they were; values learn where their mesh lies now.
    for mesh in &mut kept {
        memory.refresh(&mut mesh.region)?;
    }
    check(gpu, &memory, &kept)?;
    println!("{} meshes have what they had", kept.len());
    support::print_report("with the meshes in few blocks", &memory)?;
    for mesh in kept {
        memory.free(mesh.region)?;
    }
    memory.close().map_err(|refused| refused.to_string())?;
    Ok(())
}

fn print(when: &str, memory: &Memory) {
    let stats = memory.stats();
    println!(
        "{when}: {} KiB in {} blocks for {} KiB in use ({} %), the peak was {} KiB",
        stats.total.block_bytes >> 10,
        stats.total.blocks,
        stats.total.region_bytes >> 10,
        stats.total.reserved_percent().unwrap_or_default(),
        stats.peak_block_bytes >> 10
    );
}

impl Mesh {
    /// On the device, each word of it its number.
    fn new(gpu: &Gpu, memory: &Memory, number: u32) -> Result<Self, Failure> {
        let mesh = Self::new_uninitialized(memory, number)?;
        let buffer: vk::Buffer = mesh.region.buffer().ok_or("a buffer")?.into();
        gpu.run(|device, commands| {
            // SAFETY: a live buffer that can be copied to.
            unsafe { device.cmd_fill_buffer(commands, buffer, 0, vk::WHOLE_SIZE, number) };
        })?;
        Ok(mesh)
    }

    fn new_uninitialized(memory: &Memory, number: u32) -> Result<Self, Failure> {
        // Both transfer usages: a buffer without them stays where it is.
        let usage = vk::BufferUsageFlags::VERTEX_BUFFER
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::TRANSFER_SRC;
        let info = BufferInfo::new(size_of_mesh(number), usage.into());
        let options = RegionOptions::new().dedicated(DedicatedPolicy::Never).name("mesh");
        let region = memory.create_buffer(&info, &options)?;
        Ok(Self { number, region })
    }
}

/// Copies each mesh back and compares every word.
fn check(gpu: &Gpu, memory: &Memory, meshes: &[Mesh]) -> Result<(), Failure> {
    let host = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT);
    let back = memory.create_buffer(
        &BufferInfo::new(MIB, vk::BufferUsageFlags::TRANSFER_DST.into()),
        &RegionOptions::new().preference(host).name("read back"),
    )?;
    let mapping = memory.map(&back)?;
    let into: vk::Buffer = back.buffer().ok_or("a buffer")?.into();
    for Mesh { number, region } in meshes {
        let size = size_of_mesh(*number);
        let from: vk::Buffer = region.buffer().ok_or("a buffer")?.into();
        gpu.run(|device, commands| {
            let copy = [vk::BufferCopy::default().size(size)];
            // SAFETY: both live, and what is copied fits into either.
            unsafe { device.cmd_copy_buffer(commands, from, into, &copy) };
        })?;
        for word in 0..size as usize / 4 {
            // SAFETY: within the mapping; the device is done.
            let seen = unsafe { mapping.as_ptr().cast::<u32>().wrapping_add(word).read() };
            if seen != *number {
                return Err(format!("mesh {number} has {seen} in word {word}").into());
            }
        }
    }
    drop(mapping);
    memory.free(back)?;
    Ok(())
}
