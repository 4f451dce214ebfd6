//! The interface between a program and its accounts: the callbacks of each object, a bracket around each command, and the creation and end
//! of each handle.

use std::alloc::System;

use alloc_core::{FromGlobalAlloc, HostAllocator};
use ash::vk;

use super::CreatedObject;
use crate::object_kind::ObjectKind;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// An observer of a program, which may pass in callbacks.
///
/// All calls come from the thread that runs the program. The trait is object-safe; [`NoHooks`] does nothing.
///
/// # Safety
///
/// A driver gets the structs of [`callbacks`](Hooks::callbacks). For each such struct:
///
/// - It is neither moved nor changed until the hooks are dropped, or until the program has destroyed its last object, the instance.
/// - For as long, any thread may call its functions with its user data by the rules of the specification (*Host Memory*), and
///   they keep those: NULL or a block of the requested size and alignment, no unwinding, all mandatory functions set.
/// - Structs for one kind are compatible with each other (V42).
///
/// The other functions cannot break anything.
pub unsafe trait Hooks {
    /// Callbacks for objects of this kind; `None` passes NULL.
    ///
    /// Called once for each object; the object is destroyed with the same pointer (VUID pairs "allocator at create, compatible allocator at
    /// destroy"). The borrow ends with the hooks, so that a struct is valid for every object of the run.
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>>;

    /// Runs one command: must call `call` once, which calls the function pointer and does nothing else. It returns `SUCCESS` for commands
    /// without a result. `kind` is the kind of the object that is created, destroyed or used; for a command on a pool's child, the child's.
    fn command(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: &mut dyn FnMut() -> vk::Result,
    );

    /// The last command has created this object. Called for each object that one command created (V44), also if the command failed.
    fn created(&self, object: &CreatedObject<'_>);

    /// The next command destroys this object, and all others named since the last command.
    fn ends(&self, object: &CreatedObject<'_>);

    /// The host allocator for the bookkeeping of the program's sub-allocator. It belongs to the application, no driver sees it, and the
    /// program frees all of it before it ends. The default is the system's, without counts.
    fn memory(&self) -> &dyn HostAllocator {
        &SYSTEM
    }

    /// A new phase of the program begins: `instance`, `device`, then for each round `resources`, `sub-allocation`, `pipelines`,
    /// `recording`, `submit`, `teardown`, and a last `teardown` of device and instance. Never the same name twice in a row.
    fn phase(&self, name: &'static str);
}

/// Observes nothing and passes no callbacks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

// SAFETY: it returns no callbacks.
unsafe impl Hooks for NoHooks {
    fn callbacks(&self, _: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        None
    }
    fn command(&self, _: &'static str, _: ObjectKind, call: &mut dyn FnMut() -> vk::Result) {
        // The workload gets the command's result from `call`.
        let _ = call();
    }
    fn created(&self, _: &CreatedObject<'_>) {}
    fn ends(&self, _: &CreatedObject<'_>) {}
    fn phase(&self, _: &'static str) {}
}
