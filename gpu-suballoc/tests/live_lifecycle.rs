//! Contexts on real drivers: refusals of their memory, and each driver under the validation layer, with a defragmentation there. A process of its own.

#![allow(unreachable_pub, reason = "nothing of a test is for others")]

#[path = "live_lifecycle/counting.rs"]
mod counting;
#[path = "live_lifecycle/cycles.rs"]
mod cycles;
#[path = "live_lifecycle/defragmented.rs"]
mod defragmented;
#[path = "live_lifecycle/layer.rs"]
mod layer;
#[allow(dead_code, unused_imports, reason = "each test binary uses its part")]
mod live;
#[path = "live_lifecycle/refusals.rs"]
mod refusals;
#[path = "live_lifecycle/sweep.rs"]
mod sweep;
#[path = "live_lifecycle/validated.rs"]
mod validated;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, HostAllocator, TryVec};
use ash::vk;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BufferInfo, BufferUsage, DeviceMemory, GpuAllocator, GpuError, ImageInfo, ImageUsage,
    Lifetime, MemoryPreference, PropertyFlags, Region, RegionOptions, allocator::*, ash::*, cache::*, device::*,
    pool::*, request::*,
};
use std::alloc::{Layout, alloc, dealloc};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64};
use std::sync::{Barrier, LazyLock, Mutex, PoisonError};
use testkit::{Child, Finished, RecordingAllocator};

fn main() {
    if sweep::is_child() {
        return sweep::child();
    }
    live::run(cycles::TESTS, |test, live| test(live));
    if let Some(manifest) = testkit::swiftshader() {
        // SAFETY: no other thread runs: the drivers' went with their devices.
        unsafe { std::env::set_var("VK_ADD_DRIVER_FILES", manifest) };
    }
    sweep::run();
    validated::run();
    defragmented::run();
}
