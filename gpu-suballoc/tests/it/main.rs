//! All tests of the crate that may share a process. Beside this file stand those that open a driver or count what the
//! process allocates.

#![allow(unreachable_pub, reason = "nothing of a test is for others")]

mod ash_device;
mod cache;
mod cache_model;
mod callbacks;
mod churn;
#[cfg(not(miri))]
mod every_example;
#[macro_use]
mod fake_vulkan;
mod group;
mod lifecycle;
mod lifecycle_model;
mod linear;
mod mock_rules;
mod operations;
mod pairs;
mod racing;
mod range_model;
mod reentry;
mod region_model;
mod regions;
mod reports;
mod sweep;
mod sweep_reentry;
mod topology_model;
mod unwinding_host;
mod virtual_block;

use alloc_core::{
    Context, ContextHandle, ContextOptions, FromGlobalAlloc, HostAllocator, HostError, Rejected, Scope, Scoped, TryVec,
};
use ash::vk;
use ash::vk::Handle;
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BlockAlgorithm, BufferInfo, BufferUsage, DeviceContexts, DeviceGroup, DeviceMemory,
    GpuAllocator, GpuError, GpuMisuse, ImageInfo, ImageUsage, Lifetime, MemoryPreference, PoolId, PoolOptions,
    PropertyFlags, Region, RegionId, RegionOptions, ResourceKind, ResourceRequirements, ShaderCache, VirtualBlock,
};
use gpu_suballoc::{
    BlockAlgorithm::*,
    Lifetime::*,
    allocator::*,
    ash::*,
    cache::*,
    context::*,
    device::{DeviceError::*, *},
    error::{GpuMisuse::*, *},
    group::*,
    memory_type::*,
    pool::*,
    region::*,
    report::*,
    request::DedicatedPolicy::*,
    virtual_block::*,
};
use mock_device::{MockCall::*, MockProfile::*, *};
use std::alloc::{Layout, System};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{ptr, thread};
use testkit::programs::{Ran, Tried, random_of_both, replay, replay_seeds, seeds_met};
use testkit::{
    Counted, MemoryUse, RecordingAllocator, Rng, Sweep, Swept, Trial, assert_bodies_call,
    assert_every_function_is_named,
};

fn over<D: DeviceMemory, A: HostAllocator>(device: D, host: A) -> GpuAllocator<D, A> {
    over_with(device, host, AllocatorOptions::default())
}

fn over_with<D: DeviceMemory, A: HostAllocator>(device: D, host: A, options: AllocatorOptions) -> GpuAllocator<D, A> {
    // SAFETY: a mock, which says what is wrong; infos are valid, and nothing runs on it when a region is freed.
    let made = unsafe { GpuAllocator::new(device, host, options) };
    made.map_err(|refused| refused.error).unwrap()
}

fn end<D: DeviceMemory, A: HostAllocator>(gpu: GpuAllocator<D, A>) {
    gpu.close().map_err(|refused| refused.error).map(drop).unwrap();
}

const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());

fn refusal<T>(why: impl Into<GpuError>) -> Result<T, GpuError> {
    Err(why.into())
}

fn times<T>(count: u64, mut make: impl FnMut() -> T) -> Vec<T> {
    (0..count).map(|_| make()).collect()
}

fn each<T, const N: usize>(mut make: impl FnMut() -> T) -> [T; N] {
    std::array::from_fn(|_| make())
}
