//! Reads the witness where a phase of the layer ends.

use std::cell::{Cell, RefCell};

use VkLayer_steward_memory::in_process;
use ash::vk;

use crate::around::{Around, Held, Record};
use crate::driver_shim::Watcher;

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

    /// A phase of the workload begins.
    pub(super) fn begin_phase(&self, name: &'static str) {
        let mut held = self.around.hold();
        self.end_phase(&held);
        in_process::phase(name);
        held.begin_phase();
        self.before.replace(held.record());
        self.phase.set(Some(name));
        drop(held);
        (self.begins)(name);
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

impl Watcher for Watch<'_> {
    fn callbacks(
        &self,
        kind: &'static str,
        given: Option<&vk::AllocationCallbacks<'_>>,
    ) -> *const vk::AllocationCallbacks<'_> {
        self.around.callbacks(kind, given.expect("the layer replaces NULL"))
    }

    fn command(&self, name: &'static str, call: &mut dyn FnMut()) {
        call();
        // As a device is created, the layer itself asks what it has.
        let is_layers = self.phase.get() == Some("device") && name.starts_with("vkGetPhysicalDevice");
        self.commands.set(self.commands.get() + u64::from(!is_layers));
    }
}
