//! Hooks of the workload that read the witness where a phase of the layer ends.

use std::cell::{Cell, RefCell};

use VkLayer_steward_memory::in_process;
use ash::vk;
use vk_accounts::{CreatedObject, Hooks, ObjectKind};

use crate::around::{Around, Held, Record};

/// Names the layer's phases while no call is on its way, so that layer and witness read the same moment.
pub(super) struct Watch<'a> {
    around: &'a Around,
    /// Called as a phase of this name begins.
    begins: &'a dyn Fn(&'static str),
    phases: RefCell<Vec<PhaseSeen>>,
    phase: Cell<Option<&'static str>>,
    commands: Cell<u64>,
    before: RefCell<Record>,
}

/// What a phase was, as far as the witness in front of the callbacks can tell.
pub(super) struct PhaseSeen {
    pub(super) name: &'static str,
    pub(super) commands: u64,
    pub(super) before: Record,
    pub(super) after: Record,
}

impl<'a> Watch<'a> {
    pub(super) fn new(around: &'a Around, begins: &'a dyn Fn(&'static str)) -> Self {
        Self {
            around,
            begins,
            phases: RefCell::default(),
            phase: Cell::new(None),
            commands: Cell::new(0),
            before: RefCell::default(),
        }
    }

    /// After the workload: all phases, and what was seen at last.
    pub(super) fn end(self) -> (Vec<PhaseSeen>, Record) {
        let held = self.around.hold();
        self.end_phase(&held);
        (self.phases.take(), held.record())
    }

    fn end_phase(&self, held: &Held<'_>) {
        if let Some(name) = self.phase.take() {
            self.phases.borrow_mut().push(PhaseSeen {
                name,
                commands: self.commands.take(),
                before: self.before.take(),
                after: held.record(),
            });
        }
    }
}

// SAFETY: it returns no callbacks.
unsafe impl Hooks for Watch<'_> {
    fn callbacks(&self, _: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        None
    }

    fn command(&self, command: &'static str, _: ObjectKind, call: &mut dyn FnMut() -> vk::Result) {
        let _ = call();
        // A look-up is no command of the layer.
        let is_counted = !command.ends_with("ProcAddr");
        self.commands
            .set(self.commands.get() + u64::from(is_counted));
    }

    fn created(&self, _: &CreatedObject<'_>) {}

    fn ends(&self, _: &CreatedObject<'_>) {}

    fn phase(&self, name: &'static str) {
        let mut held = self.around.hold();
        self.end_phase(&held);
        in_process::phase(name);
        held.begin_phase();
        self.before.replace(held.record());
        self.phase.set(Some(name));
        drop(held);
        (self.begins)(name);
    }
}
