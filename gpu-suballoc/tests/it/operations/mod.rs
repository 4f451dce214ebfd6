//! Every public function of the crate, each in an operation that runs it: what `sweep.rs` refuses memory to, and what `no_global.rs` and
//! `dhat_heap.rs` watch. One table, so that no net can forget what another one holds.
#![allow(dead_code, reason = "each test binary uses its part")]

mod caches;
mod contexts;
mod defragmentation;
mod devices;
pub(crate) mod driver_heap;
mod facade;
mod group;
mod over_ash;
mod ranges;
mod reports;
mod resources;
mod words;

use testkit::{MemoryUse, Once, OperationTable, Stage};

/// One way to run some public functions.
pub(crate) struct GpuOperation<S: Stage> {
    /// `Type::function`, as `testkit::public_api` lists it.
    pub(crate) names: &'static [&'static str],
    /// What is special about this way.
    pub(crate) how: &'static str,
    pub(crate) takes: MemoryUse,
    pub(crate) body: fn(&S),
}

const fn operation<S: Stage>(
    names: &'static [&'static str],
    how: &'static str,
    takes: MemoryUse,
    body: fn(&S),
) -> GpuOperation<S> {
    GpuOperation {
        names,
        how,
        takes,
        body,
    }
}

/// All of them.
pub(crate) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    let parts = [
        words::table(),
        ranges::table(),
        group::table(),
        facade::table(),
        resources::table(),
        reports::table(),
        defragmentation::table(),
        devices::table(),
        caches::table(),
        contexts::table(),
    ];
    parts.into_iter().flatten().collect()
}

/// The table for nets that run each operation once.
pub(crate) fn once() -> OperationTable<GpuOperation<Once>, ()> {
    OperationTable {
        operations: table,
        ways: &[()],
        name: |operation| format!("{:?} {}", operation.names, operation.how),
        run: |operation, ()| (operation.body)(&Once),
        allocates: |operation, ()| !matches!(operation.takes, MemoryUse::Nothing(_)),
    }
}

/// Where nothing is asked for.
pub(crate) const NONE: MemoryUse = MemoryUse::Nothing("numbers that the caller passes");
