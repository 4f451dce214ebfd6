//! A pool's children have memory from the pool's callbacks (RD9).

use alloc_core::ContextHandle;
use ash::vk;
use vk_callbacks::driver::{DeviceDomain, InstanceDomain, PoolDomain};
use vk_callbacks::{FallbackChain, Object};

use crate::device::{Device, PAllocator, callbacks, own};
use crate::edge::{raw, refused, typed};
use crate::objects::{AnyObject, placed};

pub(crate) struct Pool {
    pub(crate) domain: PoolDomain,
    /// The device outlives the pool (valid usage).
    device: &'static Device,
    max_children: usize,
}

impl Pool {
    pub(crate) fn create(
        device: &'static Device,
        p_allocator: PAllocator,
        max_children: u32,
    ) -> Result<u64, vk::Result> {
        // SAFETY: valid usage of the creating command.
        let own = unsafe { own(p_allocator) }?;
        let chain = device.chain(own.as_ref());
        let p_allocator = if bypasses_callbacks() { core::ptr::null() } else { p_allocator };
        // SAFETY: valid usage of the creating command.
        let domain = unsafe { PoolDomain::new(callbacks(p_allocator)) }.map_err(refused)?;
        let pool = Self { domain, device, max_children: max_children as usize };
        let mut pool = placed(Object::create(&chain, pool))?;
        let (device, instance) = below(device);
        // SAFETY: the pool lies in its object, the device in its own, until `destroy` closes the domain.
        match unsafe { pool.get_mut().domain.open("pool", device, instance) } {
            Ok(()) => Ok(pool.into_handle()),
            Err(error) => {
                // SAFETY: the chain that it was created with.
                let _ = unsafe { pool.destroy(&chain) };
                Err(refused(error))
            }
        }
    }

    pub(crate) fn destroy<C: AnyObject>(device: &Device, p_allocator: PAllocator, pool: u64) {
        // SAFETY: valid usage: the handle's last use.
        let Some(mut object) = (unsafe { Object::<Self>::from_handle(pool) }) else {
            return;
        };
        // SAFETY: valid usage of the destroying command.
        let Ok(passed) = (unsafe { own(p_allocator) }) else {
            return;
        };
        let chain = device.chain(passed.as_ref());
        // SAFETY: valid usage of the destroying command.
        let again = unsafe { own(p_allocator) }.ok().flatten();
        let domain = &mut object.get_mut().domain;
        // SAFETY: compatible callbacks (V42). No other command on the pool or on a child runs at the same time
        // (external synchronisation) or is called from a callback (V25).
        unsafe { domain.replace_callbacks(again) };
        while let Some(child) = domain.pop_child() {
            // SAFETY: the last use of a child of this pool; compatible callbacks (V42).
            unsafe { end::<C>(child, &chain) }
        }
        // No child is left, so no memory either.
        let _ = domain.close();
        // SAFETY: compatible callbacks (V42).
        let _ = unsafe { object.destroy(&chain) };
    }

    /// Creates `out.len()` children, or none.
    pub(crate) fn allocate<C: AnyObject, H: vk::Handle + Copy>(
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
        for (place, child) in out.iter_mut().zip(self.domain.children().iter().skip(begins)) {
            *place = typed(*child);
        }
        Ok(())
    }

    fn chain(&self) -> FallbackChain<'_> {
        let (device, instance) = below(self.device);
        self.domain.chain(device, instance)
    }

    pub(crate) fn free_newest<C: AnyObject>(&mut self) {
        if let Some(child) = self.domain.pop_child() {
            // SAFETY: the last use of a child of this pool, created with this chain.
            unsafe { end::<C>(child, &self.chain()) }
        }
    }

    pub(crate) fn free<C: AnyObject>(&mut self, handles: &[impl vk::Handle + Copy]) {
        for handle in handles {
            let child = raw(*handle);
            if self.domain.remove_child(child) {
                // SAFETY: the last use of a child of this pool, created with this chain.
                unsafe { end::<C>(child, &self.chain()) }
            }
        }
    }
}

/// A pool without callbacks uses these.
fn below(device: &Device) -> (&DeviceDomain, &InstanceDomain<'static>) {
    #[cfg(planted)]
    if let Some((instance, device)) = crate::defects::bypassing_domains() {
        return (device, instance);
    }
    (&device.domain, &device.instance.domain)
}

fn bypasses_callbacks() -> bool {
    #[cfg(planted)]
    return crate::defects::bypassing_domains().is_some();
    #[cfg(not(planted))]
    false
}

/// # Safety
/// As `AnyObject::of` and `AnyObject::end`.
unsafe fn end<C: AnyObject>(child: u64, chain: &FallbackChain<'_>) {
    // SAFETY: this function's contract.
    if let Some(child) = unsafe { C::of(child) } {
        // SAFETY: this function's contract.
        unsafe { child.end(chain) }
    }
}
