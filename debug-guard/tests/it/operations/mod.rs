//! Every public function of the crate, each in an operation that runs it: what `sweep.rs` refuses memory to, and what
//! `no_global.rs` and `dhat_heap.rs` watch. One table, so that no net can forget what another one holds.
#![allow(dead_code, reason = "each test binary uses its part")]

mod blocks;
mod failing;
mod global;
mod guards;
mod reports;
mod words;

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use alloc_core::{HostAllocator, Scope};
use debug_guard::{Guard, GuardOptions, LeakMark, Mode, OnReport, Stacks};
use testkit::{MemoryUse, Once, OperationTable, Stage};

/// One way to run some public functions.
pub(crate) struct GuardOperation<S: Stage> {
    /// `Type::function`, as `testkit::public_api` lists it.
    pub(crate) names: &'static [&'static str],
    /// What is special about this way.
    pub(crate) how: &'static str,
    pub(crate) takes: fn(Mode) -> MemoryUse,
    pub(crate) body: fn(&S, Mode),
}

pub(crate) const MODES: [Mode; 5] = [Mode::Off, Mode::Sampled, Mode::Cookie, Mode::Fence, Mode::Strict];

/// All of them.
pub(crate) fn table<S: Stage>() -> Vec<GuardOperation<S>> {
    [guards::table(), blocks::table(), reports::table(), words::table(), failing::table(), global::table()]
        .into_iter()
        .flatten()
        .collect()
}

/// The table for nets that run each operation once.
pub(crate) fn once() -> OperationTable<GuardOperation<Once>, Mode> {
    OperationTable {
        operations: table,
        ways: &MODES,
        name: |operation| format!("{:?} {}", operation.names, operation.how),
        run: |operation, mode| (operation.body)(&Once, mode),
        allocates: |operation, mode| !matches!((operation.takes)(mode), MemoryUse::Nothing(_)),
    }
}

/// Options small enough for a stage, in which reports are handed to `reports::look`.
pub(crate) fn options(mode: Mode) -> GuardOptions {
    let report = OnReport::Call(reports::look);
    GuardOptions::new(mode)
        .name("watched")
        .on_report(report)
        .stacks(Stacks::Full)
        .quarantine(64, 1 << 20)
        .pages(1 << 12)
}

/// A guard over the stage's allocator, outside of the attempt.
pub(crate) fn guard<S: Stage>(stage: &S, mode: Mode) -> Guard<&S::Host> {
    Guard::new(stage.host(), options(mode)).expect("refused nothing")
}

/// How often a request of an operation used the very guard that the operation is about.
pub(crate) static VISITS: AtomicU64 = AtomicU64::new(0);

/// Runs `body`; where the stage re-enters its caller, each request of the attempt takes a block of `guard`, reads it
/// through, asks all that the guard has written down, and frees the block.
pub(crate) fn reentered<S: Stage, T>(stage: &S, guard: &Guard<&S::Host>, body: impl FnOnce() -> T) -> T {
    let visit = || {
        let size = 1 + VISITS.fetch_add(1, SeqCst) as usize * 37 % 300;
        let block = guard.allocate_zeroed(bytes(size), Scope::Object).expect("a hook is refused nothing");
        // SAFETY: so many bytes of ours.
        let content = unsafe { NonNull::slice_from_raw_parts(block, size).as_ref() };
        assert!(content.iter().all(|byte| *byte == 0), "{size}");
        let mut listed = 0;
        guard.live(&mut |_| listed += 1);
        guard.leaks(LeakMark::default(), guard.mark(), &mut |_| ());
        assert!(guard.stats().live_blocks >= listed, "{listed}");
        give(guard, block, size);
    };
    stage.with_hook(&visit, body)
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

pub(crate) fn memory(_: Mode) -> MemoryUse {
    MemoryUse::Memory
}
