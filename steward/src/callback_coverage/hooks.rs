//! Hooks around other hooks. They tell the meter when a command runs, with brackets as tight as the workload's own.

use std::ptr;

use alloc_core::HostAllocator;
use ash::vk;
use vk_callbacks::raw::RawCallbacks;

use vk_accounts::meter::{CountingCallbacks, RequestedBytes, ThreadActivity, during};
use vk_accounts::{CreatedObject, Hooks, ObjectKind};

/// Counts the driver's requests to `inner`'s callbacks.
pub(super) struct Metered<'a> {
    inner: &'a dyn Hooks,
    /// The callbacks that the workload gets, by kind.
    callbacks: Vec<Option<RawCallbacks>>,
    /// The states behind these callbacks.
    _around: Vec<Option<CountingCallbacks<'a>>>,
}

impl<'a> Metered<'a> {
    pub(super) fn new(inner: &'a dyn Hooks, requested: &'a RequestedBytes) -> Self {
        let around = |kind| {
            Some(CountingCallbacks::new(
                *RawCallbacks::from_ash(inner.callbacks(kind)?),
                requested,
            ))
        };
        let around: Vec<_> = ObjectKind::ALL.into_iter().map(around).collect();
        let callbacks = around
            .iter()
            .map(|around| around.as_ref().map(CountingCallbacks::callbacks))
            .collect();
        Self {
            inner,
            callbacks,
            _around: around,
        }
    }

    /// The object with the callbacks of the inner hooks.
    fn with_inner_callbacks<'m>(&'m self, object: &CreatedObject<'m>) -> CreatedObject<'m> {
        let own = if object.allocator.is_null() {
            None
        } else {
            self.inner.callbacks(object.kind)
        };
        CreatedObject {
            allocator: own.map_or(ptr::null(), ptr::from_ref),
            ..*object
        }
    }
}

// SAFETY: both vectors are unchanged while `self` lives, also when it is moved, so the callbacks' states do not move. Behind them are the
// inner hooks' callbacks of the same kind, which follow Vulkan's rules while `self` borrows them.
unsafe impl Hooks for Metered<'_> {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        self.callbacks
            .get(kind.index())?
            .as_ref()
            .map(RawCallbacks::as_ash)
    }

    fn command(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: &mut dyn FnMut() -> vk::Result,
    ) {
        self.inner.command(command, kind, &mut || {
            during(ThreadActivity::InCommand, &mut *call)
        });
    }

    fn memory(&self) -> &dyn HostAllocator {
        self.inner.memory()
    }

    fn created(&self, object: &CreatedObject<'_>) {
        self.inner.created(&self.with_inner_callbacks(object));
    }

    fn ends(&self, object: &CreatedObject<'_>) {
        self.inner.ends(&self.with_inner_callbacks(object));
    }

    fn phase(&self, name: &'static str) {
        self.inner.phase(name);
    }
}
