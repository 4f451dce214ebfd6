//! The stored callbacks of a driver: its instance's and its device's, by value.

use super::callbacks::CallbackAllocator;
use super::fallback_chain::{DynHost, FallbackChain};
use crate::error::CallbackError;
use crate::raw::RawCallbacks;

/// The `pAllocator` of `vkCreateInstance`, and the driver's own allocator, for a driver's instance.
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

/// The `pAllocator` of `vkCreateDevice`, for a driver's device.
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

    /// The application's callbacks, if any. A root context over them must end before this struct ends or moves.
    #[must_use]
    pub const fn own(&self) -> Option<&CallbackAllocator> {
        self.own.as_ref()
    }

    /// The driver's own allocator.
    pub(super) const fn default_allocator(&self) -> &&'d DynHost<'d> {
        &self.default
    }

    /// The chain of a command on the instance; `p_allocator` is that command's own, if any.
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

    /// The application's callbacks, if any, as [`InstanceDomain::own`].
    #[must_use]
    pub const fn own(&self) -> Option<&CallbackAllocator> {
        self.own.as_ref()
    }

    /// The chain of a command on the device; `p_allocator` is that command's own, or the pool's for a pool's child.
    #[must_use]
    pub fn chain<'a>(
        &'a self,
        instance: &'a InstanceDomain<'_>,
        p_allocator: Option<&'a CallbackAllocator>,
    ) -> FallbackChain<'a> {
        instance.chain(p_allocator).device(&self.own)
    }
}
