//! Pools and their children: command buffers and descriptor sets draw on the callbacks of their pool (RD9).

use alloc_core::{ContextHandle, Rejected, Scope, TryVec};
use ash::vk;
use vk_callbacks::{
    ArrayObject, DeviceDomain, DispatchableObject, FallbackChain, InstanceDomain, Object,
    PoolDomain,
};

use crate::descriptors::{Descriptor, Set, Slot};
use crate::device::{Device, PAllocator, callbacks, own};
use crate::edge::{Items, answer, commands, raw, refused, slice, slice_mut, typed};
use crate::exec::Cmd;
use crate::objects::{AnyObject, placed};

/// `VkCommandPool` and `VkDescriptorPool`.
pub(crate) struct Pool {
    domain: PoolDomain,
    /// It outlives the pool, and nobody changes it (valid usage of vkDestroyDevice).
    device: &'static Device,
    max_children: usize,
}

/// `VkCommandBuffer`.
pub(crate) struct CommandBuffer {
    pub(crate) commands: TryVec<Cmd, ContextHandle>,
    /// What `vkEndCommandBuffer` is to answer: recording has no result of its own.
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

impl Pool {
    fn create(
        device: &'static Device,
        p_allocator: PAllocator,
        max_children: u32,
    ) -> Result<u64, vk::Result> {
        // SAFETY: valid usage of the creating command.
        let own = unsafe { own(p_allocator) }?;
        let chain = device.chain(own.as_ref());
        let p_allocator = if passes_over() {
            core::ptr::null()
        } else {
            p_allocator
        };
        // SAFETY: as above.
        let domain = unsafe { PoolDomain::new(callbacks(p_allocator)) }.map_err(refused)?;
        let pool = Self {
            domain,
            device,
            max_children: max_children as usize,
        };
        let mut pool = placed(Object::create(&chain, pool))?;
        let (device, instance) = below(device);
        // SAFETY: the pool lies in its object, the device in its own, until `destroy` closes the domain.
        match unsafe { pool.get_mut().domain.open("pool", device, instance) } {
            Ok(()) => Ok(pool.into_handle()),
            Err(error) => {
                // SAFETY: the chain it was created with.
                let _ = unsafe { pool.destroy(&chain) };
                Err(refused(error))
            }
        }
    }

    fn destroy<C: AnyObject>(device: &Device, p_allocator: PAllocator, pool: u64) {
        // SAFETY: valid usage of the destroying command: this is the handle's last use.
        let Some(mut object) = (unsafe { Object::<Self>::from_handle(pool) }) else {
            return;
        };
        // SAFETY: as above.
        let Ok(brought) = (unsafe { own(p_allocator) }) else {
            return;
        };
        let chain = device.chain(brought.as_ref());
        // SAFETY: as above.
        let again = unsafe { own(p_allocator) }.ok().flatten();
        let domain = &mut object.get_mut().domain;
        // SAFETY: compatible callbacks (V42).
        unsafe { domain.replace_callbacks(again) };
        while let Some(child) = domain.pop_child() {
            // SAFETY: a child of this pool, whose last use this is; compatible callbacks (V42).
            unsafe { end::<C>(child, &chain) }
        }
        // No child is left that could hold memory.
        let _ = domain.close();
        // SAFETY: as above.
        let _ = unsafe { object.destroy(&chain) };
    }

    /// Makes `out.len()` children, or none.
    fn allocate<C: AnyObject, H: vk::Handle + Copy>(
        &mut self,
        out: &mut [H],
        mut make: impl FnMut(usize, &FallbackChain<'_>, &ContextHandle) -> Result<C, vk::Result>,
    ) -> Result<(), vk::Result> {
        out.iter_mut().for_each(|handle| *handle = typed(0));
        let begins = self.domain.children().len();
        if begins.saturating_add(out.len()) > self.max_children {
            return Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY);
        }
        self.domain.reserve_children(out.len()).map_err(refused)?;
        let done = (0..out.len()).try_for_each(|index| {
            let context = self.domain.context().map(|context| context.handle());
            let context = context.ok_or(vk::Result::ERROR_UNKNOWN)?;
            let child = make(index, &self.chain(), &context)?.handle();
            self.domain.add_child(child).map_err(refused)
        });
        if done.is_err() {
            while self.domain.children().len() > begins {
                self.free_newest::<C>();
            }
            return done;
        }
        for (place, child) in out
            .iter_mut()
            .zip(self.domain.children().iter().skip(begins))
        {
            *place = typed(*child);
        }
        Ok(())
    }

    /// What the pool's commands may use.
    fn chain(&self) -> FallbackChain<'_> {
        let (device, instance) = below(self.device);
        self.domain.chain(device, instance)
    }

    fn free_newest<C: AnyObject>(&mut self) {
        if let Some(child) = self.domain.pop_child() {
            // SAFETY: a child of this pool, made with this chain, whose last use this is.
            unsafe { end::<C>(child, &self.chain()) }
        }
    }

    fn free<C: AnyObject>(&mut self, handles: &[impl vk::Handle + Copy]) {
        for handle in handles {
            let child = raw(*handle);
            if self.domain.remove_child(child) {
                // SAFETY: as in `free_newest`.
                unsafe { end::<C>(child, &self.chain()) }
            }
        }
    }
}

/// Where a pool without callbacks finds some.
fn below(device: &Device) -> (&DeviceDomain, &InstanceDomain<'static>) {
    #[cfg(feature = "testing")]
    if let Some((instance, device)) = crate::defects::nobodys() {
        return (device, instance);
    }
    (&device.domain, &device.instance.domain)
}

/// Whether a defect is planted that has pools pass their callbacks over.
fn passes_over() -> bool {
    #[cfg(feature = "testing")]
    return crate::defects::nobodys().is_some();
    #[cfg(not(feature = "testing"))]
    false
}

/// # Safety
/// As `AnyObject::of` and `AnyObject::end`.
unsafe fn end<C: AnyObject>(child: u64, chain: &FallbackChain<'_>) {
    // SAFETY: forwarded.
    if let Some(child) = unsafe { C::of(child) } {
        // SAFETY: forwarded.
        unsafe { child.end(chain) }
    }
}

/// The slots of a set of this layout, none of them written.
fn new_set(layout: vk::DescriptorSetLayout, chain: &FallbackChain<'_>) -> Result<Set, vk::Result> {
    // SAFETY: valid usage: a live layout.
    let (_, bindings) =
        unsafe { Items::<((), (u32, u32))>::look(raw(layout)) }.ok_or(vk::Result::ERROR_UNKNOWN)?;
    let slots = || {
        let of_binding = |(binding, count): &(u32, u32)| {
            let binding = *binding;
            (0..*count).map(move |element| Slot {
                binding,
                element,
                descriptor: Descriptor::None,
            })
        };
        bindings.iter().flat_map(of_binding)
    };
    let mut next = slots();
    let made = ArrayObject::create(chain, Scope::Object, (), slots().count(), |_| {
        next.next().unwrap_or(Slot::NONE)
    });
    made.map_err(|Rejected { error, .. }| refused(error))
}

commands! {
    fn create_command_pool(device: vk::Device as dispatch Device, _info: *const vk::CommandPoolCreateInfo<'_>, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::CommandPool as write _) -> vk::Result {
        *out = vk::CommandPool::null();
        answer(Pool::create(device, p_allocator.cast(), u32::MAX).map(|pool| *out = typed(pool)))
    }
    fn destroy_command_pool(device: vk::Device as dispatch Device, pool: vk::CommandPool, p_allocator: *const vk::AllocationCallbacks<'_>) {
        Pool::destroy::<DispatchableObject<CommandBuffer>>(device, p_allocator.cast(), raw(pool));
    }
    fn create_descriptor_pool(device: vk::Device as dispatch Device, info: *const vk::DescriptorPoolCreateInfo<'_> as read _, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::DescriptorPool as write _) -> vk::Result {
        *out = vk::DescriptorPool::null();
        answer(Pool::create(device, p_allocator.cast(), info.max_sets).map(|pool| *out = typed(pool)))
    }
    fn destroy_descriptor_pool(device: vk::Device as dispatch Device, pool: vk::DescriptorPool, p_allocator: *const vk::AllocationCallbacks<'_>) {
        Pool::destroy::<Set>(device, p_allocator.cast(), raw(pool));
    }
    fn reset_descriptor_pool(_device: vk::Device, pool: vk::DescriptorPool as change Pool, _flags: vk::DescriptorPoolResetFlags) -> vk::Result {
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
    fn free_descriptor_sets(_device: vk::Device, pool: vk::DescriptorPool as change Pool, count: u32, sets: *const vk::DescriptorSet) -> vk::Result {
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
            placed(DispatchableObject::create_with_scope(chain, Scope::Object, buffer))
        }))
    }
    fn free_command_buffers(_device: vk::Device, pool: vk::CommandPool as change Pool, count: u32, buffers: *const vk::CommandBuffer) {
        // SAFETY: valid usage: so many command buffers, NULL among them.
        pool.free::<DispatchableObject<CommandBuffer>>(unsafe { slice(buffers, count) });
    }
    fn reset_command_pool(_device: vk::Device, pool: vk::CommandPool as change Pool, _flags: vk::CommandPoolResetFlags) -> vk::Result {
        for child in pool.domain.children() {
            // SAFETY: children live as long as the pool, and none is pending (valid usage).
            if let Some(buffer) = unsafe { DispatchableObject::<CommandBuffer>::borrow_handle_mut(*child) } {
                buffer.reset();
            }
        }
        vk::Result::SUCCESS
    }
    fn trim_command_pool(_device: vk::Device, _pool: vk::CommandPool, _flags: vk::CommandPoolTrimFlags) {}
    fn begin_command_buffer(buffer: vk::CommandBuffer as change_dispatch CommandBuffer, _info: *const vk::CommandBufferBeginInfo<'_>) -> vk::Result {
        buffer.reset();
        vk::Result::SUCCESS
    }
    fn end_command_buffer(buffer: vk::CommandBuffer as change_dispatch CommandBuffer) -> vk::Result {
        answer(buffer.failed.map_or(Ok(()), Err))
    }
    fn reset_command_buffer(buffer: vk::CommandBuffer as change_dispatch CommandBuffer, _flags: vk::CommandBufferResetFlags) -> vk::Result {
        buffer.reset();
        vk::Result::SUCCESS
    }
}
