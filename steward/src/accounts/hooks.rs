//! What the workload tells the accounts.

use alloc_core::Scope;
use ash::vk;
use vk_callbacks::{Command, CommandLevel, CommandRow, Coverage, OwnerId, Owners};

use super::owner::{Owner, number};
use super::pools::Pools;
use super::{Accounts, Ending};
use crate::workload::{Hooks, Made, ObjectKind};

// SAFETY: the structs lie in the accounts, which nothing moves or changes while they are borrowed. Behind them are bridges, and
// taps of the recorder, which live there as long and keep Vulkan's rules on any thread; their backing and log outlive the
// driver's instance (`Accounts::new`). A kind has one bridge.
unsafe impl Hooks for Accounts<'_> {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        self.owners.get(kind.index())?.as_ref().map(|owner| owner.callbacks.as_ash())
    }

    fn command(&self, command: &'static str, kind: ObjectKind, call: &mut dyn FnMut() -> vk::Result) {
        self.commands.set(self.commands.get() + 1);
        if let Some(recorder) = &self.recorder {
            recorder.enter_for(number(kind), command);
        }
        let asked = Pools::want(kind).then(|| self.total().total().total_blocks);
        // The workload has one thread, and every command of it comes through here.
        let bracket = Command::new(command, self.chain(command, kind), Coverage::Complete);
        let result = match &self.checker {
            None => bracket.run(|_| call()),
            Some(checker) => checker.run(bracket, |frame| {
                let result = call();
                frame.returned(result.as_raw());
                result
            }),
        };
        if let Some(recorder) = &self.recorder {
            recorder.leave(result.as_raw());
        }
        if let Some(before) = asked {
            self.pools.ran(command, kind, self.total().total().total_blocks.saturating_sub(before));
        }
        for Ending { kind, handle, owner } in self.ending.take() {
            if let Some(checker) = &self.checker {
                checker.destroyed(kind.name(), handle, owner, command);
            }
        }
        self.look();
    }

    fn created(&self, object: &Made<'_>) {
        if let Some(checker) = &self.checker {
            checker.created(object.kind.name(), object.handle, self.given(object));
        }
    }

    fn ends(&self, object: &Made<'_>) {
        let ending = Ending { kind: object.kind, handle: object.handle, owner: self.given(object) };
        self.ending.borrow_mut().push(ending);
    }

    fn phase(&self, name: &'static str) {
        self.begin_phase(name);
    }
}

impl Accounts<'_> {
    /// Whose callbacks a command about `kind` may reach. Children of a pool draw on the pool's (V34), pipelines also on their
    /// cache's (V37); a command of the instance has no device.
    fn chain(&self, command: &'static str, kind: ObjectKind) -> Owners {
        let id = |kind: ObjectKind| self.owners.get(kind.index())?.as_ref().map(Owner::owner_id);
        let row = CommandRow::of(command);
        let cache = row.may_allocate.contains(Scope::Cache).then_some(ObjectKind::PipelineCache);
        let device = (row.level == CommandLevel::Device || kind == ObjectKind::Device).then_some(ObjectKind::Device);
        let own = if kind.takes_callbacks() { Some(kind) } else { kind.parent() };
        let own = own.filter(|kind| !matches!(kind, ObjectKind::Instance | ObjectKind::Device));
        let cache = cache.filter(|cache| Some(*cache) != own);
        let [object, cache, device] = [own, cache, device].map(|kind| kind.and_then(id));
        Owners { object, cache, device, instance: id(ObjectKind::Instance), ..Owners::default() }
    }

    /// Whose callbacks the object's command is given: those at that address, or, where somebody stands in front of them, those of
    /// the kind.
    fn given(&self, object: &Made<'_>) -> Option<OwnerId> {
        if object.allocator.is_null() {
            return None;
        }
        let own = self.owners.get(object.kind.index()).and_then(Option::as_ref);
        let at = |owner: &&Owner| std::ptr::eq(owner.callbacks.as_ash(), object.allocator.cast());
        self.owners.iter().flatten().find(at).or(own).map(Owner::owner_id)
    }
}
