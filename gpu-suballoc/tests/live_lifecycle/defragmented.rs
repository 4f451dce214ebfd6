//! Buffers and images with optimal tiling keep their contents through defragmentations on a real
//! driver, with copies as a program records them; the validation layer, which `validated` sees to hear what is wrong, hears nothing.

use crate::*;

use ash::vk::Handle as _;

use crate::layer::{Missing, on_each_driver, said, watched};
use crate::live::Live;

const NAME: &str = "df11_contents_are_equal_after_passes";
const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());
/// Bytes of a buffer, and of an image of 64 by 64 texels.
const BYTES: u64 = 16 << 10;
type Gpu = GpuAllocator<AshDevice, &'static FromGlobalAlloc<std::alloc::System>>;

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

/// Runs the test on each driver that is there.
pub fn run() {
    on_each_driver(NAME, |driver, which| {
        let (driver, moves) = df11_contents_are_equal_after_passes(driver, which)?;
        Ok(format!("{driver}: {moves} moves"))
    });
}

fn image_info() -> ImageInfo {
    let format = u32::try_from(vk::Format::R8G8B8A8_UNORM.as_raw()).unwrap();
    ImageInfo::new_2d(format, 64, 64, ImageUsage::TRANSFER_SRC | ImageUsage::TRANSFER_DST)
}

fn df11_contents_are_equal_after_passes(
    driver: &'static str,
    which: fn(&str) -> bool,
) -> Result<(String, u64), Missing> {
    // Of a driver that was watched before, whose intended errors are that test's.
    let _earlier = said();
    let live = watched(driver, which)?;
    let silence = said();
    assert!(silence.is_empty(), "{silence:#?}");

    let options = AllocatorOptions {
        memory: MemoryOptions { first_block: Some(256 << 10), max_block: Some(256 << 10), ..MemoryOptions::default() },
        ..AllocatorOptions::default()
    };
    let device = live.ash(live.options);
    // SAFETY: infos are valid, the device outlives the allocator, and nothing runs on it when something is freed.
    let gpu = unsafe { GpuAllocator::new(device, &SYSTEM, options) }.map_err(|refused| refused.error).unwrap();
    let shared = RegionOptions::new().dedicated(DedicatedPolicy::Never);
    let visible = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE);
    let staging = gpu.create_buffer(&BufferInfo::new(BYTES, COPIED), &shared.preference(visible)).unwrap();

    let mut all: Vec<(u8, Region)> = Vec::new();
    for number in 0..160u8 {
        let region = match number {
            _ if number % 2 == 0 => gpu.create_buffer(&BufferInfo::new(BYTES, COPIED), &shared),
            _ => gpu.create_image(&image_info(), &shared),
        };
        let region = region.unwrap();
        fill(&gpu, &staging, number);
        transfer(&live, &staging, &region, Direction::In);
        all.push((number, region));
    }
    let mut left = Vec::new();
    for (number, region) in all {
        // Of each kind a half.
        if number % 8 < 4 {
            left.push((number, region));
        } else {
            gpu.free(region).unwrap();
        }
    }
    let before = gpu.stats().total.blocks;
    let limits = DefragmentationOptions::new().max_moves_per_pass(7);
    let mut run = gpu.defragment(limits).unwrap();
    loop {
        let mut pass = run.next_pass().unwrap();
        if pass.is_empty() {
            break;
        }
        for index in 0..pass.moves().len() {
            if pass.moves()[index].old_image().is_some() {
                pass.make_image(index, &image_info()).expect("the same needs");
            } else {
                pass.make_buffer(index).expect("the same needs");
            }
        }
        live.submit(|commands| {
            for one in pass.moves() {
                if let (Some(old), Some(new)) = (one.old_buffer(), one.new_buffer()) {
                    let region = [vk::BufferCopy::default().size(one.size())];
                    let [old, new] = [old, new].map(|one| vk::Buffer::from_raw(one.as_raw()));
                    // SAFETY: recording; both live, and are as large.
                    unsafe { live.device.cmd_copy_buffer(commands, old, new, &region) };
                }
                if let (Some(old), Some(new)) = (one.old_image(), one.new_image()) {
                    let [old, new] = [old, new].map(|one| vk::Image::from_raw(one.as_raw()));
                    copy_image(&live, commands, old, new);
                }
            }
        });
        pass.set_outcomes(MoveOutcome::Copied);
        pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
    }
    let totals = run.totals();
    drop(run);
    assert!(totals.moves >= 8 && gpu.stats().total.blocks < before, "{totals:?}");
    for (number, mut region) in left {
        gpu.refresh(&mut region).unwrap();
        fill(&gpu, &staging, !number);
        transfer(&live, &staging, &region, Direction::Out);
        let mapping = gpu.map(&staging).unwrap();
        gpu.invalidate(&staging, 0, BYTES).unwrap();
        // SAFETY: mapped, as long as that, and the device is idle.
        let bytes = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), BYTES as usize) };
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == pattern(number, at)), "{number} on {driver}");
        drop(mapping);
        gpu.free(region).unwrap();
    }
    gpu.free(staging).unwrap();
    let _device = gpu.close().map_err(|refused| refused.to_string()).expect("all was freed");
    let name = live.driver.clone();
    drop(live);
    let wrong = said();
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok((name, totals.moves))
}

fn pattern(number: u8, at: usize) -> u8 {
    number.wrapping_mul(31).wrapping_add(at as u8) ^ (at >> 8) as u8
}

fn fill(gpu: &Gpu, staging: &Region, number: u8) {
    let mapping = gpu.map(staging).unwrap();
    // SAFETY: mapped, as long as that, and the device is idle.
    let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.as_ptr(), BYTES as usize) };
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = pattern(number, at);
    }
    gpu.flush(staging, 0, BYTES).unwrap();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

/// Copies between the staging buffer and a region's buffer or image. Images rest in `TRANSFER_SRC_OPTIMAL`.
fn transfer(live: &Live, staging: &Region, region: &Region, direction: Direction) {
    let staging = staging.buffer().unwrap();
    if let Some(buffer) = region.buffer() {
        let (from, to) = match direction {
            Direction::In => (staging, buffer),
            Direction::Out => (buffer, staging),
        };
        return live.copy(&[(from, 0, to, 0, BYTES)]);
    }
    let image = vk::Image::from_raw(region.image().unwrap().as_raw());
    let buffer = vk::Buffer::from_raw(staging.as_raw());
    let regions = [vk::BufferImageCopy::default().image_subresource(layers()).image_extent(extent())];
    live.submit(|commands| match direction {
        Direction::In => {
            let general = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
            barrier(live, commands, image, vk::ImageLayout::UNDEFINED, general);
            // SAFETY: recording; the image has that layout.
            unsafe { live.device.cmd_copy_buffer_to_image(commands, buffer, image, general, &regions) };
            barrier(live, commands, image, general, vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
        }
        Direction::Out => {
            let rests = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
            // SAFETY: recording; the image has that layout.
            unsafe { live.device.cmd_copy_image_to_buffer(commands, image, rests, buffer, &regions) };
            let host = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                .dst_access_mask(vk::AccessFlags::HOST_READ)];
            // SAFETY: recording.
            unsafe {
                live.device.cmd_pipeline_barrier(
                    commands,
                    vk::PipelineStageFlags::TRANSFER,
                    vk::PipelineStageFlags::HOST,
                    vk::DependencyFlags::empty(),
                    &host,
                    &[],
                    &[],
                )
            };
        }
    });
}

/// As a program would: the new image is written, and rests as the old one did.
fn copy_image(live: &Live, commands: vk::CommandBuffer, old: vk::Image, new: vk::Image) {
    let (rests, written) = (vk::ImageLayout::TRANSFER_SRC_OPTIMAL, vk::ImageLayout::TRANSFER_DST_OPTIMAL);
    barrier(live, commands, new, vk::ImageLayout::UNDEFINED, written);
    let regions = [vk::ImageCopy::default().src_subresource(layers()).dst_subresource(layers()).extent(extent())];
    // SAFETY: recording; the images have these layouts.
    unsafe { live.device.cmd_copy_image(commands, old, rests, new, written, &regions) };
    barrier(live, commands, new, written, rests);
}

fn layers() -> vk::ImageSubresourceLayers {
    vk::ImageSubresourceLayers::default().aspect_mask(vk::ImageAspectFlags::COLOR).layer_count(1)
}

fn extent() -> vk::Extent3D {
    vk::Extent3D { width: 64, height: 64, depth: 1 }
}

fn barrier(live: &Live, commands: vk::CommandBuffer, image: vk::Image, from: vk::ImageLayout, to: vk::ImageLayout) {
    let range =
        vk::ImageSubresourceRange::default().aspect_mask(vk::ImageAspectFlags::COLOR).level_count(1).layer_count(1);
    let transfer = vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE;
    let barriers = [vk::ImageMemoryBarrier::default()
        .src_access_mask(transfer)
        .dst_access_mask(transfer)
        .old_layout(from)
        .new_layout(to)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .image(image)
        .subresource_range(range)];
    let stage = vk::PipelineStageFlags::TRANSFER;
    // SAFETY: recording; the image lives.
    unsafe {
        live.device.cmd_pipeline_barrier(commands, stage, stage, vk::DependencyFlags::empty(), &[], &[], &barriers)
    };
}
