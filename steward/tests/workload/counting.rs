//! An observer of the workload that counts what it is told, and insists on order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use ash::vk;
use vk_accounts::{CreatedObject, Hooks, ObjectKind};
use vk_steward::drivers::Selected;
use vk_steward::workload::{self, Options};

/// Different in every run, so that a result cannot be right by habit.
pub(crate) fn seed() -> u32 {
    let nanoseconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |time| time.subsec_nanos());
    nanoseconds ^ std::process::id()
}

pub(crate) type Told = (ObjectKind, u64, u64, bool);

pub(crate) fn told(object: &CreatedObject<'_>) -> Told {
    (
        object.kind,
        object.handle,
        object.parent,
        !object.allocator.is_null(),
    )
}

/// Counts what it is told, and insists on order.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) inside: Cell<Option<(&'static str, ObjectKind)>>,
    pub(crate) brackets: Cell<u64>,
    pub(crate) kinds: RefCell<BTreeMap<ObjectKind, u32>>,
    pub(crate) asked: RefCell<BTreeMap<ObjectKind, u32>>,
    pub(crate) ended: RefCell<BTreeMap<ObjectKind, u32>>,
    /// Handles as they were told: kind, handle, parent, whether there was an allocator.
    pub(crate) came: RefCell<Vec<Told>>,
    /// Those told to end, until the command that ends them.
    pub(crate) going: RefCell<Vec<Told>>,
    pub(crate) went: RefCell<Vec<Told>>,
    pub(crate) phases: RefCell<Vec<&'static str>>,
}

// SAFETY: it answers no callbacks.
unsafe impl Hooks for Counting {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        assert!(
            self.inside.get().is_none(),
            "asked for callbacks inside a bracket"
        );
        assert!(kind.takes_callbacks(), "{kind} takes none");
        *self.asked.borrow_mut().entry(kind).or_default() += 1;
        None
    }

    fn command(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: &mut dyn FnMut() -> vk::Result,
    ) {
        assert!(command.starts_with("vk"), "{command}");
        assert_eq!(
            self.inside.replace(Some((command, kind))),
            None,
            "{command} inside another command"
        );
        *self.kinds.borrow_mut().entry(kind).or_default() += 1;
        let result = call();
        let (entered, kind) = self.inside.take().expect("still inside");
        assert_eq!(command, entered);
        assert!(result.as_raw() >= 0, "{command}: {result:?}");
        self.brackets.set(self.brackets.get() + 1);
        let objects = match command {
            // Those of a defragmentation are alone in their pools.
            "vkFreeCommandBuffers" if self.phases.borrow().ends_with(&["defragmentation"]) => 1,
            "vkFreeDescriptorSets" | "vkFreeCommandBuffers" => 2,
            _ => u32::from(command.starts_with("vkDestroy") || command == "vkFreeMemory"),
        };
        *self.ended.borrow_mut().entry(kind).or_default() += objects;
        let gone = self.going.take();
        assert!(
            gone.len() == objects as usize && gone.iter().all(|told| told.0 == kind),
            "{command}: {gone:?}"
        );
        self.went.borrow_mut().extend(gone);
    }

    fn created(&self, object: &CreatedObject<'_>) {
        assert!(
            self.inside.get().is_none() && object.handle != 0,
            "{object:?}"
        );
        self.came.borrow_mut().push(told(object));
    }

    fn ends(&self, object: &CreatedObject<'_>) {
        assert!(self.inside.get().is_none(), "{object:?}");
        self.going.borrow_mut().push(told(object));
    }

    fn phase(&self, name: &'static str) {
        assert!(self.inside.get().is_none(), "phase {name} inside a command");
        self.phases.borrow_mut().push(name);
    }
}

pub(crate) fn counted(driver: &Selected, rounds: u32) -> (Counting, workload::Report) {
    let hooks = Counting::default();
    let options = Options {
        seed: seed(),
        rounds,
        ..Options::default()
    };
    let report = workload::run(driver, &hooks, &options)
        .unwrap_or_else(|error| panic!("seed {}: {error}", options.seed));
    (hooks, report)
}
