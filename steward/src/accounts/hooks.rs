//! What the workload tells the accounts.

use ash::vk;
use vk_callbacks::{Command, Coverage, Owners};

use super::Accounts;
use super::owner::number;
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
        // The workload has one thread, and every command of it comes through here.
        let result = Command::new(command, self.chain(kind), Coverage::Complete).run(|_| call());
        if let Some(recorder) = &self.recorder {
            recorder.leave(result.as_raw());
        }
        self.look();
    }

    fn created(&self, _: &Made<'_>) {}

    fn ends(&self, _: &Made<'_>) {}

    fn phase(&self, name: &'static str) {
        self.begin_phase(name);
    }
}

impl Accounts<'_> {
    /// Whose callbacks a command about `kind` may reach. Children of a pool draw on the pool's (V34).
    fn chain(&self, kind: ObjectKind) -> Owners {
        let id = |kind: ObjectKind| self.owners.get(kind.index())?.as_ref().map(super::Owner::owner_id);
        let own = if kind.takes_callbacks() { Some(kind) } else { kind.parent() };
        let own = own.filter(|kind| !matches!(kind, ObjectKind::Instance | ObjectKind::Device));
        Owners {
            object: own.and_then(id),
            device: id(ObjectKind::Device),
            instance: id(ObjectKind::Instance),
            ..Owners::default()
        }
    }
}
