use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use ash::vk;
use vk_callbacks::Object;

use crate::bytes::Mapping;
use crate::device::Device;
use crate::edge::{commands, each_output, get, raw, slice};
use crate::exec::query;
use crate::images::Image;
use crate::objects::{Buffer, Event, Fence, UNAVAILABLE, is_up};

const ALIGNMENT: u64 = 64;

/// Fails where the sum exceeds 64 bits.
pub(crate) fn aligned(size: u64) -> Result<u64, vk::Result> {
    size.checked_next_multiple_of(ALIGNMENT).ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)
}

fn requirements(size: u64) -> vk::MemoryRequirements {
    vk::MemoryRequirements {
        // Creation refuses a size that cannot be aligned.
        size: aligned(size).unwrap_or(u64::MAX),
        alignment: ALIGNMENT,
        memory_type_bits: 1,
    }
}

fn bind_buffer(buffer: &mut Buffer, memory: vk::DeviceMemory, offset: u64) {
    // SAFETY: valid usage: live memory.
    if let Some(memory) = unsafe { get::<Mapping>(raw(memory)) } {
        buffer.bytes = memory.bytes().part(offset, buffer.size);
    }
}

fn bind_image(image: &mut Image, memory: vk::DeviceMemory, offset: u64) {
    // SAFETY: valid usage: live memory.
    if let Some(memory) = unsafe { get::<Mapping>(raw(memory)) } {
        image.surface.bytes = memory.bytes().part(offset, image.size);
    }
}

fn no_dedicated(out: &mut vk::MemoryRequirements2<'_>) {
    let write = |kind, structure: *mut vk::BaseOutStructure<'_>| {
        if kind == vk::StructureType::MEMORY_DEDICATED_REQUIREMENTS {
            let structure = structure.cast::<vk::MemoryDedicatedRequirements<'_>>();
            // SAFETY: valid usage: a structure of this type.
            let structure = unsafe { &mut *structure };
            structure.prefers_dedicated_allocation = vk::FALSE;
            structure.requires_dedicated_allocation = vk::FALSE;
        }
    };
    // SAFETY: valid usage: a chain of outputs.
    unsafe { each_output(out.p_next, write) };
}

commands! {
    fn map_memory(_device: vk::Device, memory: vk::DeviceMemory as object Mapping, offset: u64, size: u64, _flags: vk::MemoryMapFlags, out: *mut *mut c_void as write _) -> vk::Result {
        let part = memory.bytes().part(offset, size);
        if part.len() == 0 {
            *out = ptr::null_mut();
            return vk::Result::ERROR_MEMORY_MAP_FAILED;
        }
        *out = part.address().as_ptr().cast();
        vk::Result::SUCCESS
    }
    fn unmap_memory(_device: vk::Device, _memory: vk::DeviceMemory) {}
    fn flush_or_invalidate(_device: vk::Device, _count: u32, _ranges: *const vk::MappedMemoryRange<'_>) -> vk::Result { vk::Result::SUCCESS }
    fn get_device_memory_commitment(_device: vk::Device, memory: vk::DeviceMemory as object Mapping, out: *mut u64 as write _) {
        *out = memory.bytes().len();
    }
    fn bind_buffer_memory(_device: vk::Device, buffer: vk::Buffer as object_mut Buffer, memory: vk::DeviceMemory, offset: u64) -> vk::Result {
        bind_buffer(buffer, memory, offset);
        vk::Result::SUCCESS
    }
    fn bind_buffer_memory2(_device: vk::Device, count: u32, infos: *const vk::BindBufferMemoryInfo<'_>) -> vk::Result {
        // SAFETY: valid usage: so many infos.
        for info in unsafe { slice(infos, count) } {
            // SAFETY: valid usage: a live buffer, externally synchronised.
            if let Some(buffer) = unsafe { Object::borrow_handle_mut(raw(info.buffer)) } {
                bind_buffer(buffer, info.memory, info.memory_offset);
            }
        }
        vk::Result::SUCCESS
    }
    fn bind_image_memory(_device: vk::Device, image: vk::Image as object_mut Image, memory: vk::DeviceMemory, offset: u64) -> vk::Result {
        bind_image(image, memory, offset);
        vk::Result::SUCCESS
    }
    fn bind_image_memory2(_device: vk::Device, count: u32, infos: *const vk::BindImageMemoryInfo<'_>) -> vk::Result {
        // SAFETY: valid usage: so many infos.
        for info in unsafe { slice(infos, count) } {
            // SAFETY: valid usage: a live image, externally synchronised.
            if let Some(image) = unsafe { Object::borrow_handle_mut(raw(info.image)) } {
                bind_image(image, info.memory, info.memory_offset);
            }
        }
        vk::Result::SUCCESS
    }
    fn get_buffer_memory_requirements(_device: vk::Device, buffer: vk::Buffer as object Buffer, out: *mut vk::MemoryRequirements as write _) {
        *out = requirements(buffer.size);
    }
    fn get_image_memory_requirements(_device: vk::Device, image: vk::Image as object Image, out: *mut vk::MemoryRequirements as write _) {
        *out = requirements(image.size);
    }
    fn get_buffer_memory_requirements2(_device: vk::Device, info: *const vk::BufferMemoryRequirementsInfo2<'_> as read _, out: *mut vk::MemoryRequirements2<'_> as write _) {
        // SAFETY: valid usage: a live buffer.
        let size = unsafe { get::<Buffer>(raw(info.buffer)) }.map_or(0, |buffer| buffer.size);
        out.memory_requirements = requirements(size);
        no_dedicated(out);
    }
    fn get_image_memory_requirements2(_device: vk::Device, info: *const vk::ImageMemoryRequirementsInfo2<'_> as read _, out: *mut vk::MemoryRequirements2<'_> as write _) {
        // SAFETY: valid usage: a live image.
        let size = unsafe { get::<Image>(raw(info.image)) }.map_or(0, |image| image.size);
        out.memory_requirements = requirements(size);
        no_dedicated(out);
    }
    fn get_image_sparse_memory_requirements(_device: vk::Device, _image: vk::Image, count: *mut u32 as write _, _out: *mut vk::SparseImageMemoryRequirements) {
        *count = 0;
    }
    fn get_image_sparse_memory_requirements2(_device: vk::Device, _info: *const vk::ImageSparseMemoryRequirementsInfo2<'_>, count: *mut u32 as write _, _out: *mut vk::SparseImageMemoryRequirements2<'_>) {
        *count = 0;
    }
    fn get_image_subresource_layout(_device: vk::Device, image: vk::Image as object Image, part: *const vk::ImageSubresource as read _, out: *mut vk::SubresourceLayout as write _) {
        let layer = image.surface.layer_size();
        *out = vk::SubresourceLayout {
            offset: layer.saturating_mul(part.array_layer.into()),
            size: layer,
            row_pitch: u64::from(image.surface.width) * image.surface.texel,
            array_pitch: layer,
            depth_pitch: layer,
        };
    }
    fn get_render_area_granularity(_device: vk::Device, _pass: vk::RenderPass, out: *mut vk::Extent2D as write _) {
        *out = vk::Extent2D { width: 1, height: 1 };
    }
    fn reset_fences(_device: vk::Device, count: u32, fences: *const vk::Fence) -> vk::Result {
        // SAFETY: valid usage: so many fences.
        for fence in unsafe { slice(fences, count) } {
            // SAFETY: valid usage: a live fence.
            if let Some(fence) = unsafe { get::<Fence>(raw(*fence)) } {
                fence.0.store(false, Relaxed);
            }
        }
        vk::Result::SUCCESS
    }
    fn get_fence_status(_device: vk::Device, fence: vk::Fence as object Fence) -> vk::Result {
        if is_up(&fence.0) { vk::Result::SUCCESS } else { vk::Result::NOT_READY }
    }
    fn wait_for_fences(device: vk::Device as object Device, count: u32, fences: *const vk::Fence, all: vk::Bool32, timeout: u64) -> vk::Result {
        // SAFETY: valid usage: so many fences.
        let fences = unsafe { slice(fences, count) };
        // SAFETY: valid usage: live fences.
        let up = |fence: &vk::Fence| unsafe { get::<Fence>(raw(*fence)) }.is_some_and(|fence| is_up(&fence.0));
        let (begun, timeout) = (Instant::now(), Duration::from_nanos(timeout));
        // Another thread's submit may signal a fence. Every way to sleep would allocate memory.
        loop {
            let enough = if all == vk::TRUE { fences.iter().all(up) } else { fences.iter().any(up) };
            if enough {
                return vk::Result::SUCCESS;
            }
            if device.is_lost() {
                return vk::Result::ERROR_DEVICE_LOST;
            }
            if begun.elapsed() >= timeout {
                return vk::Result::TIMEOUT;
            }
            thread::yield_now();
        }
    }
    fn get_event_status(_device: vk::Device, event: vk::Event as object Event) -> vk::Result {
        if is_up(&event.0) { vk::Result::EVENT_SET } else { vk::Result::EVENT_RESET }
    }
    fn set_event(_device: vk::Device, event: vk::Event as object Event) -> vk::Result {
        event.0.store(true, Relaxed);
        vk::Result::SUCCESS
    }
    fn reset_event(_device: vk::Device, event: vk::Event as object Event) -> vk::Result {
        event.0.store(false, Relaxed);
        vk::Result::SUCCESS
    }
    fn get_query_pool_results(_device: vk::Device, pool: vk::QueryPool, first: u32, count: u32, _size: usize, out: *mut c_void, stride: u64, flags: vk::QueryResultFlags) -> vk::Result {
        let mut answer = vk::Result::SUCCESS;
        for index in 0..count {
            let result = query(raw(pool), first.saturating_add(index)).unwrap_or(UNAVAILABLE);
            let there = result != UNAVAILABLE;
            let place = out.wrapping_byte_add(stride.wrapping_mul(index.into()) as usize);
            let value = if there { result } else { 0 };
            if !there {
                answer = vk::Result::NOT_READY;
            }
            let values = [value, u64::from(there)];
            let written = if flags.contains(vk::QueryResultFlags::WITH_AVAILABILITY) { 2 } else { 1 };
            for (number, value) in values.into_iter().take(written).enumerate() {
                if number == 0 && !there && !flags.contains(vk::QueryResultFlags::PARTIAL) {
                    continue;
                }
                if flags.contains(vk::QueryResultFlags::TYPE_64) {
                    // SAFETY: valid usage: room for so many results, `stride` apart.
                    unsafe { place.cast::<u64>().wrapping_add(number).write_unaligned(value) };
                } else {
                    // SAFETY: valid usage: room for so many results of 32 bits, `stride` apart.
                    unsafe { place.cast::<u32>().wrapping_add(number).write_unaligned(value as u32) };
                }
            }
        }
        answer
    }
    fn get_pipeline_cache_data(_device: vk::Device, _cache: vk::PipelineCache, size: *mut usize as write _, out: *mut c_void) -> vk::Result {
        // VkPipelineCacheHeaderVersionOne: length, version, vendor, device, and a UUID of zeros.
        let header: [u32; 8] = [32, 1, crate::physical::VENDOR, 1, 0, 0, 0, 0];
        if out.is_null() {
            *size = size_of_val(&header);
            return vk::Result::SUCCESS;
        }
        if *size < size_of_val(&header) {
            *size = 0;
            return vk::Result::INCOMPLETE;
        }
        *size = size_of_val(&header);
        // SAFETY: room for so many bytes.
        unsafe { out.cast::<[u32; 8]>().write_unaligned(header) };
        vk::Result::SUCCESS
    }
    fn merge_pipeline_caches(_device: vk::Device, _into: vk::PipelineCache, _count: u32, _from: *const vk::PipelineCache) -> vk::Result { vk::Result::SUCCESS }
}
