//! Nothing is created, destroyed or called under the lock of a register.
//!
//! ```text
//!   unknown --put--> there --close (no user)--> leaving --settle--> unknown       a number is used once
//!                      ^                          |
//!                      +---------settle-----------+                              the release was refused
//! ```

#![forbid(unsafe_code)]

use super::device_context::DeviceContextId;
use super::error::ContextError;
use crate::sync::StateMutex;

const CONTEXTS: usize = 64;

/// A clone of the counted reference `C` is a user.
pub(super) struct ContextRegister<C, H> {
    state: StateMutex<RegisterState<C, H>>,
}

struct RegisterState<C, H> {
    /// Without a reference: the context is being released.
    contexts: [Option<(DeviceContextId, Option<C>)>; CONTEXTS],
    default: Option<DeviceContextId>,
    /// `None`: dispatches get the default context.
    handlers: Option<H>,
    dispatches: u64,
}

impl<C: Clone, H: Copy> ContextRegister<C, H> {
    pub(super) const fn new() -> Self {
        let state =
            RegisterState { contexts: [const { None }; CONTEXTS], default: None, handlers: None, dispatches: 0 };
        Self { state: StateMutex::new(state) }
    }

    pub(super) fn put(&self, id: DeviceContextId, context: C) -> Result<(), C> {
        let mut state = self.state.lock();
        match state.contexts.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some((id, Some(context))),
            None => return Err(context),
        }
        Ok(())
    }

    pub(super) fn get(&self, id: DeviceContextId) -> Result<C, ContextError> {
        let mut state = self.state.lock();
        state.find(id)?.clone().ok_or(ContextError::InUse)
    }

    /// The context has no user until it is [settled](Self::settle).
    pub(super) fn close(&self, id: DeviceContextId, is_unused: impl FnOnce(&mut C) -> bool) -> Result<C, ContextError> {
        let mut state = self.state.lock();
        state.find(id)?.take_if(is_unused).ok_or(ContextError::InUse)
    }

    pub(super) fn settle(&self, id: DeviceContextId, refused: Option<C>) {
        let mut state = self.state.lock();
        if refused.is_none() && state.default == Some(id) {
            state.default = None;
        }
        let slot = state.contexts.iter_mut().find(|slot| matches!(slot, Some((there, _)) if *there == id));
        if let Some(slot) = slot {
            *slot = refused.map(|context| (id, Some(context)));
        }
    }

    pub(super) fn set_default(&self, id: Option<DeviceContextId>) -> Result<Option<DeviceContextId>, ContextError> {
        let mut state = self.state.lock();
        if let Some(id) = id {
            state.find(id)?;
        }
        state.check_unused()?;
        Ok(core::mem::replace(&mut state.default, id))
    }

    pub(super) fn set_handlers(&self, handlers: Option<H>) -> Result<Option<H>, ContextError> {
        let mut state = self.state.lock();
        state.check_unused()?;
        Ok(core::mem::replace(&mut state.handlers, handlers))
    }

    /// Handlers and default cannot change until the dispatch [ends](Self::end).
    pub(super) fn begin(&self) -> (Option<H>, Option<DeviceContextId>) {
        let mut state = self.state.lock();
        state.dispatches = state.dispatches.wrapping_add(1);
        (state.handlers, state.default)
    }

    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.dispatches = state.dispatches.wrapping_sub(1);
    }
}

impl<C, H> RegisterState<C, H> {
    fn find(&mut self, id: DeviceContextId) -> Result<&mut Option<C>, ContextError> {
        self.contexts
            .iter_mut()
            .flatten()
            .find(|(there, _)| *there == id)
            .map(|(_, context)| context)
            .ok_or(ContextError::Released)
    }

    const fn check_unused(&self) -> Result<(), ContextError> {
        if self.dispatches > 0 { Err(ContextError::HandlersInUse) } else { Ok(()) }
    }
}
