use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::marker::PhantomPinned;
use core::ptr::NonNull;

use alloc_core::{
    AllocError, AllocatorTraits, CloseError, Context, ContextHandle, ContextOptions, HostAllocator, Notice, Scope,
    TryVec,
};

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
/// // SAFETY: no callbacks were given here either.
/// let device = unsafe { DeviceDomain::new(std::ptr::null()) }?;
/// let block = device.chain(&instance, None).allocate(std::alloc::Layout::new::<u64>(), Scope::Object)?;
/// assert_eq!(block.level(), Level::Default);
/// # Ok::<(), vk_callbacks::CallbackError>(())
/// ```
pub struct InstanceDomain<'d> {
    own: Option<CallbackAllocator>,
    default: &'d DynHost<'d>,
}

impl core::fmt::Debug for InstanceDomain<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("InstanceDomain").field("own", &self.own).finish_non_exhaustive()
    }
}

/// The `pAllocator` of `vkCreateDevice`, for a driver's device.
#[derive(Debug)]
pub struct DeviceDomain {
    own: Option<CallbackAllocator>,
}

impl<'d> InstanceDomain<'d> {
    /// Copies `p_allocator`, as [`CallbackAllocator::from_ptr`].
    ///
    /// # Safety
    /// As [`CallbackAllocator::from_ptr`].
    pub unsafe fn new(p_allocator: *const RawCallbacks, default: &'d DynHost<'d>) -> Result<Self, CallbackError> {
        Ok(Self {
            // SAFETY: NULL or a readable struct of callbacks that obey the specification.
            own: unsafe { CallbackAllocator::from_ptr(p_allocator) }?,
            default,
        })
    }

    /// The application's callbacks, if any. A root context over them must end before this struct ends or moves.
    #[must_use]
    pub const fn own(&self) -> Option<&CallbackAllocator> {
        self.own.as_ref()
    }

    const fn default_allocator(&self) -> &&'d DynHost<'d> {
        &self.default
    }

    /// The chain of a command on the instance; `p_allocator` is that command's own, if any.
    #[must_use]
    pub fn chain<'a>(&'a self, p_allocator: Option<&'a CallbackAllocator>) -> FallbackChain<'a> {
        FallbackChain::new(self.default).instance(&self.own).object(p_allocator)
    }
}

impl DeviceDomain {
    /// Copies `p_allocator`, as [`CallbackAllocator::from_ptr`].
    ///
    /// # Safety
    /// As [`CallbackAllocator::from_ptr`].
    pub unsafe fn new(p_allocator: *const RawCallbacks) -> Result<Self, CallbackError> {
        Ok(Self {
            // SAFETY: NULL or a readable struct of callbacks that obey the specification.
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

/// A pool's callbacks by value, a context over them for the children's memory, and the children's handles.
///
/// 1. Place it in its object.
/// 2. [`open`](Self::open) it there.
/// 3. To destroy it, [replace its callbacks](Self::replace_callbacks) by those of the destroying command, and destroy
///    the children.
/// 4. [`close`](Self::close) it, and destroy the object.
#[derive(Debug)]
pub struct PoolDomain {
    // Before `own`: its memory is the context's, and the context's is `own`'s.
    children: Option<TryVec<u64, ContextHandle>>,
    context: Option<Context>,
    own: Option<Own>,
    // The context has the address of `own`, even while the domain is borrowed mutably.
    _pinned: PhantomPinned,
}

/// The context uses their address, before and after they are replaced.
#[derive(Debug)]
struct Own(UnsafeCell<CallbackAllocator>);

// SAFETY: callbacks may be shared, and nothing reads them while they are replaced.
unsafe impl Sync for Own {}

impl Own {
    const fn get(&self) -> &CallbackAllocator {
        // SAFETY: nothing reads them while they are replaced, as `replace_callbacks` requires.
        unsafe { &*self.0.get() }
    }
}

// SAFETY: each call is one of the callbacks' own; those that replace them free their blocks.
unsafe impl HostAllocator for Own {
    fn traits(&self) -> AllocatorTraits {
        self.get().traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.get().allocate(layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: a live block of compatible callbacks, as `HostAllocator::deallocate` requires.
        unsafe { self.get().deallocate(block, layout, scope) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: a live block of compatible callbacks, as `HostAllocator::resize` requires.
        unsafe { self.get().resize(block, old, new, scope) }
    }

    fn notify(&self, notice: Notice) {
        self.get().notify(notice);
    }
}

impl PoolDomain {
    /// Copies `p_allocator`, as [`CallbackAllocator::from_ptr`].
    ///
    /// # Safety
    /// As [`CallbackAllocator::from_ptr`].
    pub unsafe fn new(p_allocator: *const RawCallbacks) -> Result<Self, CallbackError> {
        // SAFETY: NULL or a readable struct of callbacks that obey the specification.
        let own = unsafe { CallbackAllocator::from_ptr(p_allocator) }?;
        Ok(Self {
            children: None,
            context: None,
            own: own.map(|own| Own(UnsafeCell::new(own))),
            _pinned: PhantomPinned,
        })
    }

    /// Creates the context `name`, of scope object, over the most specific of pool, device and instance.
    ///
    /// # Errors
    /// No memory: it is not open.
    ///
    /// # Safety
    /// From here until [`close`](Self::close) answers `Ok`, this domain, `device` and `instance` live and do not move.
    pub unsafe fn open(
        &mut self,
        name: &'static str,
        device: &DeviceDomain,
        instance: &InstanceDomain<'_>,
    ) -> Result<(), CallbackError> {
        let options = ContextOptions::new(name).scope(Scope::Object);
        let context = match (&self.own, device.own().or(instance.own())) {
            // SAFETY: they are in this domain, which does not move until `close`.
            (Some(own), _) => unsafe { Context::root(own, options) },
            // SAFETY: they are in one of the other two domains, which do not move until `close`.
            (None, Some(callbacks)) => unsafe { Context::root(callbacks, options) },
            // SAFETY: the instance's domain, which does not move until `close`, stores the driver's own allocator.
            (None, None) => unsafe { Context::root(instance.default_allocator(), options) },
        }?;
        self.children = Some(TryVec::new_in(context.handle()));
        self.context = Some(context);
        Ok(())
    }

    /// The context for the children's memory, while the pool is open.
    #[must_use]
    pub const fn context(&self) -> Option<&Context> {
        self.context.as_ref()
    }

    /// The pool's callbacks, if any.
    #[must_use]
    pub const fn own(&self) -> Option<&CallbackAllocator> {
        match &self.own {
            Some(own) => Some(own.get()),
            None => None,
        }
    }

    /// The chain of a command on the pool or on a child.
    #[must_use]
    pub fn chain<'a>(&'a self, device: &'a DeviceDomain, instance: &'a InstanceDomain<'_>) -> FallbackChain<'a> {
        device.chain(instance, self.own())
    }

    /// Reserves room for `count` more children, so that [`add_child`](Self::add_child) is not refused.
    ///
    /// # Errors
    /// No memory, or the pool is not open.
    pub fn reserve_children(&mut self, count: usize) -> Result<(), CallbackError> {
        let children = self.children.as_mut().ok_or(CallbackError::ContextInUse)?;
        Ok(children.try_reserve(count)?)
    }

    /// Adds a child, to be destroyed with the pool.
    ///
    /// # Errors
    /// As [`reserve_children`](Self::reserve_children).
    pub fn add_child(&mut self, handle: u64) -> Result<(), CallbackError> {
        let children = self.children.as_mut().ok_or(CallbackError::ContextInUse)?;
        children.try_push(handle).map_err(|refused| CallbackError::Host(refused.error))
    }

    /// Removes a child. False if the pool has none of that handle.
    pub fn remove_child(&mut self, handle: u64) -> bool {
        let Some(children) = &mut self.children else {
            return false;
        };
        let position = children.iter().rposition(|child| *child == handle);
        position.is_some_and(|position| children.swap_remove(position).is_some())
    }

    /// Removes and returns the newest child.
    pub fn pop_child(&mut self) -> Option<u64> {
        self.children.as_mut()?.pop()
    }

    /// The children, the oldest first, unless some were removed.
    #[must_use]
    pub fn children(&self) -> &[u64] {
        self.children.as_deref().unwrap_or_default()
    }

    /// From here on the pool's and its children's memory is freed through `brought`, the callbacks of the destroying
    /// command, if it has any and the pool has its own (V5, V42).
    ///
    /// # Safety
    /// * `brought` are compatible with the callbacks of the pool (V42).
    /// * Until this returns nothing is allocated, resized, freed or notified through the pool's
    ///   [context](Self::context) or a handle of it, on any thread: handles use the callbacks without the domain, so an
    ///   exclusive domain is not enough. Nor may one of those callbacks call this, which would replace itself.
    pub unsafe fn replace_callbacks(&mut self, brought: Option<CallbackAllocator>) {
        if let (Some(own), Some(brought)) = (&self.own, brought) {
            // SAFETY: the domain is exclusive, and nothing reads the callbacks through the context.
            unsafe { *own.0.get() = brought };
        }
    }

    /// Closes the context.
    ///
    /// # Errors
    /// The context stays, if children still have memory of it.
    pub fn close(&mut self) -> Result<(), CloseError> {
        self.children = None;
        let Some(context) = self.context.take() else {
            return Ok(());
        };
        context.close_root().map_err(|refused| {
            self.context = Some(refused.value);
            refused.error
        })
    }
}
