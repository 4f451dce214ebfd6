//! The state of a context table: its contexts, their users, and the handlers. Nothing is created, destroyed or called under its lock.
//!
//! ```text
//!   unknown --put--> open --close (no users)--> leaving --remove--> unknown       a number is used once
//!                      ^                            |
//!                      +---------- reopen ----------+                              the release was refused
//! ```

#![forbid(unsafe_code)]

use super::device_context::DeviceContextId;
use super::error::ContextError;
use crate::sync::StateMutex;

/// Most contexts at a time.
const CONTEXTS: usize = 64;

/// A register of contexts, each a reference `C`, and of handlers `H`.
pub(super) struct ContextRegister<C, H> {
    state: StateMutex<RegisterState<C, H>>,
}

struct RegisterState<C, H> {
    slots: [Option<RegisterEntry<C>>; CONTEXTS],
    default: Option<DeviceContextId>,
    /// `None`: dispatches get the default context.
    handlers: Option<H>,
    /// Dispatches between acquire and release.
    acquired: u64,
}

struct RegisterEntry<C> {
    id: DeviceContextId,
    users: u32,
    /// It is being released.
    is_leaving: bool,
    context: C,
}

impl<C: Clone, H: Copy> ContextRegister<C, H> {
    pub(super) const fn new() -> Self {
        let state = RegisterState {
            slots: [const { None }; CONTEXTS],
            default: None,
            handlers: None,
            acquired: 0,
        };
        Self {
            state: StateMutex::new(state),
        }
    }

    /// Adds a context. Returns it if the register is full.
    pub(super) fn put(&self, id: DeviceContextId, context: C) -> Result<(), C> {
        let mut state = self.state.lock();
        match state.slots.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(RegisterEntry {
                    id,
                    users: 0,
                    is_leaving: false,
                    context,
                });
                Ok(())
            }
            None => Err(context),
        }
    }

    /// Adds a user: the context is not released before it [leaves](Self::leave).
    pub(super) fn join(&self, id: DeviceContextId) -> Result<C, ContextError> {
        let mut state = self.state.lock();
        let entry = state.find(id)?;
        if entry.is_leaving {
            return Err(ContextError::InUse);
        }
        entry.users = entry.users.checked_add(1).ok_or(ContextError::InUse)?;
        Ok(entry.context.clone())
    }

    /// Removes a user.
    pub(super) fn leave(&self, id: DeviceContextId) {
        let mut state = self.state.lock();
        if let Ok(entry) = state.find(id) {
            entry.users = entry.users.wrapping_sub(1);
        }
    }

    /// Closes a context without users: it has none until it is [removed](Self::remove) or [reopened](Self::reopen).
    pub(super) fn close(&self, id: DeviceContextId) -> Result<C, ContextError> {
        let mut state = self.state.lock();
        let entry = state.find(id)?;
        if entry.users > 0 || entry.is_leaving {
            return Err(ContextError::InUse);
        }
        entry.is_leaving = true;
        Ok(entry.context.clone())
    }

    /// Reopens a context that was not released.
    pub(super) fn reopen(&self, id: DeviceContextId) {
        let mut state = self.state.lock();
        if let Ok(entry) = state.find(id) {
            entry.is_leaving = false;
        }
    }

    /// Removes a context. Returns its reference.
    #[must_use = "to be dropped without the lock"]
    pub(super) fn remove(&self, id: DeviceContextId) -> Option<C> {
        let mut state = self.state.lock();
        if state.default == Some(id) {
            state.default = None;
        }
        let slot = state
            .slots
            .iter_mut()
            .find(|slot| slot.as_ref().is_some_and(|entry| entry.id == id))?;
        slot.take().map(|entry| entry.context)
    }

    /// See [`ContextTable::set_default`](super::ContextTable::set_default).
    pub(super) fn set_default(
        &self,
        id: Option<DeviceContextId>,
    ) -> Result<Option<DeviceContextId>, ContextError> {
        let mut state = self.state.lock();
        if let Some(id) = id {
            state.find(id)?;
        }
        state.check_unused()?;
        Ok(core::mem::replace(&mut state.default, id))
    }

    /// See [`ContextTable::set_context_handlers`](super::ContextTable::set_context_handlers).
    pub(super) fn set_handlers(&self, handlers: Option<H>) -> Result<Option<H>, ContextError> {
        let mut state = self.state.lock();
        state.check_unused()?;
        Ok(core::mem::replace(&mut state.handlers, handlers))
    }

    /// Begins a dispatch: handlers and default cannot change until it [ends](Self::end).
    pub(super) fn begin(&self) -> (Option<H>, Option<DeviceContextId>) {
        let mut state = self.state.lock();
        state.acquired = state.acquired.wrapping_add(1);
        (state.handlers, state.default)
    }

    /// Ends a dispatch, after its handler.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.acquired = state.acquired.wrapping_sub(1);
    }

    /// The number of contexts and of dispatches, and the default.
    pub(super) fn counts(&self) -> (usize, u64, Option<DeviceContextId>) {
        let state = self.state.lock();
        (
            state.slots.iter().flatten().count(),
            state.acquired,
            state.default,
        )
    }
}

impl<C, H> RegisterState<C, H> {
    fn find(&mut self, id: DeviceContextId) -> Result<&mut RegisterEntry<C>, ContextError> {
        self.slots
            .iter_mut()
            .flatten()
            .find(|entry| entry.id == id)
            .ok_or(ContextError::Released)
    }

    const fn check_unused(&self) -> Result<(), ContextError> {
        if self.acquired > 0 {
            Err(ContextError::HandlersInUse)
        } else {
            Ok(())
        }
    }
}
