//! A command pool with its command buffers, and one method for each recorded command.

use std::slice;

use ash::vk;

use super::device::Device;
use super::error::WorkloadError;
use super::expect::SIDE;
use super::graphics::{Graphics, area};
use super::object::Guard;
use super::resources::COLOR;
use vk_accounts::CreatedObject;
use vk_accounts::ObjectKind;

/// Command buffers and their pool. Fields are in reverse order of creation.
pub(super) struct Commands<'d, const N: usize> {
    buffers: Children<'d, N>,
    /// Destroyed after `buffers`.
    _pool: Guard<'d, vk::CommandPool>,
}

impl<'d, const N: usize> Commands<'d, N> {
    pub(super) fn new(device: &'d Device<'d>) -> Result<Self, WorkloadError> {
        let info =
            vk::CommandPoolCreateInfo::default().queue_family_index(device.physical().queue_family);
        // SAFETY: the device was created with this queue family.
        let pool = unsafe { device.create::<vk::CommandPool>(&info) }?;
        Ok(Self {
            buffers: Children::new(device, *pool)?,
            _pool: pool,
        })
    }

    /// The command buffers, each to be recorded once.
    pub(super) fn all(&self) -> [vk::CommandBuffer; N] {
        self.buffers.handles
    }
}

struct Children<'d, const N: usize> {
    device: &'d Device<'d>,
    pool: vk::CommandPool,
    handles: [vk::CommandBuffer; N],
}

impl<'d, const N: usize> Children<'d, N> {
    fn new(device: &'d Device<'d>, pool: vk::CommandPool) -> Result<Self, WorkloadError> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(N as u32);
        let mut handles = [vk::CommandBuffer::null(); N];
        let out = handles.as_mut_ptr();
        device.check(
            "vkAllocateCommandBuffers",
            ObjectKind::CommandBuffer,
            |vk, this| {
                // SAFETY: the pool lives, and `out` has room for as many handles.
                unsafe { (vk.allocate_command_buffers)(this, &raw const info, out) }
            },
        )?;
        let children = Self {
            device,
            pool,
            handles,
        };
        children
            .created()
            .iter()
            .for_each(|made| device.caller().created(made));
        Ok(children)
    }

    fn created(&self) -> [CreatedObject<'d>; N] {
        self.handles
            .map(|buffer| CreatedObject::in_pool(ObjectKind::CommandBuffer, buffer, self.pool))
    }
}

impl<const N: usize> Drop for Children<'_, N> {
    fn drop(&mut self) {
        let (device, pool, handles) = (self.device, self.pool, &self.handles);
        device.caller().phase("teardown");
        device
            .caller()
            .end("vkFreeCommandBuffers", &self.created(), || {
                // SAFETY: all come from this pool and are not pending: `InFlight` was dropped before.
                unsafe {
                    (device.v1_0().free_command_buffers)(
                        device.handle(),
                        pool,
                        N as u32,
                        handles.as_ptr(),
                    )
                }
            });
    }
}

/// A command buffer between begin and end, with a method for each Vulkan command. Their arguments live until the recorded work has ended;
/// the round's order of declarations ensures that.
pub(super) struct Recorder<'r> {
    device: &'r Device<'r>,
    buffer: vk::CommandBuffer,
}

impl<'r> Recorder<'r> {
    /// Records the commands of `record` into `buffer`, which is in its initial state.
    ///
    /// # Safety
    ///
    /// `buffer` belongs to `device` and was never recorded. All objects that `record` uses live, in the states that it assumes, until the work
    /// has ended.
    pub(super) unsafe fn record(
        device: &'r Device<'r>,
        buffer: vk::CommandBuffer,
        record: impl FnOnce(&Self),
    ) -> Result<(), WorkloadError> {
        let once = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        device.check(
            "vkBeginCommandBuffer",
            ObjectKind::CommandBuffer,
            |vk, _| {
                // SAFETY: in its initial state, as the caller promises.
                unsafe { (vk.begin_command_buffer)(buffer, &raw const once) }
            },
        )?;
        record(&Self { device, buffer });
        device.check("vkEndCommandBuffer", ObjectKind::CommandBuffer, |vk, _| {
            // SAFETY: begun above; every begun render pass and query has ended.
            unsafe { (vk.end_command_buffer)(buffer) }
        })
    }

    fn call(
        &self,
        command: &'static str,
        call: impl FnOnce(&ash::DeviceFnV1_0, vk::CommandBuffer),
    ) {
        let (table, buffer) = (self.device.v1_0(), self.buffer);
        self.device
            .call(command, ObjectKind::CommandBuffer, |_, _| {
                call(table, buffer)
            });
    }

    pub(super) fn fill(&self, buffer: vk::Buffer, word: u32) {
        self.call("vkCmdFillBuffer", |vk, this| {
            // SAFETY: recording (see `record`); the buffer has TRANSFER_DST usage and a size that is a multiple of 4.
            unsafe { (vk.cmd_fill_buffer)(this, buffer, 0, vk::WHOLE_SIZE, word) }
        });
    }

    pub(super) fn set_event(&self, event: vk::Event, after: vk::PipelineStageFlags) {
        self.call("vkCmdSetEvent", |vk, this| {
            // SAFETY: recording, outside of a render pass; the event lives.
            unsafe { (vk.cmd_set_event)(this, event, after) }
        });
    }

    pub(super) fn wait_event(
        &self,
        event: vk::Event,
        from: (vk::PipelineStageFlags, vk::AccessFlags),
        to: (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(from.1)
            .dst_access_mask(to.1);
        self.call("vkCmdWaitEvents", |vk, this| {
            let (none, nil) = (std::ptr::null(), std::ptr::null());
            // SAFETY: recording; one event, set before with the same stage; one memory barrier and no others.
            unsafe {
                (vk.cmd_wait_events)(
                    this,
                    1,
                    &raw const event,
                    from.0,
                    to.0,
                    1,
                    &raw const barrier,
                    0,
                    none,
                    0,
                    nil,
                )
            }
        });
    }

    pub(super) fn memory_barrier(
        &self,
        from: (vk::PipelineStageFlags, vk::AccessFlags),
        to: (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(from.1)
            .dst_access_mask(to.1)];
        self.barrier(from.0, to.0, &barrier, &[]);
    }

    /// Changes the layout of the one layer of `image`.
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
        let (memories, image_count) = (memory.len() as u32, images.len() as u32);
        self.call("vkCmdPipelineBarrier", |vk, this| {
            let (flags, none) = (vk::DependencyFlags::empty(), std::ptr::null());
            // SAFETY: recording, outside of a render pass; the counts are those of the slices; images live.
            unsafe {
                (vk.cmd_pipeline_barrier)(
                    this,
                    from,
                    to,
                    flags,
                    memories,
                    memory.as_ptr(),
                    0,
                    none,
                    image_count,
                    images.as_ptr(),
                )
            }
        });
    }

    /// Binds one set and pushes the seed.
    pub(super) fn bind(
        &self,
        point: vk::PipelineBindPoint,
        stage: vk::ShaderStageFlags,
        layout: vk::PipelineLayout,
        set: vk::DescriptorSet,
        seed: u32,
    ) {
        self.call("vkCmdBindDescriptorSets", |vk, this| {
            // SAFETY: recording; the set fits set 0 of this layout; no dynamic offsets.
            unsafe {
                (vk.cmd_bind_descriptor_sets)(
                    this,
                    point,
                    layout,
                    0,
                    1,
                    &raw const set,
                    0,
                    std::ptr::null(),
                )
            }
        });
        self.call("vkCmdPushConstants", |vk, this| {
            // SAFETY: recording; the layout's one range has these 4 bytes for this stage.
            unsafe {
                (vk.cmd_push_constants)(
                    this,
                    layout,
                    stage,
                    0,
                    size_of::<u32>() as u32,
                    (&raw const seed).cast(),
                )
            }
        });
    }

    pub(super) fn bind_pipeline(&self, point: vk::PipelineBindPoint, pipeline: vk::Pipeline) {
        self.call("vkCmdBindPipeline", |vk, this| {
            // SAFETY: recording; the pipeline lives and is of this bind point.
            unsafe { (vk.cmd_bind_pipeline)(this, point, pipeline) }
        });
    }

    pub(super) fn dispatch(&self, groups: u32) {
        self.call("vkCmdDispatch", |vk, this| {
            // SAFETY: recording, outside of a render pass; pipeline, set and push constants were bound.
            unsafe { (vk.cmd_dispatch)(this, groups, 1, 1) }
        });
    }

    /// Copies `size` bytes; each buffer has its own offset.
    pub(super) fn copy_buffer(
        &self,
        (from, src_offset): (vk::Buffer, u64),
        (to, dst_offset): (vk::Buffer, u64),
        size: u64,
    ) {
        let region = vk::BufferCopy {
            src_offset,
            dst_offset,
            size,
        };
        self.call("vkCmdCopyBuffer", |vk, this| {
            // SAFETY: recording; usages allow it and the region lies in both buffers.
            unsafe { (vk.cmd_copy_buffer)(this, from, to, 1, &raw const region) }
        });
    }

    /// `image` is in `TRANSFER_DST_OPTIMAL`.
    pub(super) fn clear(&self, image: vk::Image, word: u32) {
        let (color, range) = (vk::ClearColorValue { uint32: [word; 4] }, COLOR);
        let layout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
        self.call("vkCmdClearColorImage", |vk, this| {
            // SAFETY: recording, outside of a render pass; the image has TRANSFER_DST usage and is in this layout.
            unsafe {
                (vk.cmd_clear_color_image)(
                    this,
                    image,
                    layout,
                    &raw const color,
                    1,
                    &raw const range,
                )
            }
        });
    }

    pub(super) fn reset_queries(&self, pool: vk::QueryPool) {
        self.call("vkCmdResetQueryPool", |vk, this| {
            // SAFETY: recording, outside of a render pass; the pool has one query, which is not active.
            unsafe { (vk.cmd_reset_query_pool)(this, pool, 0, 1) }
        });
    }

    /// Records a render pass, with the query around the commands of `draw`.
    pub(super) fn render_pass(
        &self,
        graphics: &Graphics<'_>,
        query: vk::QueryPool,
        draw: impl FnOnce(&Self),
    ) {
        let clear = vk::ClearValue {
            color: vk::ClearColorValue { uint32: [0; 4] },
        };
        let info = vk::RenderPassBeginInfo::default()
            .render_pass(*graphics.render_pass)
            .framebuffer(*graphics.framebuffer)
            .render_area(area())
            .clear_values(slice::from_ref(&clear));
        self.call("vkCmdBeginRenderPass", |vk, this| {
            // SAFETY: recording; the framebuffer fits this pass; one attachment and one clear value.
            unsafe {
                (vk.cmd_begin_render_pass)(this, &raw const info, vk::SubpassContents::INLINE)
            }
        });
        self.call("vkCmdBeginQuery", |vk, this| {
            // SAFETY: recording; the query was reset before the pass.
            unsafe { (vk.cmd_begin_query)(this, query, 0, vk::QueryControlFlags::empty()) }
        });
        draw(self);
        self.call("vkCmdEndQuery", |vk, this| {
            // SAFETY: begun above, in the same subpass.
            unsafe { (vk.cmd_end_query)(this, query, 0) }
        });
        self.call("vkCmdEndRenderPass", |vk, this| {
            // SAFETY: begun above.
            unsafe { (vk.cmd_end_render_pass)(this) }
        });
    }

    pub(super) fn draw(&self, vertices: u32) {
        self.call("vkCmdDraw", |vk, this| {
            // SAFETY: recording, inside a render pass; pipeline, set and push constants were bound.
            unsafe { (vk.cmd_draw)(this, vertices, 1, 0, 0) }
        });
    }

    /// Copies the whole drawn image, tightly packed, to byte `offset` of `to`.
    pub(super) fn copy_image(&self, image: vk::Image, to: vk::Buffer, offset: u64) {
        let region = vk::BufferImageCopy {
            buffer_offset: offset,
            image_subresource: vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                mip_level: 0,
                base_array_layer: 0,
                layer_count: 1,
            },
            image_extent: vk::Extent3D {
                width: SIDE,
                height: SIDE,
                depth: 1,
            },
            ..Default::default()
        };
        let layout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        self.call("vkCmdCopyImageToBuffer", |vk, this| {
            // SAFETY: recording; the image is in this layout and the region lies in image and buffer.
            unsafe { (vk.cmd_copy_image_to_buffer)(this, image, layout, to, 1, &raw const region) }
        });
    }
}
