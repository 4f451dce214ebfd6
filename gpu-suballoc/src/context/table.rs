use super::device_context::{DeviceContext, DeviceContextId, ReleaseReport};
use super::error::{ContextError, VulkanHandles};
use super::register::ContextRegister;
use crate::device::DeviceMemory;
use crate::flags::debug_fields;
use crate::on_drop::OnDrop;
use crate::shared_box::SharedBox;
use alloc_core::ContextHandle;
use core::cell::Cell;
use core::ffi::c_void;

/// A table of contexts by [`DeviceContextId`], and the handlers that choose the context of a dispatch.
///
/// At most 64 contexts are in a table at once.
///
/// Handlers and contexts are called without a lock of the table.
pub struct ContextTable<D: DeviceMemory, P, E> {
    register: Register<D, P, E>,
    memory: ContextHandle,
}

type Shared<D, P, E> = SharedBox<DeviceContext<D, P, E>>;
type Register<D, P, E> = ContextRegister<Shared<D, P, E>, ContextHandlers>;

/// `halide_acquire_context` for Vulkan: chooses the context of a dispatch, and creates none if `create` is false.
pub type AcquireContext = fn(user: *mut c_void, create: bool) -> Result<Option<DeviceContextId>, ContextError>;

/// The end of a dispatch: called once for each acquire that did not fail, with its result.
pub type ReleaseContext = fn(user: *mut c_void, context: Option<DeviceContextId>);

/// Both handlers; they are set together.
#[derive(Clone, Copy, Debug)]
pub struct ContextHandlers {
    /// Called first.
    pub acquire_context: AcquireContext,
    /// Called last.
    pub release_context: ReleaseContext,
}

impl<D: DeviceMemory, P, E> ContextTable<D, P, E> {
    /// Creates an empty table with its contexts in `memory`.
    #[must_use]
    pub const fn new(memory: ContextHandle) -> Self {
        Self { register: ContextRegister::new(), memory }
    }

    /// With a number, checks that these are the context's handles (see [`DeviceContext::acquire_again`]); without one,
    /// adds the context that `acquire` returns.
    ///
    /// # Errors
    /// [`ContextError::Released`], [`ContextError::OtherHandle`], [`ContextError::NullHandle`]; refusals of `acquire`;
    /// [`ContextError::TooManyContexts`] and the memory's refusal, after which the context is released.
    pub fn acquire(
        &self,
        known: Option<DeviceContextId>,
        handles: VulkanHandles,
        acquire: impl FnOnce() -> Result<DeviceContext<D, P, E>, ContextError>,
    ) -> Result<DeviceContextId, ContextError> {
        if let Some(id) = known {
            self.with(id, |context| context.acquire_again(handles))??;
            return Ok(id);
        }
        handles.check()?;
        let context = acquire()?;
        context.acquire_again(handles)?;
        let id = context.id();
        let context = SharedBox::new(context, self.memory.clone())?;
        // If the register is full, the context is dropped here.
        self.register.put(id, context).map(|()| id).map_err(|_| ContextError::TooManyContexts)
    }

    /// Calls `run` with a context, which is not released meanwhile.
    ///
    /// # Errors
    /// [`ContextError::Released`], [`ContextError::InUse`] while it is being released.
    pub fn with<R>(
        &self,
        id: DeviceContextId,
        run: impl FnOnce(&DeviceContext<D, P, E>) -> R,
    ) -> Result<R, ContextError> {
        Ok(run(&*self.register.get(id)?))
    }

    /// Releases by number. For `None` nothing happens. The handles must be the context's.
    ///
    /// # Errors
    /// [`ContextError::Released`] for a number that was released; [`ContextError::NullHandle`],
    /// [`ContextError::OtherHandle`], [`ContextError::InUse`], [`ContextError::Outstanding`]: the context keeps its
    /// number.
    pub fn release(
        &self,
        id: Option<DeviceContextId>,
        handles: VulkanHandles,
    ) -> Result<Option<ReleaseReport>, ContextError> {
        let Some(id) = id else { return Ok(None) };
        handles.check()?;
        let closed = self.register.close(id, |context| context.is_only())?;
        // A refused context returns to the table; otherwise the number goes.
        let refused = Cell::new(None);
        let _settle = OnDrop(|| self.register.settle(id, refused.take()));
        // Where this unwinds, the context goes before its number does.
        let mut closed = closed;
        let released = closed.acquire_again(handles).and_then(|()| {
            let context = closed.get_mut().ok_or(ContextError::InUse)?;
            context.try_release().map_err(ContextError::Outstanding)
        });
        match released {
            Ok(report) => {
                drop(closed);
                Ok(Some(report))
            }
            Err(error) => {
                refused.set(Some(closed));
                Err(error)
            }
        }
    }

    /// Sets the context of dispatches without handlers. Returns the former one.
    ///
    /// # Errors
    /// [`ContextError::Released`]; [`ContextError::HandlersInUse`] between an acquire and its release.
    pub fn set_default(&self, id: Option<DeviceContextId>) -> Result<Option<DeviceContextId>, ContextError> {
        self.register.set_default(id)
    }

    /// Sets both handlers at once. Returns the former pair. `None` is the context of
    /// [`set_default`](Self::set_default).
    ///
    /// # Errors
    /// [`ContextError::HandlersInUse`] between an acquire and its release.
    pub fn set_context_handlers(
        &self,
        handlers: Option<ContextHandlers>,
    ) -> Result<Option<ContextHandlers>, ContextError> {
        self.register.set_handlers(handlers)
    }

    /// Acquires a context for one dispatch, runs it, and releases the context, by one call of each handler. Other
    /// dispatches of the context wait. `run` gets `None` if there is no context and `create` is false.
    ///
    /// # Errors
    /// The handler's refusal; [`ContextError::Released`]; [`ContextError::NoContext`] if there is none and `create` is
    /// true; [`ContextError::NestedDispatch`].
    pub fn dispatch<R>(
        &self,
        user: *mut c_void,
        create: bool,
        run: impl FnOnce(Option<&DeviceContext<D, P, E>>) -> R,
    ) -> Result<R, ContextError> {
        let (handlers, default) = self.register.begin();
        let _end = OnDrop(|| self.register.end());
        let id = match handlers {
            Some(handlers) => (handlers.acquire_context)(user, create)?,
            None => default,
        };
        // Called before the dispatch ends, also where `run` unwinds.
        let _release = handlers.map(|of| OnDrop(move || (of.release_context)(user, id)));
        match id {
            Some(id) => self.with(id, |context| context.dispatch(|context| run(Some(context))))?,
            None if create => Err(ContextError::NoContext),
            None => Ok(run(None)),
        }
    }
}

debug_fields!([D: DeviceMemory, P, E] ContextTable<D, P, E>, "ContextTable", |_this|);
