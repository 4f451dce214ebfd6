//! Every public operation of the crate, each with a body that runs it: what `sweep.rs` refuses memory to, and what
//! `no_global.rs` and `dhat_heap.rs` watch. One table, so that no net can forget what another one holds.
#![allow(dead_code, reason = "each test binary uses its part")]

mod brackets;
mod bridges;
mod chains;
mod checkers;
mod commands;
mod entries;
mod judges;
mod objects;
mod recorders;
mod traces;

use std::alloc::System;
use std::cell::Cell;
use std::fmt::Debug;
use std::pin::pin;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope};
use testkit::{MemoryUse, Once, OperationTable, Stage, picture};
use vk_callbacks::bridge::{BareBridge, BridgeCounters};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, CallbackAllocator, FallbackChain, Recorder};

use crate::common::Driver;

/// Memory past every allocator that is watched.
static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// One way to run some public functions.
pub(crate) struct Operation<S: Stage> {
    /// `Type::function`, as `testkit::public_api` lists it.
    pub(crate) names: &'static [&'static str],
    /// What is special about this way.
    pub(crate) how: &'static str,
    pub(crate) takes: MemoryUse,
    pub(crate) body: fn(&S, &Ground<'_>),
}

/// Whose callbacks an operation goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// Those of a bridge over a context.
    Bridge,
    /// Those of a bridge over an allocator.
    BareBridge,
    /// Those of a recorder around the first.
    Tap,
}

impl Through {
    pub(crate) const ALL: [Self; 3] = [Self::Bridge, Self::BareBridge, Self::Tap];
}

/// An application that offers callbacks, and the driver that was given them.
pub(crate) struct Ground<'g> {
    pub(crate) root: &'g Context,
    pub(crate) bridge: &'g Bridge,
    pub(crate) raw: RawCallbacks,
    pub(crate) callbacks: &'g CallbackAllocator,
}

impl<'g> Ground<'g> {
    /// What a refused operation must leave as it was.
    pub(crate) fn picture(&self) -> impl PartialEq + Debug + use<'g> {
        (picture(self.root), self.bridge.live())
    }

    /// The device was given the callbacks.
    pub(crate) fn chain(&self) -> FallbackChain<'g> {
        FallbackChain::new(&SYSTEM).device(Some(self.callbacks))
    }
}

/// Runs the operation with an application of its own over the stage's allocator, and ends that: nothing may be left.
///
/// Returns how many times the stage's allocator called the callbacks meanwhile.
pub(crate) fn run<S: Stage>(stage: &S, operation: &Operation<S>, through: Through) -> u64 {
    let calls = Cell::new(0);
    // SAFETY: closed below, before the stage goes.
    let root = unsafe { Context::root(stage.host(), ContextOptions::new("application")) }.expect("refused nothing");
    let bridge = Bridge::new(root.child("vulkan").expect("refused nothing")).expect("refused nothing");
    let recorder = Recorder::new(&SYSTEM).expect("memory of the system");
    {
        // SAFETY: the bridge outlives the block, and with it the tap's use.
        let tap = unsafe { recorder.tap(1, bridge.raw()) }.expect("memory of the system");
        let bare = pin!(BareBridge::new(&root));
        let raw = match through {
            Through::Bridge => bridge.raw(),
            Through::BareBridge => bare.as_ref().raw(),
            Through::Tap => *tap.raw(),
        };
        // SAFETY: bridges and recorder outlive the block.
        let callbacks = unsafe { CallbackAllocator::from_raw(&raw) }.expect("complete");
        let ground = Ground { root: &root, bridge: &bridge, raw, callbacks: &callbacks };
        let hook = || {
            calls.set(calls.get() + 1);
            let (size, scope) = (calls.get() as usize % 300, Scope::ALL[calls.get() as usize % Scope::COUNT]);
            let block = Driver(raw).alloc(size, 8, scope);
            let block = Driver(raw).realloc(block, 2 * size + 1, 8, scope);
            assert!(!block.is_null(), "{size} bytes within a call");
            Driver(raw).free(block);
        };
        stage.with_hook(&hook, || (operation.body)(stage, &ground));
        // One operation requests too much, which is refused without a call of the backing.
        let broken = |notes: BridgeCounters| notes.faults() - notes.too_large;
        assert_eq!((broken(bridge.counters()), broken(bare.counters())), (0, 0));
    }
    recorder.close().expect("nothing is live");
    drop(bridge.close().expect("nothing is live"));
    if let Err(refused) = root.close_root() {
        panic!("{refused}");
    }
    calls.get()
}

/// All operations, in all their ways.
pub(crate) fn table<S: Stage>() -> Vec<Operation<S>> {
    let mut all = Vec::new();
    all.extend(bridges::operations());
    all.extend(entries::operations());
    all.extend(chains::operations());
    all.extend(checkers::operations());
    all.extend(judges::operations());
    all.extend(objects::operations());
    all.extend(recorders::operations());
    all.extend(traces::operations());
    all.extend(brackets::operations());
    all.extend(commands::operations());
    all
}

/// The table for nets that run each operation once.
pub(crate) fn once() -> OperationTable<Operation<Once>, Through> {
    OperationTable {
        operations: table,
        // Under miri some seconds for ten operations: a tap goes through the bridge, too.
        ways: if cfg!(miri) { &[Through::Tap] } else { &Through::ALL },
        name: |operation| format!("{:?} {}", operation.names, operation.how),
        run: |operation, through| {
            run(&Once, operation, through);
        },
        allocates: |_, _| true,
    }
}

/// An operation that needs each block that it allocates.
fn takes<S: Stage>(name: &'static [&'static str], how: &'static str, body: fn(&S, &Ground<'_>)) -> Operation<S> {
    Operation { names: name, how, takes: MemoryUse::Memory, body }
}

/// An operation that allocates and continues without.
fn spares<S: Stage>(
    names: &'static [&'static str],
    how: &'static str,
    why: &'static str,
    body: fn(&S, &Ground<'_>),
) -> Operation<S> {
    Operation { names, how, takes: MemoryUse::MemoryOrLess(why), body }
}

/// Operations that allocate nothing.
fn nothing<S: Stage>(names: &'static [&'static str], why: &'static str, body: fn(&S, &Ground<'_>)) -> Operation<S> {
    Operation { names, how: "", takes: MemoryUse::Nothing(why), body }
}
