//! Where accounting plugs in: the callbacks each object is made with, a bracket around every Vulkan command, and each handle's
//! beginning and end.

use std::alloc::System;

use alloc_core::{FromGlobalAlloc, HostAllocator};
use ash::vk;

use super::CreatedObject;
use crate::object_kind::ObjectKind;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// What an observer of a program learns, and what it may pass in.
///
/// All calls come from the thread that runs the program. The trait is object-safe; [`NoHooks`] does nothing.
///
/// # Safety
///
/// A driver is given what [`callbacks`](Hooks::callbacks) answers. So for every struct that was answered:
///
/// - It stays where it is, unchanged, until the hooks die, or until the program has destroyed its last object, the instance.
/// - For as long, any thread may call its functions with its user data by the rules of the specification (*Host Memory*), and
///   they keep those: NULL or a block of the size and alignment asked for, no unwinding, all mandatory functions there.
/// - Structs that were answered for one kind are compatible with each other (V42).
///
/// The other functions cannot break anything.
pub unsafe trait Hooks {
    /// Callbacks for objects of this kind; `None` passes NULL.
    ///
    /// Asked once for each object that is made; the object is destroyed with the same pointer (VUID pairs "allocator at
    /// create, compatible allocator at destroy"). The borrow ends with the hooks themselves, so what is handed out is valid
    /// for every object of the run.
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>>;

    /// Runs one command: `call` calls its function pointer and does nothing else. Must call it, once; the answer is
    /// `SUCCESS` for commands that return nothing. `kind` is the kind of the object that is made, destroyed or used: for a
    /// command that takes a pool's child, the child's.
    fn command(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: &mut dyn FnMut() -> vk::Result,
    );

    /// The command before has made this object. Of several objects that one command made (V44) each is told, also where the
    /// command failed.
    fn created(&self, object: &CreatedObject<'_>);

    /// The next command destroys this object; of several, the next command destroys all that were told since the last command.
    fn ends(&self, object: &CreatedObject<'_>);

    /// The host allocator for the bookkeeping of the program's sub-allocator. It belongs to the application, no driver sees it, and the
    /// program frees all of it before it ends. The default is the system's, which nothing counts.
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

// SAFETY: it answers no callbacks.
unsafe impl Hooks for NoHooks {
    fn callbacks(&self, _: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        None
    }
    fn command(&self, _: &'static str, _: ObjectKind, call: &mut dyn FnMut() -> vk::Result) {
        // What the command answers goes to the workload by itself.
        let _ = call();
    }
    fn created(&self, _: &CreatedObject<'_>) {}
    fn ends(&self, _: &CreatedObject<'_>) {}
    fn phase(&self, _: &'static str) {}
}
