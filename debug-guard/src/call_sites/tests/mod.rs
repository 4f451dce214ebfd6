//! The depot as the guard uses it, and stacks as compilers make them.

#[cfg(all(windows, target_arch = "x86_64", not(miri)))]
mod coroutines;
mod depot;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod driver;
#[cfg(all(
    any(
        all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
        all(windows, target_arch = "x86_64")
    ),
    not(miri)
))]
mod stacks;
#[cfg(all(
    any(
        all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
        all(windows, target_arch = "x86_64")
    ),
    not(miri)
))]
mod stopped;

use std::cell::Cell;
use std::thread_local;

use alloc_core::{FromGlobalAlloc, Scope};

use super::*;
use crate::{FailingAllocator, Fault};

thread_local! {
    static WALKS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a pass of the unwinder on this thread.
pub(super) fn count_walk() {
    WALKS.set(walks() + 1);
}

/// The passes of the unwinder on this thread.
pub(crate) fn walks() -> u64 {
    WALKS.get()
}

pub(crate) type Memory = FailingAllocator<FromGlobalAlloc<std::alloc::System>>;

pub(crate) fn memory() -> Memory {
    FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never)
}

pub(crate) fn depot(memory: &Memory) -> Sites {
    Sites::new(memory).expect("there is memory")
}

pub(crate) fn who(name: &str) -> RequesterInfo<'_> {
    RequesterInfo { context: None, name, label: None, scope: Scope::Object, front: 0, command: None }
}
