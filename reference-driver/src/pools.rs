use alloc_core::{ContextHandle, Rejected, Scope, TryVec};
use ash::vk;
use vk_callbacks::driver::ArrayObject;
use vk_callbacks::{FallbackChain, Object};

use crate::descriptors::{Descriptor, Set, Slot};
use crate::device::Device;
use crate::edge::{Items, answer, commands, raw, refused, slice, slice_mut, typed};
use crate::exec::Cmd;
use crate::objects::placed;
use crate::pool::Pool;

pub(crate) struct CommandBuffer {
    pub(crate) commands: TryVec<Cmd, ContextHandle>,
    /// Commands that record return no error; `vkEndCommandBuffer` returns this.
    pub(crate) failed: Option<vk::Result>,
}

impl CommandBuffer {
    pub(crate) fn record(&mut self, command: Cmd) {
        if self.failed.is_none() && self.commands.try_push(command).is_err() {
            self.failed = Some(vk::Result::ERROR_OUT_OF_HOST_MEMORY);
        }
    }

    fn reset(&mut self) {
        self.commands.clear();
        self.failed = None;
    }
}

/// The slots are empty.
fn new_set(layout: vk::DescriptorSetLayout, chain: &FallbackChain<'_>) -> Result<Set, vk::Result> {
    // SAFETY: valid usage: a live layout.
    let (_, bindings) = unsafe { Items::<((), (u32, u32))>::get(raw(layout)) }.ok_or(vk::Result::ERROR_UNKNOWN)?;
    let slots = || {
        let of_binding = |(binding, count): &(u32, u32)| {
            let binding = *binding;
            (0..*count).map(move |element| Slot { binding, element, descriptor: Descriptor::None })
        };
        bindings.iter().flat_map(of_binding)
    };
    let mut next = slots();
    let made = ArrayObject::create(chain, Scope::Object, (), slots().count(), |_| next.next().unwrap_or(Slot::NONE));
    made.map_err(|Rejected { error, .. }| refused(error))
}

commands! {
    fn create_command_pool(device: vk::Device as object Device, _info: *const vk::CommandPoolCreateInfo<'_>, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::CommandPool as write _) -> vk::Result {
        *out = vk::CommandPool::null();
        answer(Pool::create(device, p_allocator.cast(), u32::MAX).map(|pool| *out = typed(pool)))
    }
    fn destroy_command_pool(device: vk::Device as object Device, pool: vk::CommandPool, p_allocator: *const vk::AllocationCallbacks<'_>) {
        Pool::destroy::<Object<CommandBuffer>>(device, p_allocator.cast(), raw(pool));
    }
    fn create_descriptor_pool(device: vk::Device as object Device, info: *const vk::DescriptorPoolCreateInfo<'_> as read _, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::DescriptorPool as write _) -> vk::Result {
        *out = vk::DescriptorPool::null();
        answer(Pool::create(device, p_allocator.cast(), info.max_sets).map(|pool| *out = typed(pool)))
    }
    fn destroy_descriptor_pool(device: vk::Device as object Device, pool: vk::DescriptorPool, p_allocator: *const vk::AllocationCallbacks<'_>) {
        Pool::destroy::<Set>(device, p_allocator.cast(), raw(pool));
    }
    fn reset_descriptor_pool(_device: vk::Device, pool: vk::DescriptorPool as object_mut Pool, _flags: vk::DescriptorPoolResetFlags) -> vk::Result {
        while !pool.domain.children().is_empty() {
            pool.free_newest::<Set>();
        }
        vk::Result::SUCCESS
    }
    fn allocate_descriptor_sets(_device: vk::Device, info: *const vk::DescriptorSetAllocateInfo<'_> as read _, out: *mut vk::DescriptorSet) -> vk::Result {
        // SAFETY: valid usage: room for so many handles.
        let out = unsafe { slice_mut(out, info.descriptor_set_count) };
        // SAFETY: valid usage: so many layouts.
        let layouts = unsafe { slice(info.p_set_layouts, info.descriptor_set_count) };
        // SAFETY: valid usage: a live pool, externally synchronised.
        let Some(pool) = (unsafe { Object::<Pool>::borrow_handle_mut(raw(info.descriptor_pool)) }) else {
            return vk::Result::ERROR_UNKNOWN;
        };
        answer(pool.allocate(out, |index, chain, _| {
            new_set(layouts.get(index).copied().unwrap_or_default(), chain)
        }))
    }
    fn free_descriptor_sets(_device: vk::Device, pool: vk::DescriptorPool as object_mut Pool, count: u32, sets: *const vk::DescriptorSet) -> vk::Result {
        // SAFETY: valid usage: so many sets.
        pool.free::<Set>(unsafe { slice(sets, count) });
        vk::Result::SUCCESS
    }
    fn allocate_command_buffers(_device: vk::Device, info: *const vk::CommandBufferAllocateInfo<'_> as read _, out: *mut vk::CommandBuffer) -> vk::Result {
        // SAFETY: valid usage: room for so many handles.
        let out = unsafe { slice_mut(out, info.command_buffer_count) };
        // SAFETY: valid usage: a live pool, externally synchronised.
        let Some(pool) = (unsafe { Object::<Pool>::borrow_handle_mut(raw(info.command_pool)) }) else {
            return vk::Result::ERROR_UNKNOWN;
        };
        answer(pool.allocate(out, |_, chain, context| {
            let commands = TryVec::new_in(context.clone());
            let buffer = CommandBuffer { commands, failed: None };
            placed(Object::create_with_scope(chain, Scope::Object, buffer))
        }))
    }
    fn free_command_buffers(_device: vk::Device, pool: vk::CommandPool as object_mut Pool, count: u32, buffers: *const vk::CommandBuffer) {
        // SAFETY: valid usage: so many command buffers.
        pool.free::<Object<CommandBuffer>>(unsafe { slice(buffers, count) });
    }
    fn reset_command_pool(_device: vk::Device, pool: vk::CommandPool as object_mut Pool, _flags: vk::CommandPoolResetFlags) -> vk::Result {
        for child in pool.domain.children() {
            // SAFETY: valid usage: a live child, which is not pending.
            if let Some(buffer) = unsafe { Object::<CommandBuffer>::borrow_handle_mut(*child) } {
                buffer.reset();
            }
        }
        vk::Result::SUCCESS
    }
    fn trim_command_pool(_device: vk::Device, _pool: vk::CommandPool, _flags: vk::CommandPoolTrimFlags) {}
    fn begin_command_buffer(buffer: vk::CommandBuffer as object_mut CommandBuffer, _info: *const vk::CommandBufferBeginInfo<'_>) -> vk::Result {
        buffer.reset();
        vk::Result::SUCCESS
    }
    fn end_command_buffer(buffer: vk::CommandBuffer as object_mut CommandBuffer) -> vk::Result {
        answer(buffer.failed.map_or(Ok(()), Err))
    }
    fn reset_command_buffer(buffer: vk::CommandBuffer as object_mut CommandBuffer, _flags: vk::CommandBufferResetFlags) -> vk::Result {
        buffer.reset();
        vk::Result::SUCCESS
    }
}
