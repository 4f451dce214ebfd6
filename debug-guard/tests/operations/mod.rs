//! Every public function of the crate, each in an operation that runs it: what `sweep.rs` refuses memory to, and what `no_global.rs` and
//! `dhat_heap.rs` watch. One table, so that no net can forget what another one holds.
#![allow(dead_code, reason = "each test binary uses its part")]

mod blocks;
mod failing;
mod global;
mod guards;
mod reports;
mod words;

use std::alloc::Layout;
use std::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};
use debug_guard::{Guard, GuardOptions, Mode, OnReport, Stacks};
use testkit::{Stage, Takes};

/// One way to run some public functions.
pub(crate) struct Operation<S: Stage> {
    /// `Type::function`, as `testkit::public_api` lists it.
    pub(crate) names: &'static [&'static str],
    /// What is special about this way.
    pub(crate) how: &'static str,
    pub(crate) takes: fn(Mode) -> Takes,
    pub(crate) body: fn(&S, Mode),
}

pub(crate) const MODES: [Mode; 5] = [Mode::Off, Mode::Sampled, Mode::Cookie, Mode::Fence, Mode::Strict];

/// All of them.
pub(crate) fn table<S: Stage>() -> Vec<Operation<S>> {
    [guards::table(), blocks::table(), reports::table(), words::table(), failing::table(), global::table()]
        .into_iter()
        .flatten()
        .collect()
}

/// Options small enough for a stage, in which reports are handed to `reports::look`.
pub(crate) fn options(mode: Mode) -> GuardOptions {
    let report = OnReport::Call(reports::look);
    GuardOptions::new(mode).name("watched").on_report(report).stacks(Stacks::Full).quarantine(64, 1 << 20).pages(1 << 12)
}

/// A guard over the stage's allocator, outside of the attempt.
pub(crate) fn guard<S: Stage>(stage: &S, mode: Mode) -> Guard<&S::Host> {
    Guard::new(stage.host(), options(mode)).expect("refused nothing")
}

pub(crate) fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

pub(crate) fn take(host: &impl HostAllocator, size: usize) -> NonNull<u8> {
    host.allocate(bytes(size), Scope::Object).expect("refused nothing")
}

/// Whatever it is that comes back.
pub(crate) fn give(host: &impl HostAllocator, block: NonNull<u8>, size: usize) {
    // SAFETY: a block of a guard, or broken on purpose, which it must notice.
    unsafe { host.deallocate(block, bytes(size), Scope::Object) };
}

pub(crate) fn memory(_: Mode) -> Takes {
    Takes::Memory
}
