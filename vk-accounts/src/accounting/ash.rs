//! The accounts as hooks of the workload.

use alloc_core::{HostAllocator, Scope};
use ash::vk;
use vk_callbacks::command::{BracketCoverage, current_thread};
use vk_callbacks::commands::CommandLevel;
use vk_callbacks::{Command, CommandRow, Owners};

use super::owner::{Owner, number};
use super::{Accounts, Ending};
use crate::ash::{CreatedObject, Hooks};
use crate::object_kind::ObjectKind;

// SAFETY: the structs lie in the accounts, and are neither moved nor changed while those are borrowed. They lead to bridges and taps, which
// live as long and keep Vulkan's rules on any thread; their backing and log outlive the driver's instance (`Accounts::new`). A kind has one
// bridge.
unsafe impl Hooks for Accounts<'_> {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        self.owner(kind).map(|owner| owner.callbacks.as_ash())
    }

    fn memory(&self) -> &dyn HostAllocator {
        &self.suballocator
    }

    fn command(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: &mut dyn FnMut() -> vk::Result,
    ) {
        self.commands.set(self.commands.get() + 1);
        if let Some(stacks) = &self.stacks {
            let moment = stacks.moment();
            stacks.with(|recorder| recorder.begin_command(command, moment));
        }
        if let Some(recorder) = &self.recorder {
            recorder.enter_for(callbacks_kind(kind).map_or(0, number), command);
        }
        // The workload has one thread, and every command of it comes through here.
        let bracket = Command::new(
            command,
            self.chain(command, kind),
            BracketCoverage::Complete,
        );
        let result = match &self.checker {
            None => bracket.run(|_| call()),
            Some(checker) => checker.run(bracket, |frame| {
                let result = call();
                frame.returned(result.as_raw());
                result
            }),
        };
        if let Some(stacks) = &self.stacks {
            let moment = stacks.moment();
            stacks.with(|recorder| recorder.end_command(moment));
        }
        for Ending {
            kind,
            handle,
            callbacks_of,
        } in self.ending.take()
        {
            let owner = callbacks_of.and_then(|callbacks_of| self.owner(callbacks_of));
            if let Some(checker) = &self.checker {
                checker.destroyed(kind.name(), handle, owner.map(Owner::owner_id), command);
            }
            if let Some(recorder) = &self.recorder {
                recorder.destroyed(callbacks_of.map_or(0, number), handle, kind.name());
            }
        }
        if let Some(recorder) = &self.recorder {
            recorder.leave(result.as_raw());
        }
        self.sample_if_wanted();
    }

    fn created(&self, object: &CreatedObject<'_>) {
        let (kind, callbacks_of) = (object.kind.name(), self.callbacks_for(object));
        if let Some(checker) = &self.checker {
            let owner = callbacks_of.and_then(|callbacks_of| self.owner(callbacks_of));
            checker.created(kind, object.handle, owner.map(Owner::owner_id));
        }
        if let Some(stacks) = &self.stacks {
            stacks.with(|recorder| recorder.created(current_thread(), object.handle));
        }
        if let Some(recorder) = &self.recorder {
            recorder.created(callbacks_of.map_or(0, number), object.handle, kind);
        }
    }

    fn ends(&self, object: &CreatedObject<'_>) {
        let ending = Ending {
            kind: object.kind,
            handle: object.handle,
            callbacks_of: self.callbacks_for(object),
        };
        self.ending.borrow_mut().push(ending);
    }

    fn phase(&self, name: &'static str) {
        self.begin_phase(name);
    }
}

impl Accounts<'_> {
    /// The owners of the callbacks that a command about `kind` may call. Children of a pool use the pool's (V34), pipelines also their
    /// cache's (V37); a command of the instance has no device.
    fn chain(&self, command: &'static str, kind: ObjectKind) -> Owners {
        let id = |kind: ObjectKind| self.owner(kind).map(Owner::owner_id);
        let row = CommandRow::of(command);
        let cache = row
            .may_allocate
            .contains(Scope::Cache)
            .then_some(ObjectKind::PipelineCache);
        let device = (row.level == CommandLevel::Device || kind == ObjectKind::Device)
            .then_some(ObjectKind::Device);
        let own = callbacks_kind(kind)
            .filter(|kind| !matches!(kind, ObjectKind::Instance | ObjectKind::Device));
        let cache = cache.filter(|cache| Some(*cache) != own);
        let [object, cache, device] = [own, cache, device].map(|kind| kind.and_then(id));
        Owners {
            object,
            cache,
            device,
            instance: id(ObjectKind::Instance),
            ..Owners::default()
        }
    }

    /// The kind whose callbacks the object's command gets: by their address, or the object's own kind if a wrapper of the caller is in
    /// front of them.
    fn callbacks_for(&self, object: &CreatedObject<'_>) -> Option<ObjectKind> {
        if object.allocator.is_null() {
            return None;
        }
        let at = |owner: &&Owner| std::ptr::eq(owner.callbacks.as_ash(), object.allocator.cast());
        let owner = self.owners.iter().flatten().find(at);
        Some(owner.map_or(object.kind, Owner::kind))
    }

    pub(super) fn owner(&self, kind: ObjectKind) -> Option<&Owner> {
        self.owners.get(kind.index())?.as_ref()
    }
}

/// The kind whose callbacks an object of `kind` uses: its own, or its parent's.
fn callbacks_kind(kind: ObjectKind) -> Option<ObjectKind> {
    if kind.takes_callbacks() {
        Some(kind)
    } else {
        kind.parent()
    }
}
