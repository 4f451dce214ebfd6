//! A bracket around every command on any thread, with the owners of the callbacks that it may use. Checkers judge by it; guards name it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ash::vk;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{Checker, Command, OwnerId, Owners};

use crate::workload::Answer;

/// The brackets of a run.
pub(super) struct Brackets<'c> {
    checker: Option<&'c Checker<'static>>,
    device: OwnerId,
    state: Mutex<BracketState>,
}

#[derive(Default)]
struct BracketState {
    commands: u64,
    /// Owners by the user data of their callbacks.
    owners: Vec<(usize, OwnerId)>,
    /// Owners of the callbacks that created an object.
    objects: HashMap<(&'static str, u64), OwnerId>,
}

impl<'c> Brackets<'c> {
    /// For a device that is created with callbacks of `device`.
    pub(super) fn new(checker: Option<&'c Checker<'static>>, device: OwnerId) -> Self {
        Self {
            checker,
            device,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, BracketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Callbacks are recognised by their user data.
    pub(super) fn add(&self, owner: OwnerId, callbacks: &vk::AllocationCallbacks<'_>) {
        self.state()
            .owners
            .push((callbacks.p_user_data.addr(), owner));
    }

    /// Commands called so far.
    pub(super) fn commands(&self) -> u64 {
        self.state().commands
    }

    /// The owner of `pAllocator`; `None` for NULL.
    ///
    /// # Safety
    /// NULL, or readable callbacks.
    pub(super) unsafe fn owner(&self, with: *const vk::AllocationCallbacks<'_>) -> Option<OwnerId> {
        // SAFETY: the caller's promise.
        let user = unsafe { with.as_ref() }?.p_user_data.addr();
        self.state()
            .owners
            .iter()
            .find(|(known, _)| *known == user)
            .map(|(_, owner)| *owner)
    }

    /// The owner of the callbacks that created the object.
    pub(super) fn owner_of(&self, kind: &'static str, handle: u64) -> Option<OwnerId> {
        self.state().objects.get(&(kind, handle)).copied()
    }

    /// Runs a command; `call` calls the driver's function and does nothing else.
    pub(super) fn run<R: Answer>(
        &self,
        name: &'static str,
        owners: Owners,
        call: impl FnOnce() -> R,
    ) -> R {
        self.state().commands += 1;
        let bracket = Command::new(name, owners, BracketCoverage::Complete);
        let Some(checker) = self.checker else {
            return bracket.run(|_| call());
        };
        checker.run(bracket, |frame| {
            let answer = call();
            frame.returned(answer.result().as_raw());
            answer
        })
    }

    /// Runs a device command about an object with callbacks of `object`.
    pub(super) fn of_device(&self, object: Option<OwnerId>) -> Owners {
        Owners {
            object,
            device: Some(self.device),
            ..Owners::default()
        }
    }

    /// The last command created this object.
    pub(super) fn created(&self, kind: &'static str, handle: u64, owner: Option<OwnerId>) {
        // A handle's value may have been another object's, with callbacks.
        match owner {
            Some(owner) => self.state().objects.insert((kind, handle), owner),
            None => self.state().objects.remove(&(kind, handle)),
        };
        if let Some(checker) = self.checker {
            checker.created(kind, handle, owner);
        }
    }

    /// `command` destroyed this object with callbacks of `owner`.
    pub(super) fn destroyed(
        &self,
        kind: &'static str,
        handle: u64,
        owner: Option<OwnerId>,
        command: &'static str,
    ) {
        if let Some(checker) = self.checker {
            checker.destroyed(kind, handle, owner, command);
        }
    }
}
