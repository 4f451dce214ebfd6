//! Contexts by number, for C and for tables: a number that was released is an error, never another context.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::fmt;

use alloc_core::ContextHandle;

use super::device_context::{DeviceContext, DeviceContextId};
use super::error::ContextError;
use super::handles::VulkanHandles;
use super::loss_aware_device::ContextDevice;
use super::register::ContextRegister;
use super::release::ReleaseReport;
use crate::shared_box::SharedBox;

/// A table of contexts by [`DeviceContextId`], and the handlers that choose the context of a dispatch.
///
/// At most 64 contexts are in a table at once; one more is [`ContextError::TooManyContexts`].
///
/// An application may have any number of tables. Usable from all threads at once. Handlers and contexts are called without a
/// lock of the table.
pub struct ContextTable<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> {
    register: Register<SharedCell<D, P, E>>,
    memory: ContextHandle,
}

type Register<C> = ContextRegister<C, ContextHandlers>;
type SharedCell<D, P, E> = SharedBox<ContextCell<D, P, E>>;

/// The place of a context: users read it, and a release without users takes it.
struct ContextCell<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync>(
    UnsafeCell<Option<DeviceContext<D, P, E>>>,
);

// SAFETY: read while the register counts a user, written by the one thread that closed it without users.
unsafe impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> Sync for ContextCell<D, P, E> where
    DeviceContext<D, P, E>: Send + Sync
{
}

/// `halide_acquire_context` for Vulkan: chooses the context of a dispatch. If `create` is false it must not create one.
/// `user` is the parameter of the dispatch.
pub type AcquireContext =
    fn(user: *mut c_void, create: bool) -> Result<Option<DeviceContextId>, ContextError>;

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

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> ContextTable<D, P, E> {
    /// Creates an empty table with its contexts in `memory`.
    #[must_use]
    pub const fn new(memory: ContextHandle) -> Self {
        Self {
            register: ContextRegister::new(),
            memory,
        }
    }

    /// Acquires by number: with a number it checks that these are the context's handles (see
    /// [`DeviceContext::acquire_again`]); without one it adds the context that `acquire` returns.
    ///
    /// # Errors
    /// [`ContextError::Released`], [`ContextError::OtherHandle`], [`ContextError::NullHandle`]; refusals of `acquire`;
    /// [`ContextError::TooManyContexts`] and the memory's refusal, which release the context again.
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
        let context = SharedBox::new(
            ContextCell(UnsafeCell::new(Some(context))),
            self.memory.clone(),
        )?;
        // If the register is full, the context is dropped here.
        self.register
            .put(id, context)
            .map(|()| id)
            .map_err(|_| ContextError::TooManyContexts)
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
        let user = self.user(id)?;
        Ok(run(user.context()?))
    }

    /// Releases by number. `None` is a context that was never acquired: nothing happens. The handles must be the context's.
    ///
    /// # Errors
    /// [`ContextError::Released`] for a number that was released; [`ContextError::NullHandle`], [`ContextError::OtherHandle`],
    /// [`ContextError::InUse`], [`ContextError::Outstanding`]: the context keeps its number.
    pub fn release(
        &self,
        id: Option<DeviceContextId>,
        handles: VulkanHandles,
    ) -> Result<Option<ReleaseReport>, ContextError> {
        let Some(id) = id else { return Ok(None) };
        handles.check()?;
        let leaving = ReleaseGuard {
            register: &self.register,
            id,
            cell: self.register.close(id)?,
            is_released: true,
        };
        leaving.release(handles).map(Some)
    }

    /// Sets the context of dispatches without handlers. Returns the former one.
    ///
    /// # Errors
    /// [`ContextError::Released`]; [`ContextError::HandlersInUse`] between an acquire and its release.
    pub fn set_default(
        &self,
        id: Option<DeviceContextId>,
    ) -> Result<Option<DeviceContextId>, ContextError> {
        self.register.set_default(id)
    }

    /// Sets both handlers at once, so that no dispatch sees one of each pair. Returns the former pair.
    /// `None` is the default: the context of [`set_default`](Self::set_default).
    ///
    /// # Errors
    /// [`ContextError::HandlersInUse`] between an acquire and its release.
    pub fn set_context_handlers(
        &self,
        handlers: Option<ContextHandlers>,
    ) -> Result<Option<ContextHandlers>, ContextError> {
        self.register.set_handlers(handlers)
    }

    /// Acquires a context for one dispatch, runs it, and releases the context, by one call of each handler. Other dispatches of the
    /// context wait meanwhile. Nothing is loaded or created. `run` gets `None` if there is no context and `create` is false.
    ///
    /// # Errors
    /// The handler's refusal; [`ContextError::Released`] if it returned a context that does not exist, [`ContextError::NoContext`] if there
    /// is none and `create` is true; [`ContextError::NestedDispatch`]. `run` is not called then.
    pub fn dispatch<R>(
        &self,
        user: *mut c_void,
        create: bool,
        run: impl FnOnce(Option<&DeviceContext<D, P, E>>) -> R,
    ) -> Result<R, ContextError> {
        let (handlers, default) = self.register.begin();
        let mut acquired = AcquireGuard {
            register: &self.register,
            user,
            release: None,
        };
        let id = match handlers {
            Some(handlers) => {
                let id = (handlers.acquire_context)(user, create)?;
                acquired.release = Some((handlers.release_context, id));
                id
            }
            None => default,
        };
        let Some(id) = id else {
            return if create {
                Err(ContextError::NoContext)
            } else {
                Ok(run(None))
            };
        };
        let user = self.user(id)?;
        user.context()?.dispatch(|context| run(Some(context)))
    }

    fn user(
        &self,
        id: DeviceContextId,
    ) -> Result<UserGuard<'_, SharedCell<D, P, E>>, ContextError> {
        Ok(UserGuard {
            cell: self.register.join(id)?,
            id,
            register: &self.register,
        })
    }
}

/// A context that is being released. Dropping it removes the context from the table, or reopens it if the release was refused.
struct ReleaseGuard<'t, C: Clone> {
    register: &'t Register<C>,
    id: DeviceContextId,
    cell: C,
    /// Also true if a destructor, of a shader for instance, unwinds.
    is_released: bool,
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync>
    ReleaseGuard<'_, SharedCell<D, P, E>>
{
    fn release(mut self, handles: VulkanHandles) -> Result<ReleaseReport, ContextError> {
        let context = self.context_mut().take().ok_or(ContextError::Released)?;
        let (context, error) = match context.acquire_again(handles) {
            Ok(()) => match context.release() {
                Ok(released) => return Ok(released),
                Err(refused) => (refused.value, ContextError::Outstanding(refused.error)),
            },
            Err(error) => (context, error),
        };
        *self.context_mut() = Some(context);
        self.is_released = false;
        Err(error)
    }

    fn context_mut(&mut self) -> &mut Option<DeviceContext<D, P, E>> {
        // SAFETY: closed, without users: this thread alone accesses it.
        unsafe { &mut *self.cell.0.get() }
    }
}

impl<C: Clone> Drop for ReleaseGuard<'_, C> {
    fn drop(&mut self) {
        if self.is_released {
            drop(self.register.remove(self.id));
        } else {
            self.register.reopen(self.id);
        }
    }
}

/// A user of a context, until dropped.
struct UserGuard<'t, C: Clone> {
    register: &'t Register<C>,
    id: DeviceContextId,
    cell: C,
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> UserGuard<'_, SharedCell<D, P, E>> {
    fn context(&self) -> Result<&DeviceContext<D, P, E>, ContextError> {
        // SAFETY: this user is counted, so no thread writes.
        unsafe { &*self.cell.0.get() }
            .as_ref()
            .ok_or(ContextError::Released)
    }
}

impl<C: Clone> Drop for UserGuard<'_, C> {
    fn drop(&mut self) {
        self.register.leave(self.id);
    }
}

/// A counted dispatch. Dropping it calls the release handler of its acquire.
struct AcquireGuard<'t, C: Clone> {
    register: &'t Register<C>,
    user: *mut c_void,
    release: Option<(ReleaseContext, Option<DeviceContextId>)>,
}

impl<C: Clone> Drop for AcquireGuard<'_, C> {
    fn drop(&mut self) {
        if let Some((release, id)) = self.release.take() {
            // The dispatch ends when the handler has returned or unwound.
            let _over = AcquireGuard {
                register: self.register,
                user: self.user,
                release: None,
            };
            release(self.user, id);
        } else {
            self.register.end();
        }
    }
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> fmt::Debug for ContextTable<D, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (contexts, acquired, default) = self.register.counts();
        f.debug_struct("ContextTable")
            .field("contexts", &contexts)
            .field("default", &default)
            .field("acquired", &acquired)
            .finish()
    }
}
