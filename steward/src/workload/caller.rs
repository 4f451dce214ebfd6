//! Calls of Vulkan commands in brackets: every call of the workload goes through here, so none lacks its bracket.

#![forbid(unsafe_code)]

use std::cell::Cell;

use alloc_core::HostAllocator;
use ash::vk;

use super::answer::Answer;
use super::error::WorkloadError;
use vk_accounts::CreatedObject;
use vk_accounts::Hooks;
use vk_accounts::ObjectKind;

/// The hooks of a run, and its counts so far.
pub(super) struct Caller<'h> {
    hooks: &'h dyn Hooks,
    commands: Cell<u64>,
    made: [Cell<u32>; ObjectKind::COUNT],
    phase: Cell<&'static str>,
    /// While true, no other phase begins.
    phase_is_kept: Cell<bool>,
}

impl<'h> Caller<'h> {
    pub(super) fn new(hooks: &'h dyn Hooks) -> Self {
        Self {
            hooks,
            commands: Cell::new(0),
            made: [const { Cell::new(0) }; ObjectKind::COUNT],
            phase: Cell::new(""),
            phase_is_kept: Cell::new(false),
        }
    }

    /// Calls a command in its bracket. `call` must only call the function pointer: any allocation in it would be counted as the driver's.
    /// It is called once, even if the hooks do not call it.
    pub(super) fn call<R: Answer>(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: impl FnOnce() -> R,
    ) -> R {
        self.commands.set(self.commands.get().saturating_add(1));
        let (mut call, mut answer) = (Some(call), None);
        self.hooks.command(command, kind, &mut || {
            if let Some(call) = call.take() {
                answer = Some(call());
            }
            answer.as_ref().map_or(vk::Result::SUCCESS, Answer::result)
        });
        match (answer, call) {
            (Some(answer), _) => answer,
            (None, Some(call)) => call(),
            (None, None) => unreachable!("a call that was taken has answered"),
        }
    }

    /// As [`Caller::call`]; every result but `SUCCESS` is an error.
    pub(super) fn check(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: impl FnOnce() -> vk::Result,
    ) -> Result<(), WorkloadError> {
        match self.call(command, kind, call) {
            vk::Result::SUCCESS => Ok(()),
            result => Err(WorkloadError::Command { command, result }),
        }
    }

    /// As [`Caller::call`] for a command that destroys `objects`.
    pub(super) fn end<R: Answer>(
        &self,
        command: &'static str,
        objects: &[CreatedObject<'_>],
        call: impl FnOnce() -> R,
    ) -> R {
        objects.iter().for_each(|object| self.hooks.ends(object));
        self.call(
            command,
            objects
                .first()
                .map_or(ObjectKind::Instance, |object| object.kind),
            call,
        )
    }

    /// Counts and reports an object that the last command created.
    pub(super) fn created(&self, object: &CreatedObject<'_>) {
        self.count(object.kind, 1);
        self.hooks.created(object);
    }

    /// The `pAllocator` for the creation and destruction of objects of this kind.
    pub(super) fn callbacks(&self, kind: ObjectKind) -> *const vk::AllocationCallbacks<'h> {
        self.hooks
            .callbacks(kind)
            .map_or(std::ptr::null(), std::ptr::from_ref)
    }

    /// The allocator for bookkeeping of the workload.
    pub(super) fn memory(&self) -> &'h dyn HostAllocator {
        self.hooks.memory()
    }

    /// Counts objects that were enumerated, or created with another object.
    pub(super) fn count(&self, kind: ObjectKind, number: u32) {
        if let Some(made) = self.made.get(kind.index()) {
            made.set(made.get().saturating_add(number));
        }
    }

    /// Announces a phase, unless it is the current one.
    pub(super) fn phase(&self, name: &'static str) {
        if !self.phase_is_kept.get() && self.phase.replace(name) != name {
            self.hooks.phase(name);
        }
    }

    /// Runs `run` in one phase, even if it destroys objects.
    pub(super) fn in_phase<R>(&self, name: &'static str, run: impl FnOnce() -> R) -> R {
        self.phase(name);
        let kept = self.phase_is_kept.replace(true);
        let answer = run();
        self.phase_is_kept.set(kept);
        answer
    }

    /// Commands called so far.
    pub(super) fn commands(&self) -> u64 {
        self.commands.get()
    }

    /// Objects created so far, by [`ObjectKind::index`].
    pub(super) fn object_created(&self) -> [u32; ObjectKind::COUNT] {
        std::array::from_fn(|index| self.made.get(index).map_or(0, Cell::get))
    }
}
