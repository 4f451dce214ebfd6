//! The supported `vkCmd*`.

use core::ffi::c_void;

use ash::vk;

use crate::edge::{Items, commands, raw, slice};
use crate::exec::{Cmd, MAX_PUSH};
use crate::images::{Image, Surface};
use crate::objects::{ColorTarget, buffer_bytes};
use crate::pools::CommandBuffer;

fn whole(surface: Surface) -> vk::Rect2D {
    vk::Rect2D {
        offset: vk::Offset2D::default(),
        extent: vk::Extent2D { width: surface.width, height: surface.height },
    }
}

fn rows(
    to: &mut CommandBuffer,
    image: vk::Image,
    buffer: vk::Buffer,
    regions: &[vk::BufferImageCopy],
    to_buffer: bool,
) {
    for region in regions {
        let place = region.image_subresource;
        let row = match region.buffer_row_length {
            0 => region.image_extent.width,
            row => row,
        };
        let height = match region.buffer_image_height {
            0 => region.image_extent.height,
            height => height,
        };
        let first = Surface::of_image(image);
        // Slices of a third dimension are stored as layers.
        let layers = place.layer_count.max(region.image_extent.depth);
        let base = place.base_array_layer.max(region.image_offset.z.max(0).cast_unsigned());
        for layer in 0..layers {
            if to.failed.is_some() {
                return;
            }
            let skip = [row.into(), height.into(), first.texel].into_iter().fold(u64::from(layer), u64::saturating_mul);
            let bytes = buffer_bytes(buffer).part(region.buffer_offset.saturating_add(skip), vk::WHOLE_SIZE);
            let offset = vk::Offset2D { x: region.image_offset.x, y: region.image_offset.y };
            let extent = vk::Extent2D { width: region.image_extent.width, height: region.image_extent.height };
            let surface = first.skip_layers(base.saturating_add(layer));
            to.record(Cmd::Image(surface, vk::Rect2D { offset, extent }, bytes, row, to_buffer));
        }
    }
}

/// The first argument is the command buffer that records.
macro_rules! recorded {
    ($(fn $name:ident($to:ident $(, $arg:ident: $ty:ty $(as $how:ident $kind:ty)?)*) $body:block)*) => {
        commands! {$(
            fn $name($to: vk::CommandBuffer as object_mut CommandBuffer $(, $arg: $ty $(as $how $kind)?)*) $body
        )*}
    };
}

recorded! {
    fn cmd_fill_buffer(to, buffer: vk::Buffer, offset: u64, size: u64, word: u32) {
        to.record(Cmd::Fill(buffer_bytes(buffer).part(offset, size), word));
    }
    fn cmd_copy_buffer(to, from: vk::Buffer, into: vk::Buffer, count: u32, regions: *const vk::BufferCopy) {
        // SAFETY: valid usage: so many regions.
        for region in unsafe { slice(regions, count) } {
            let from = buffer_bytes(from).part(region.src_offset, region.size);
            to.record(Cmd::Copy(from, buffer_bytes(into).part(region.dst_offset, region.size)));
        }
    }
    fn cmd_copy_image_to_buffer(to, image: vk::Image, _layout: vk::ImageLayout, buffer: vk::Buffer, count: u32, regions: *const vk::BufferImageCopy) {
        // SAFETY: valid usage: so many regions.
        rows(to, image, buffer, unsafe { slice(regions, count) }, true);
    }
    fn cmd_copy_buffer_to_image(to, buffer: vk::Buffer, image: vk::Image, _layout: vk::ImageLayout, count: u32, regions: *const vk::BufferImageCopy) {
        // SAFETY: valid usage: so many regions.
        rows(to, image, buffer, unsafe { slice(regions, count) }, false);
    }
    fn cmd_clear_color_image(to, image: vk::Image as object Image, _layout: vk::ImageLayout, color: *const vk::ClearColorValue as read _, count: u32, ranges: *const vk::ImageSubresourceRange) {
        if image.surface.texel != 4 {
            to.failed = Some(vk::Result::ERROR_UNKNOWN);
        }
        // SAFETY: valid usage: so many ranges.
        for range in unsafe { slice(ranges, count) } {
            for layer in image.slices(range) {
                if to.failed.is_some() {
                    return;
                }
                // SAFETY: all variants of a colour are 32-bit words.
                let words = unsafe { color.uint32 };
                let surface = image.surface.skip_layers(layer);
                to.record(Cmd::Clear(surface, whole(surface), words));
            }
        }
    }
    fn cmd_set_event(to, event: vk::Event, _stages: vk::PipelineStageFlags) {
        to.record(Cmd::Event(raw(event), true));
    }
    fn cmd_reset_event(to, event: vk::Event, _stages: vk::PipelineStageFlags) {
        to.record(Cmd::Event(raw(event), false));
    }
    fn cmd_reset_query_pool(to, pool: vk::QueryPool, first: u32, count: u32) {
        to.record(Cmd::ResetQueries(raw(pool), first, count));
    }
    fn cmd_begin_query(to, pool: vk::QueryPool, index: u32, _flags: vk::QueryControlFlags) {
        to.record(Cmd::Query(raw(pool), index));
    }
    fn cmd_end_query(to, _pool: vk::QueryPool, _index: u32) {
        to.record(Cmd::EndQuery);
    }
    fn cmd_bind_pipeline(to, point: vk::PipelineBindPoint, pipeline: vk::Pipeline) {
        to.record(Cmd::Pipeline(point, raw(pipeline)));
    }
    fn cmd_bind_descriptor_sets(to, point: vk::PipelineBindPoint, _layout: vk::PipelineLayout, first: u32, count: u32, sets: *const vk::DescriptorSet, _offsets: u32, _dynamic: *const u32) {
        // SAFETY: valid usage: so many sets.
        for (index, set) in (0..).zip(unsafe { slice(sets, count) }) {
            to.record(Cmd::Set(point, first.saturating_add(index), raw(*set)));
        }
    }
    fn cmd_push_constants(to, _layout: vk::PipelineLayout, _stages: vk::ShaderStageFlags, offset: u32, size: u32, values: *const c_void) {
        // SAFETY: valid usage: so many bytes.
        let words = unsafe { slice(values.cast::<[u8; 4]>(), size.min(MAX_PUSH as u32) / 4) };
        for (index, word) in (0..).zip(words) {
            to.record(Cmd::Push(offset.saturating_add(4 * index), u32::from_ne_bytes(*word)));
        }
    }
    fn cmd_dispatch(to, x: u32, y: u32, z: u32) {
        to.record(Cmd::Dispatch([x, y, z]));
    }
    fn cmd_draw(to, vertices: u32, instances: u32, first_vertex: u32, first_instance: u32) {
        if (first_vertex, first_instance) != (0, 0) {
            to.failed = Some(vk::Result::ERROR_UNKNOWN);
        }
        to.record(Cmd::Draw(vertices, instances));
    }
    fn cmd_begin_render_pass(to, info: *const vk::RenderPassBeginInfo<'_> as read _, _contents: vk::SubpassContents) {
        // SAFETY: valid usage: a live pass.
        let pass = unsafe { Items::<(ColorTarget, bool)>::get(raw(info.render_pass)) };
        // SAFETY: valid usage: a live framebuffer.
        let buffer = unsafe { Items::<((), Surface)>::get(raw(info.framebuffer)) };
        // SAFETY: valid usage: so many values.
        let values = unsafe { slice(info.p_clear_values, info.clear_value_count) };
        let (Some((target, clears)), Some((_, surfaces))) = (pass, buffer) else {
            return;
        };
        for ((surface, _), value) in surfaces.iter().zip(clears).zip(values).filter(|((_, clears), _)| **clears) {
            // SAFETY: attachments have the one format of 32-bit words.
            let words = unsafe { value.color.uint32 };
            to.record(Cmd::Clear(*surface, info.render_area, words));
        }
        if let ColorTarget::Attachment(index) = target
            && let Some(surface) = surfaces.get(*index as usize)
        {
            to.record(Cmd::Target(*surface));
        }
    }
    fn cmd_end_render_pass(to) {
        to.record(Cmd::Target(Surface::NONE));
    }
    fn cmd_unsupported(to) {
        to.failed = Some(vk::Result::ERROR_UNKNOWN);
    }
}

commands! {
    fn cmd_no_effect(_to: vk::CommandBuffer) {}
}
