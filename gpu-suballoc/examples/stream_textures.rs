//! Textures that stream: each frame uploads some through a ring of staging memory, and the oldest ones go.
//!
//! ```text
//!   staging buffer, mapped for good:  | frame 3 | frame 4 |  free  | frame 2 |      a VirtualBlock with BlockAlgorithm::Ring
//!   textures, device-local:           images of their own regions; 24 stay
//! ```
//!
//! `cargo run -p gpu-suballoc --example stream_textures`; prints `SKIPPED` where there is no driver.

mod support;

use std::collections::VecDeque;

use alloc_core::FromGlobalAlloc;
use ash::vk;
use gpu_suballoc::virtual_block::VirtualAllocation;
use gpu_suballoc::{
    AllocatorOptions, BlockAlgorithm, BufferInfo, GpuAllocator, ImageInfo, MemoryPreference, PropertyFlags, Region,
    RegionOptions, VirtualBlock,
};
use support::{Failure, Gpu};

const EDGE: u32 = 128;
const TEXELS: usize = (EDGE * EDGE) as usize;
const BYTES: u64 = TEXELS as u64 * 4;
const FRAMES: u32 = 60;
const A_FRAME: u32 = 3;
const RESIDENT: usize = 24;
/// Not a multiple of a frame's bytes, so that the ring goes round in the middle of one.
const STAGING: u64 = BYTES * 8;

/// What the device may be reading still.
struct Frame {
    fence: vk::Fence,
    commands: vk::CommandBuffer,
    uploads: Vec<VirtualAllocation>,
}

fn main() -> Result<(), Failure> {
    support::run(stream)
}

fn color(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1) | 0xff00_0000
}

fn stream(gpu: &Gpu) -> Result<(), Failure> {
    // SAFETY: infos are valid, and regions are given back when the device is done with them.
    let memory = unsafe { GpuAllocator::new(gpu.memory(), FromGlobalAlloc::SYSTEM, AllocatorOptions::default()) }
        .map_err(|refused| refused.error)?;
    let host = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT);
    let usage = vk::BufferUsageFlags::TRANSFER_SRC;
    let staging = memory.create_buffer(
        &BufferInfo::new(STAGING, usage.into()),
        &RegionOptions::new().preference(host).name("staging ring"),
    )?;
    let mapping = memory.map(&staging)?;
    let mut ring = VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, STAGING, 256, BlockAlgorithm::Ring)?;

    let (mut in_flight, mut textures) = (VecDeque::<Frame>::new(), VecDeque::<(u32, Region)>::new());
    let (mut waits, mut next) = (0u32, 0u32);
    for _ in 0..FRAMES {
        let mut frame = new_frame(gpu)?;
        let mut copies = Vec::new();
        for _ in 0..A_FRAME {
            // The ring is full while the device reads: the oldest frame is waited for, and its ranges go, oldest first.
            let range = loop {
                match ring.allocate(BYTES, 16) {
                    Ok(range) => break range,
                    Err(full) => {
                        let oldest = in_flight.pop_front().ok_or(full)?;
                        retire(gpu, &mut ring, oldest)?;
                        waits += 1;
                    }
                }
            };
            let texels = mapping.as_ptr().wrapping_add(range.offset as usize).cast::<u32>();
            for texel in 0..TEXELS {
                // SAFETY: the range is within the mapping, aligned, and the device is done with what was there.
                unsafe { texels.wrapping_add(texel).write(color(next)) };
            }
            frame.uploads.push(range.allocation);
            let usage = vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::TRANSFER_SRC;
            let info = ImageInfo::new_2d(vk::Format::R8G8B8A8_UNORM.as_raw() as u32, EDGE, EDGE, usage.into());
            let texture = memory.create_image(&info, &RegionOptions::new().name(&format!("texture {next}")))?;
            copies.push((texture.image().ok_or("an image")?.into(), staging.copy_offset() + range.offset));
            textures.push_back((next, texture));
            next += 1;
        }
        let buffer: vk::Buffer = staging.buffer().ok_or("a buffer")?.into();
        gpu.submit(frame.commands, frame.fence, |device, commands| {
            for (image, offset) in &copies {
                upload(device, commands, buffer, *offset, *image);
            }
        })?;
        in_flight.push_back(frame);
        if textures.len() > RESIDENT {
            // The device is done with all frames, so also with the textures that go.
            while let Some(oldest) = in_flight.pop_front() {
                retire(gpu, &mut ring, oldest)?;
            }
            while textures.len() > RESIDENT {
                let (_, oldest) = textures.pop_front().ok_or("there are some")?;
                memory.free(oldest)?;
            }
        }
    }
    while let Some(oldest) = in_flight.pop_front() {
        retire(gpu, &mut ring, oldest)?;
    }
    println!(
        "{next} textures of {} KiB in {FRAMES} frames; {waits} waits for the ring of {} KiB",
        BYTES >> 10,
        STAGING >> 10
    );
    check(gpu, &memory, &textures)?;
    println!("the newest {} textures have what was uploaded", textures.len());

    support::print_report("when all is uploaded", &memory)?;
    drop(mapping);
    for (_, texture) in textures {
        memory.free(texture)?;
    }
    memory.free(staging)?;
    memory.close().map_err(|refused| refused.to_string())?;
    Ok(())
}

fn new_frame(gpu: &Gpu) -> Result<Frame, Failure> {
    // SAFETY: a valid info; destroyed in `retire`.
    let fence = unsafe { gpu.device.create_fence(&vk::FenceCreateInfo::default(), None) }?;
    Ok(Frame { fence, commands: gpu.command_buffer()?, uploads: Vec::new() })
}

/// Waits for a frame; its staging memory is free then.
fn retire<A: alloc_core::HostAllocator>(gpu: &Gpu, ring: &mut VirtualBlock<A>, frame: Frame) -> Result<(), Failure> {
    // SAFETY: the frame's fence, which was submitted.
    unsafe { gpu.device.wait_for_fences(&[frame.fence], true, u64::MAX) }?;
    // SAFETY: signalled, and nobody else's.
    unsafe { gpu.device.destroy_fence(frame.fence, None) };
    // SAFETY: the device is done with it.
    unsafe { gpu.device.free_command_buffers(gpu.pool, &[frame.commands]) };
    for upload in frame.uploads {
        ring.free(upload)?;
    }
    Ok(())
}

fn color_layers() -> vk::ImageSubresourceLayers {
    vk::ImageSubresourceLayers::default().aspect_mask(vk::ImageAspectFlags::COLOR).layer_count(1)
}

fn whole(offset: u64) -> [vk::BufferImageCopy; 1] {
    [vk::BufferImageCopy::default()
        .buffer_offset(offset)
        .image_subresource(color_layers())
        .image_extent(vk::Extent3D { width: EDGE, height: EDGE, depth: 1 })]
}

fn barrier(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    image: vk::Image,
    [from, to]: [vk::ImageLayout; 2],
    [before, after]: [vk::AccessFlags; 2],
) {
    let barrier = [vk::ImageMemoryBarrier::default()
        .image(image)
        .old_layout(from)
        .new_layout(to)
        .src_access_mask(before)
        .dst_access_mask(after)
        .subresource_range(vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            base_mip_level: 0,
            level_count: 1,
            base_array_layer: 0,
            layer_count: 1,
        })];
    let stage = vk::PipelineStageFlags::ALL_COMMANDS;
    // SAFETY: a live image, in the layout that is named.
    unsafe { device.cmd_pipeline_barrier(commands, stage, stage, vk::DependencyFlags::empty(), &[], &[], &barrier) };
}

fn upload(device: &ash::Device, commands: vk::CommandBuffer, buffer: vk::Buffer, offset: u64, image: vk::Image) {
    use vk::AccessFlags as Access;
    use vk::ImageLayout as Layout;
    let into = Layout::TRANSFER_DST_OPTIMAL;
    barrier(device, commands, image, [Layout::UNDEFINED, into], [Access::empty(), Access::TRANSFER_WRITE]);
    // SAFETY: the range of the staging buffer is written, and the image is in that layout.
    unsafe { device.cmd_copy_buffer_to_image(commands, buffer, image, into, &whole(offset)) };
    barrier(
        device,
        commands,
        image,
        [into, Layout::TRANSFER_SRC_OPTIMAL],
        [Access::TRANSFER_WRITE, Access::TRANSFER_READ],
    );
}

/// Copies each texture back and compares it.
fn check<D: gpu_suballoc::DeviceMemory, A: alloc_core::HostAllocator>(
    gpu: &Gpu,
    memory: &GpuAllocator<D, A>,
    textures: &VecDeque<(u32, Region)>,
) -> Result<(), Failure> {
    let host = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT);
    let back = memory.create_buffer(
        &BufferInfo::new(BYTES, vk::BufferUsageFlags::TRANSFER_DST.into()),
        &RegionOptions::new().preference(host).name("read back"),
    )?;
    let mapping = memory.map(&back)?;
    let buffer: vk::Buffer = back.buffer().ok_or("a buffer")?.into();
    for (number, texture) in textures {
        let image: vk::Image = texture.image().ok_or("an image")?.into();
        gpu.run(|device, commands| {
            let from = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
            // SAFETY: the image is in that layout, and the buffer is as large.
            unsafe { device.cmd_copy_image_to_buffer(commands, image, from, buffer, &whole(back.copy_offset())) };
        })?;
        for texel in [0, TEXELS / 2, TEXELS - 1] {
            // SAFETY: within the mapping; the device is done.
            let seen = unsafe { mapping.as_ptr().cast::<u32>().wrapping_add(texel).read() };
            if seen != color(*number) {
                return Err(format!("texture {number} has {seen:#x} at {texel}").into());
            }
        }
    }
    drop(mapping);
    memory.free(back)?;
    Ok(())
}
