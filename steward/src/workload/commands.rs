use std::slice;

use ash::vk;

use super::device::Device;
use super::error::WorkloadError;
use super::expect::SIDE;
use super::graphics::{Graphics, area};
use super::object::Guard;
use super::resources::COLOR;

/// Command buffers and their pool. They are freed before the pool is destroyed.
pub(super) struct Commands<'d, const N: usize> {
    device: &'d Device<'d>,
    pool: Guard<'d, vk::CommandPool>,
    buffers: [vk::CommandBuffer; N],
}

impl<'d, const N: usize> Commands<'d, N> {
    pub(super) fn new(device: &'d Device<'d>) -> Result<Self, WorkloadError> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(device.physical().queue_family);
        // SAFETY: the device was created with this queue family.
        let pool = unsafe { device.create::<vk::CommandPool>(&info) }?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(*pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(N as u32);
        // SAFETY: the pool lives.
        let allocated =
            unsafe { device.allocate_command_buffers(&info) }.map_err(WorkloadError::of("vkAllocateCommandBuffers"))?;
        let count = device.command_buffers();
        count.set(count.get().saturating_add(N as u32));
        let buffers = allocated.try_into().unwrap_or_else(|_| unreachable!("as many as were requested"));
        Ok(Self { device, pool, buffers })
    }

    pub(super) fn all(&self) -> [vk::CommandBuffer; N] {
        self.buffers
    }
}

impl<const N: usize> Drop for Commands<'_, N> {
    fn drop(&mut self) {
        self.device.phases().begin("teardown");
        // SAFETY: all come from this pool and are not pending: `InFlight` was dropped before.
        unsafe { self.device.free_command_buffers(*self.pool, &self.buffers) };
    }
}

/// The commands' arguments live until the recorded work has ended; the round's order of declarations ensures that.
pub(super) struct Recorder<'r> {
    device: &'r Device<'r>,
    buffer: vk::CommandBuffer,
}

impl<'r> Recorder<'r> {
    /// # Safety
    /// `buffer` belongs to `device` and was never recorded. All objects that `record` uses live, in the states that it
    /// assumes, until the work has ended.
    pub(super) unsafe fn record(
        device: &'r Device<'r>,
        buffer: vk::CommandBuffer,
        record: impl FnOnce(&Self),
    ) -> Result<(), WorkloadError> {
        let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer was never recorded, so it is in its initial state.
        unsafe { device.begin_command_buffer(buffer, &once) }.map_err(WorkloadError::of("vkBeginCommandBuffer"))?;
        record(&Self { device, buffer });
        // SAFETY: begun above; every begun render pass and query has ended.
        unsafe { device.end_command_buffer(buffer) }.map_err(WorkloadError::of("vkEndCommandBuffer"))
    }

    pub(super) fn fill(&self, buffer: vk::Buffer, word: u32) {
        let (vk, this) = (self.device, self.buffer);
        // SAFETY: recording (see `record`); the buffer has TRANSFER_DST usage and a size that is a multiple of 4.
        unsafe { vk.cmd_fill_buffer(this, buffer, 0, vk::WHOLE_SIZE, word) };
    }

    pub(super) fn set_event(&self, event: vk::Event, after: vk::PipelineStageFlags) {
        // SAFETY: recording, outside of a render pass; the event lives.
        unsafe { self.device.cmd_set_event(self.buffer, event, after) };
    }

    pub(super) fn wait_event(
        &self,
        event: vk::Event,
        from: (vk::PipelineStageFlags, vk::AccessFlags),
        to: (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let (vk, this, events) = (self.device, self.buffer, [event]);
        let barrier = [vk::MemoryBarrier::default().src_access_mask(from.1).dst_access_mask(to.1)];
        // SAFETY: recording; one event, set before with the same stage; one memory barrier and no others.
        unsafe { vk.cmd_wait_events(this, &events, from.0, to.0, &barrier, &[], &[]) };
    }

    pub(super) fn memory_barrier(
        &self,
        from: (vk::PipelineStageFlags, vk::AccessFlags),
        to: (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let barrier = [vk::MemoryBarrier::default().src_access_mask(from.1).dst_access_mask(to.1)];
        self.barrier(from.0, to.0, &barrier, &[]);
    }

    pub(super) fn image_barrier(
        &self,
        image: vk::Image,
        from: (vk::PipelineStageFlags, vk::AccessFlags, vk::ImageLayout),
        to: (vk::PipelineStageFlags, vk::AccessFlags, vk::ImageLayout),
    ) {
        let barrier = [vk::ImageMemoryBarrier::default()
            .image(image)
            .subresource_range(COLOR)
            .src_access_mask(from.1)
            .dst_access_mask(to.1)
            .old_layout(from.2)
            .new_layout(to.2)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)];
        self.barrier(from.0, to.0, &[], &barrier);
    }

    fn barrier(
        &self,
        from: vk::PipelineStageFlags,
        to: vk::PipelineStageFlags,
        memory: &[vk::MemoryBarrier<'_>],
        images: &[vk::ImageMemoryBarrier<'_>],
    ) {
        let (vk, this, none) = (self.device, self.buffer, vk::DependencyFlags::empty());
        // SAFETY: recording, outside of a render pass; images live.
        unsafe { vk.cmd_pipeline_barrier(this, from, to, none, memory, &[], images) };
    }

    pub(super) fn bind(
        &self,
        point: vk::PipelineBindPoint,
        stage: vk::ShaderStageFlags,
        layout: vk::PipelineLayout,
        set: vk::DescriptorSet,
        seed: u32,
    ) {
        let (vk, this, seed) = (self.device, self.buffer, seed.to_ne_bytes());
        // SAFETY: recording; the set fits set 0 of this layout; no dynamic offsets.
        unsafe { vk.cmd_bind_descriptor_sets(this, point, layout, 0, &[set], &[]) };
        // SAFETY: recording; the layout's one range has these 4 bytes for this stage.
        unsafe { vk.cmd_push_constants(this, layout, stage, 0, &seed) };
    }

    pub(super) fn bind_pipeline(&self, point: vk::PipelineBindPoint, pipeline: vk::Pipeline) {
        // SAFETY: recording; the pipeline lives and is of this bind point.
        unsafe { self.device.cmd_bind_pipeline(self.buffer, point, pipeline) };
    }

    pub(super) fn dispatch(&self, groups: u32) {
        // SAFETY: recording, outside of a render pass; pipeline, set and push constants were bound.
        unsafe { self.device.cmd_dispatch(self.buffer, groups, 1, 1) };
    }

    pub(super) fn copy_buffer(
        &self,
        (from, src_offset): (vk::Buffer, u64),
        (to, dst_offset): (vk::Buffer, u64),
        size: u64,
    ) {
        let region = [vk::BufferCopy { src_offset, dst_offset, size }];
        let (vk, this) = (self.device, self.buffer);
        // SAFETY: recording; usages allow it and the region lies in both buffers.
        unsafe { vk.cmd_copy_buffer(this, from, to, &region) };
    }

    /// `image` is in `TRANSFER_DST_OPTIMAL`.
    pub(super) fn clear(&self, image: vk::Image, word: u32) {
        let (vk, this, color) = (self.device, self.buffer, vk::ClearColorValue { uint32: [word; 4] });
        let layout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
        // SAFETY: recording, outside of a render pass; the image has TRANSFER_DST usage and is in this layout.
        unsafe { vk.cmd_clear_color_image(this, image, layout, &color, &[COLOR]) };
    }

    pub(super) fn reset_queries(&self, pool: vk::QueryPool) {
        // SAFETY: recording, outside of a render pass; the pool has one query, which is not active.
        unsafe { self.device.cmd_reset_query_pool(self.buffer, pool, 0, 1) };
    }

    pub(super) fn render_pass(&self, graphics: &Graphics<'_>, query: vk::QueryPool, draw: impl FnOnce(&Self)) {
        let (vk, this) = (self.device, self.buffer);
        let clear = vk::ClearValue { color: vk::ClearColorValue { uint32: [0; 4] } };
        let info = vk::RenderPassBeginInfo::default()
            .render_pass(*graphics.render_pass)
            .framebuffer(*graphics.framebuffer)
            .render_area(area())
            .clear_values(slice::from_ref(&clear));
        // SAFETY: recording; the framebuffer fits this pass; one attachment and one clear value.
        unsafe { vk.cmd_begin_render_pass(this, &info, vk::SubpassContents::INLINE) };
        // SAFETY: recording; the query was reset before the pass.
        unsafe { vk.cmd_begin_query(this, query, 0, vk::QueryControlFlags::empty()) };
        draw(self);
        // SAFETY: begun above, in the same subpass.
        unsafe { vk.cmd_end_query(this, query, 0) };
        // SAFETY: begun above.
        unsafe { vk.cmd_end_render_pass(this) };
    }

    pub(super) fn draw(&self, vertices: u32) {
        // SAFETY: recording, inside a render pass; pipeline, set and push constants were bound.
        unsafe { self.device.cmd_draw(self.buffer, vertices, 1, 0, 0) };
    }

    /// Copies the whole drawn image, tightly packed, to byte `offset` of `to`.
    pub(super) fn copy_image(&self, image: vk::Image, to: vk::Buffer, offset: u64) {
        let (vk, this) = (self.device, self.buffer);
        let region = [vk::BufferImageCopy {
            buffer_offset: offset,
            image_subresource: vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                mip_level: 0,
                base_array_layer: 0,
                layer_count: 1,
            },
            image_extent: vk::Extent3D { width: SIDE, height: SIDE, depth: 1 },
            ..Default::default()
        }];
        let layout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        // SAFETY: recording; the image is in this layout and the region lies in image and buffer.
        unsafe { vk.cmd_copy_image_to_buffer(this, image, layout, to, &region) };
    }
}
