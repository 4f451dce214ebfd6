#![forbid(unsafe_code)]

use std::cell::Cell;

/// A moment between two commands of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A phase begins: `instance`, `device`, then for each round `resources`, `sub-allocation`, `pipelines`,
    /// `recording`, `submit` and `teardown`, then `defragmentation` and `shutdown`. Never the same name twice in a row.
    PhaseBegins(&'static str),
    /// Instance and device exist: the loader has loaded its libraries.
    DeviceCreated,
    /// A round begins, after this number of rounds.
    RoundBegins(u32),
}

pub(super) struct Phases<'w> {
    watch: &'w dyn Fn(Moment),
    current: Cell<&'static str>,
    /// While true, no other phase begins.
    is_kept: Cell<bool>,
}

impl<'w> Phases<'w> {
    pub(super) fn new(watch: &'w dyn Fn(Moment)) -> Self {
        Self { watch, current: Cell::new(""), is_kept: Cell::new(false) }
    }

    /// Does nothing if the phase is the current one.
    pub(super) fn begin(&self, name: &'static str) {
        if !self.is_kept.get() && self.current.replace(name) != name {
            (self.watch)(Moment::PhaseBegins(name));
        }
    }

    pub(super) fn keep<R>(&self, name: &'static str, run: impl FnOnce() -> R) -> R {
        self.begin(name);
        let kept = self.is_kept.replace(true);
        let answer = run();
        self.is_kept.set(kept);
        answer
    }
}
