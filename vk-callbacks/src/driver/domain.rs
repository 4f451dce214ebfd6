//! The two places where a driver keeps callbacks: its instance and its device, by value.

use super::callbacks::CallbackAllocator;
use super::fallback_chain::{DynHost, FallbackChain};
use crate::error::CallbackError;
use crate::raw::RawCallbacks;

/// What a driver's instance keeps of `vkCreateInstance`'s `pAllocator`, and the driver's own allocator.
///
/// ```
/// # use alloc_core::{FromGlobalAlloc, Scope};
/// # use vk_callbacks::Level;
/// # use vk_callbacks::driver::{DeviceDomain, InstanceDomain};
/// static DRIVERS_OWN: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// // SAFETY: no callbacks were given.
/// let instance = unsafe { InstanceDomain::new(std::ptr::null(), &DRIVERS_OWN) }?;
/// // SAFETY: as above.
/// let device = unsafe { DeviceDomain::new(std::ptr::null()) }?;
/// let block = device.chain(&instance, None).allocate(std::alloc::Layout::new::<u64>(), Scope::Object)?;
/// assert_eq!(block.level(), Level::Default);
/// # Ok::<(), vk_callbacks::CallbackError>(())
/// ```
pub struct InstanceDomain<'d> {
    own: Option<CallbackAllocator>,
    default: &'d DynHost<'d>,
}

/// What a driver's device keeps of `vkCreateDevice`'s `pAllocator`.
#[derive(Debug)]
pub struct DeviceDomain {
    own: Option<CallbackAllocator>,
}

impl<'d> InstanceDomain<'d> {
    /// Copies `p_allocator`, which may be NULL.
    ///
    /// # Errors
    /// As [`CallbackAllocator::from_raw`].
    ///
    /// # Safety
    /// As [`CallbackAllocator::from_ptr`].
    pub unsafe fn new(
        p_allocator: *const RawCallbacks,
        default: &'d DynHost<'d>,
    ) -> Result<Self, CallbackError> {
        Ok(Self {
            // SAFETY: forwarded.
            own: unsafe { CallbackAllocator::from_ptr(p_allocator) }?,
            default,
        })
    }

    /// The application's callbacks, if it gave any. A root context over them ends before this struct goes or moves.
    #[must_use]
    pub const fn own(&self) -> Option<&CallbackAllocator> {
        self.own.as_ref()
    }

    /// The driver's own allocator, where it lies.
    pub(super) const fn default_allocator(&self) -> &&'d DynHost<'d> {
        &self.default
    }

    /// What a command on the instance may use; `p_allocator` is that command's own, if it has one.
    #[must_use]
    pub fn chain<'a>(&'a self, p_allocator: Option<&'a CallbackAllocator>) -> FallbackChain<'a> {
        FallbackChain::new(self.default)
            .instance(&self.own)
            .object(p_allocator)
    }
}

impl DeviceDomain {
    /// Copies `p_allocator`, which may be NULL.
    ///
    /// # Errors
    /// As [`CallbackAllocator::from_raw`].
    ///
    /// # Safety
    /// As [`CallbackAllocator::from_ptr`].
    pub unsafe fn new(p_allocator: *const RawCallbacks) -> Result<Self, CallbackError> {
        Ok(Self {
            // SAFETY: forwarded.
            own: unsafe { CallbackAllocator::from_ptr(p_allocator) }?,
        })
    }

    /// The application's callbacks, if it gave any: [`InstanceDomain::own`].
    #[must_use]
    pub const fn own(&self) -> Option<&CallbackAllocator> {
        self.own.as_ref()
    }

    /// What a command on the device may use; `p_allocator` is that command's own, or the pool's for a pool's child.
    #[must_use]
    pub fn chain<'a>(
        &'a self,
        instance: &'a InstanceDomain<'_>,
        p_allocator: Option<&'a CallbackAllocator>,
    ) -> FallbackChain<'a> {
        instance.chain(p_allocator).device(&self.own)
    }
}
