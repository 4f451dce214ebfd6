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
use super::shared_box::SharedBox;

/// Contexts that are known by [`DeviceContextId`], and the handlers that say which of them a dispatch gets.
///
/// At most 64 contexts are in a table at once; one more is [`ContextError::TooManyContexts`].
///
/// Nothing here is global: an application has as many tables as it likes. Usable from all threads at once; no handler, and nothing of a
/// context, is called with a lock of the table's held.
pub struct ContextTable<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> {
    register: Register<SharedCell<D, P, E>>,
    memory: ContextHandle,
}

type Register<C> = ContextRegister<C, ContextHandlers>;
type SharedCell<D, P, E> = SharedBox<ContextCell<D, P, E>>;

/// Where a context lies; read by users, taken by who releases it when there are none.
struct ContextCell<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync>(
    UnsafeCell<Option<DeviceContext<D, P, E>>>,
);

// SAFETY: read while the register counts a user, written by the one thread that closed it when there was none.
unsafe impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> Sync for ContextCell<D, P, E> where
    DeviceContext<D, P, E>: Send + Sync
{
}

/// `halide_acquire_context`, in Vulkan's and Rust's words: which context a dispatch gets. With `create` false none is to be made for it.
/// `user` is what the dispatch was asked with.
pub type AcquireContext =
    fn(user: *mut c_void, create: bool) -> Result<Option<DeviceContextId>, ContextError>;

/// The dispatch is over: called once for each acquire that did not fail, with what it answered.
pub type ReleaseContext = fn(user: *mut c_void, context: Option<DeviceContextId>);

/// Both, since one without the other would release what was never acquired.
#[derive(Clone, Copy, Debug)]
pub struct ContextHandlers {
    /// Called first.
    pub acquire_context: AcquireContext,
    /// Called last.
    pub release_context: ReleaseContext,
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> ContextTable<D, P, E> {
    /// An empty one, which keeps contexts in this memory.
    #[must_use]
    pub const fn new(memory: ContextHandle) -> Self {
        Self {
            register: ContextRegister::new(),
            memory,
        }
    }

    /// Acquires by number: with a number it says whether these are that context's handles, and makes nothing (see
    /// [`DeviceContext::acquire_again`]); without one the context that `acquire` answers gets a number.
    ///
    /// # Errors
    /// [`ContextError::Released`], [`ContextError::OtherHandle`], [`ContextError::NullHandle`]; what `acquire` refuses;
    /// [`ContextError::TooManyContexts`] and the memory's refusal, by which the context is released again.
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
        // Where it has no room the context goes here.
        self.register
            .put(id, context)
            .map(|()| id)
            .map_err(|_| ContextError::TooManyContexts)
    }

    /// Lets somebody use a context. It is not released meanwhile.
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

    /// Releases by number. `None` is a context that was never acquired: nothing is done. The handles must be those that it was acquired
    /// with.
    ///
    /// # Errors
    /// [`ContextError::Released`] for a number that was released; [`ContextError::NullHandle`], [`ContextError::OtherHandle`],
    /// [`ContextError::InUse`], [`ContextError::Outstanding`]: the context is as it was, and has its number.
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

    /// Which context dispatches get where no handlers are set; answers which it was.
    ///
    /// # Errors
    /// [`ContextError::Released`]; [`ContextError::HandlersInUse`] between an acquire and its release.
    pub fn set_default(
        &self,
        id: Option<DeviceContextId>,
    ) -> Result<Option<DeviceContextId>, ContextError> {
        self.register.set_default(id)
    }

    /// `set_acquire_context` and `set_release_context` at once, so that no dispatch ever sees one of each; answers the pair before.
    /// `None` is the default: the context of [`set_default`](Self::set_default).
    ///
    /// # Errors
    /// [`ContextError::HandlersInUse`] between an acquire and its release; nothing is changed.
    pub fn set_context_handlers(
        &self,
        handlers: Option<ContextHandlers>,
    ) -> Result<Option<ContextHandlers>, ContextError> {
        self.register.set_handlers(handlers)
    }

    /// Acquires a context for one dispatch, runs it, and releases the context: by the handlers, one call each. Others wait meanwhile for the
    /// same context. Nothing is loaded or made. `None` is handed to `run` where there is no context and `create` is false.
    ///
    /// # Errors
    /// What the handler refuses; [`ContextError::Released`] where it answered a context that is none, [`ContextError::NoContext`] where there
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

/// A context that is being released, or is not after all: of its table, when this is dropped.
struct ReleaseGuard<'t, C: Clone> {
    register: &'t Register<C>,
    id: DeviceContextId,
    cell: C,
    /// Nothing is left of it; also where a destructor of a shader, say, unwinds.
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
        // SAFETY: closed, with no users: this thread alone is at it.
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
        // SAFETY: this user is counted, so nobody writes.
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

/// A dispatch that is counted, until dropped; then the handler that belongs to its acquire is called.
struct AcquireGuard<'t, C: Clone> {
    register: &'t Register<C>,
    user: *mut c_void,
    release: Option<(ReleaseContext, Option<DeviceContextId>)>,
}

impl<C: Clone> Drop for AcquireGuard<'_, C> {
    fn drop(&mut self) {
        if let Some((release, id)) = self.release.take() {
            // It is over when the handler has returned, and where that unwinds.
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
