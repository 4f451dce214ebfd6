//! What a driver's command or descriptor pool keeps of its callbacks: its children draw on them, command after command (V34, V38, V39).

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::marker::PhantomPinned;
use core::ptr::NonNull;

use alloc_core::{
    AllocError, AllocatorTraits, CloseError, Context, ContextHandle, ContextOptions, HostAllocator,
    Notice, Scope, TryVec,
};

use super::callbacks::CallbackAllocator;
use super::domain::{DeviceDomain, InstanceDomain};
use super::fallback_chain::FallbackChain;
use crate::error::CallbackError;
use crate::raw::RawCallbacks;

/// A pool's callbacks by value, a context over them for what children hold, and the children's handles.
///
/// 1. Place it in its object.
/// 2. [`open`](Self::open) it there.
/// 3. When it is destroyed, [replace its callbacks](Self::replace_callbacks) by those that the command brought, and destroy the children.
/// 4. [`close`](Self::close) it, and destroy the object.
#[derive(Debug)]
pub struct PoolDomain {
    // Before `own`: its memory is of the context, and the context's of `own`.
    children: Option<TryVec<u64, ContextHandle>>,
    context: Option<Context>,
    own: Option<Own>,
    // The context has the address of `own`, also while somebody changes the domain.
    _pinned: PhantomPinned,
}

/// The pool's callbacks. The context reaches them by their address, from before they are replaced until after.
#[derive(Debug)]
struct Own(UnsafeCell<CallbackAllocator>);

// SAFETY: callbacks may be shared, and while they are replaced nobody else reads them, as `replace_callbacks` demands.
unsafe impl Sync for Own {}

impl Own {
    const fn get(&self) -> &CallbackAllocator {
        // SAFETY: `replace_callbacks` demands that nothing reads them, by the domain or by its context, while they are replaced.
        unsafe { &*self.0.get() }
    }
}

// SAFETY: forwarded; compatible callbacks free each other's blocks.
unsafe impl HostAllocator for Own {
    fn traits(&self) -> AllocatorTraits {
        self.get().traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.get().allocate(layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { self.get().deallocate(block, layout, scope) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: forwarded.
        unsafe { self.get().resize(block, old, new, scope) }
    }

    fn notify(&self, notice: Notice) {
        self.get().notify(notice);
    }
}

impl PoolDomain {
    /// Copies `p_allocator`, which may be NULL.
    ///
    /// # Errors
    /// As [`CallbackAllocator::from_raw`].
    ///
    /// # Safety
    /// As [`CallbackAllocator::from_ptr`].
    pub unsafe fn new(p_allocator: *const RawCallbacks) -> Result<Self, CallbackError> {
        // SAFETY: forwarded.
        let own = unsafe { CallbackAllocator::from_ptr(p_allocator) }?;
        Ok(Self {
            children: None,
            context: None,
            own: own.map(|own| Own(UnsafeCell::new(own))),
            _pinned: PhantomPinned,
        })
    }

    /// Makes the context `name`, of scope object, over the most specific of pool, device and instance.
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
            // SAFETY: they lie in this domain, which stays where it is until `close`.
            (Some(own), _) => unsafe { Context::root(own, options) },
            // SAFETY: they lie in one of the other two domains, which stay where they are until `close`.
            (None, Some(callbacks)) => unsafe { Context::root(callbacks, options) },
            // SAFETY: as above; the driver's own allocator is kept by the instance's domain.
            (None, None) => unsafe { Context::root(instance.default_allocator(), options) },
        }?;
        self.children = Some(TryVec::new_in(context.handle()));
        self.context = Some(context);
        Ok(())
    }

    /// The context, for what children hold, while the pool is open.
    #[must_use]
    pub const fn context(&self) -> Option<&Context> {
        self.context.as_ref()
    }

    /// The pool's callbacks, if it was given any.
    #[must_use]
    pub const fn own(&self) -> Option<&CallbackAllocator> {
        match &self.own {
            Some(own) => Some(own.get()),
            None => None,
        }
    }

    /// What a command on the pool or on a child may use.
    #[must_use]
    pub fn chain<'a>(
        &'a self,
        device: &'a DeviceDomain,
        instance: &'a InstanceDomain<'_>,
    ) -> FallbackChain<'a> {
        device.chain(instance, self.own())
    }

    /// Makes room for `count` more children, so that [`add_child`](Self::add_child) is not refused.
    ///
    /// # Errors
    /// No memory, or the pool is not open.
    pub fn reserve_children(&mut self, count: usize) -> Result<(), CallbackError> {
        let children = self.children.as_mut().ok_or(CallbackError::ContextInUse)?;
        Ok(children.try_reserve(count)?)
    }

    /// Notes a child, to be destroyed with the pool.
    ///
    /// # Errors
    /// As [`reserve_children`](Self::reserve_children).
    pub fn add_child(&mut self, handle: u64) -> Result<(), CallbackError> {
        let children = self.children.as_mut().ok_or(CallbackError::ContextInUse)?;
        children
            .try_push(handle)
            .map_err(|refused| CallbackError::Host(refused.error))
    }

    /// Forgets a child. False when the pool has none of that handle.
    pub fn remove_child(&mut self, handle: u64) -> bool {
        let Some(children) = &mut self.children else {
            return false;
        };
        let position = children.iter().rposition(|child| *child == handle);
        position.is_some_and(|position| children.swap_remove(position).is_some())
    }

    /// Takes the newest child off the list.
    pub fn pop_child(&mut self) -> Option<u64> {
        self.children.as_mut()?.pop()
    }

    /// The children, the oldest first, unless some were removed.
    #[must_use]
    pub fn children(&self) -> &[u64] {
        self.children.as_deref().unwrap_or_default()
    }

    /// From here on what the pool and its children hold is freed through `brought`, the callbacks of the destroying command, if it brought
    /// any and the pool has its own (V5, V42).
    ///
    /// # Safety
    /// * `brought` are compatible with the callbacks of the pool (V42).
    /// * Until this returns nothing is allocated, resized, freed or notified through the pool's [context](Self::context) or a handle of it,
    ///   on any thread: handles reach the callbacks without the domain, so having it alone is not enough. Nor is this called by one of
    ///   those callbacks, which would replace itself.
    pub unsafe fn replace_callbacks(&mut self, brought: Option<CallbackAllocator>) {
        if let (Some(own), Some(brought)) = (&self.own, brought) {
            // SAFETY: nobody else has the domain, and by the caller's promise nobody reads them through the context, which has the
            // address of the cell.
            unsafe { *own.0.get() = brought };
        }
    }

    /// Frees what the context has.
    ///
    /// # Errors
    /// The context stays, when children still hold memory of it.
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
