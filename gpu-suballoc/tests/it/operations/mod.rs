//! Scenarios that run every public function of the crate which can ask for memory: `sweep.rs` refuses each request of
//! them, `no_global.rs`, `dhat_heap.rs` and `malloc_meter.rs` watch what they take past the allocator that they were
//! given. No vector: nothing here may touch the global allocator.

#![allow(dead_code, reason = "each test binary uses its part")]

mod allocator;
pub mod asks;
pub mod caches;
mod contexts;
mod defragmentation;
pub mod devices;
mod group;
mod ranges;
mod words;

use alloc_core::{Context, ContextHandle, ContextOptions, HostAllocator, Scope, Scoped, TryVec};
use ash::vk;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BlockAlgorithm, BufferInfo, BufferUsage, DeviceContexts, DeviceGroup, DeviceMemory,
    GpuAllocator, GpuError, GpuMisuse, ImageInfo, ImageUsage, MemoryPreference, PoolId, PoolOptions, PropertyFlags,
    Region, RegionId, RegionOptions, ResourceRequirements, ShaderCache, VirtualBlock, allocator::*, ash::*, cache::*,
    context::*, device::*, error::*, group::*, memory_type::*, report::*, request::*, virtual_block::*,
};
use mock_device::*;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use testkit::{MemoryUse, Once, OperationTable, Sink, Stage};

/// A scenario: its steps that take memory are attempts, the others take none.
pub struct GpuOperation<S: Stage> {
    pub name: &'static str,
    /// What it calls: `Type::function`, as `testkit::public_api` lists it.
    pub calls: &'static str,
    pub takes: MemoryUse,
    number: usize,
    body: fn(&S, usize),
}

impl<S: Stage> GpuOperation<S> {
    pub fn run(&self, stage: &S) {
        (self.body)(stage, self.number);
    }
}

const fn operation<S: Stage>(
    name: &'static str,
    calls: &'static str,
    takes: MemoryUse,
    body: fn(&S, usize),
) -> GpuOperation<S> {
    GpuOperation { name, calls, takes, number: 0, body }
}

/// All of them.
pub fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    let mut all: Vec<GpuOperation<S>> = vec![
        operation("words", words::CALLS, MemoryUse::Nothing("numbers that the caller passes"), words::words),
        operation("virtual blocks", ranges::CALLS, MemoryUse::Memory, ranges::ranges),
        operation("a group", group::CALLS, MemoryUse::Memory, group::group),
        operation("an allocator", allocator::CALLS, MemoryUse::Memory, allocator::allocator),
        operation(
            "regions of each kind",
            allocator::REGION_CALLS,
            MemoryUse::Nothing("what was made ends"),
            allocator::regions,
        ),
        operation("a cache and its file", caches::CALLS, MemoryUse::Memory, caches::cache),
        operation("contexts", contexts::CALLS, MemoryUse::Memory, contexts::contexts),
        operation("contexts over ash", contexts::ASH_CALLS, MemoryUse::Memory, contexts::over_ash),
        operation("devices", devices::CALLS, MemoryUse::Nothing("a device has its own memory"), devices::devices),
        operation("a plan", defragmentation::PLAN_CALLS, MemoryUse::Memory, defragmentation::plan),
        operation(
            "moves",
            defragmentation::MOVE_CALLS,
            MemoryUse::MemoryOrLess("a block is given up where memory for its moves is refused"),
            defragmentation::moves,
        ),
    ];
    all.extend(allocator::asks());
    all
}

/// The table for nets that run each operation once.
pub fn once() -> OperationTable<GpuOperation<Once>, ()> {
    OperationTable {
        operations: table,
        ways: &[()],
        name: |operation| operation.name.to_owned(),
        run: |operation, ()| operation.run(&Once),
        allocates: |operation, ()| !matches!(operation.takes, MemoryUse::Nothing(_)),
    }
}
