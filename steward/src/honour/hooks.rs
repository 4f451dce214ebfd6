//! Hooks around other hooks that tell the meter what runs: brackets as tight as the workload's own.

use std::ptr;

use alloc_core::HostAllocator;
use ash::vk;
use vk_callbacks::RawCallbacks;

use super::callbacks::{Around, Asked};
use super::meter::{Doing, during};
use crate::workload::{Hooks, Made, ObjectKind};

/// Counts what the driver asks of `inner`'s callbacks.
pub(super) struct Metered<'a> {
    inner: &'a dyn Hooks,
    /// What is handed out, by kind.
    callbacks: Vec<Option<RawCallbacks>>,
    /// What those lead to.
    _around: Vec<Option<Around<'a>>>,
}

impl<'a> Metered<'a> {
    pub(super) fn new(inner: &'a dyn Hooks, asked: &'a Asked) -> Self {
        let around = |kind| Some(Around::new(*RawCallbacks::from_ash(inner.callbacks(kind)?), asked));
        let around: Vec<_> = ObjectKind::ALL.into_iter().map(around).collect();
        let callbacks = around.iter().map(|around| around.as_ref().map(Around::callbacks)).collect();
        Self { inner, callbacks, _around: around }
    }

    /// The object as the inner hooks know it: with their own callbacks.
    fn theirs<'m>(&'m self, object: &Made<'m>) -> Made<'m> {
        let own = if object.allocator.is_null() { None } else { self.inner.callbacks(object.kind) };
        Made { allocator: own.map_or(ptr::null(), ptr::from_ref), ..*object }
    }
}

// SAFETY: both vectors stay as they were made while `self` lives, wherever it is moved: what the callbacks lead to lies where it
// lay. Behind them are the inner hooks' callbacks of the same kind, which keep Vulkan's rules for as long as `self` borrows them.
unsafe impl Hooks for Metered<'_> {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        self.callbacks.get(kind.index())?.as_ref().map(RawCallbacks::as_ash)
    }

    fn command(&self, command: &'static str, kind: ObjectKind, call: &mut dyn FnMut() -> vk::Result) {
        self.inner.command(command, kind, &mut || during(Doing::InCommand, &mut *call));
    }

    fn memory(&self) -> &dyn HostAllocator {
        self.inner.memory()
    }

    fn created(&self, object: &Made<'_>) {
        self.inner.created(&self.theirs(object));
    }

    fn ends(&self, object: &Made<'_>) {
        self.inner.ends(&self.theirs(object));
    }

    fn phase(&self, name: &'static str) {
        self.inner.phase(name);
    }
}
