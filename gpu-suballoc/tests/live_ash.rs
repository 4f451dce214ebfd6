//! Regions on a real device: the first one that the loader shows. What only a driver can answer; everything else is
//! seen on the mock device. A process of its own.

#![allow(unreachable_pub, reason = "nothing of a test is for others")]

#[allow(dead_code, unused_imports, reason = "each test binary uses its part")]
mod live;
#[path = "live_ash/tests.rs"]
mod tests;

use alloc_core::HostAllocator;
use ash::vk;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BufferInfo, BufferUsage, DeviceMemory, GpuAllocator, GpuError, MemoryPreference,
    PropertyFlags, Region, RegionOptions, ResourceRequirements, ash::*, device::*, error::*, request::*,
};
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI64, AtomicU64};
use testkit::RecordingAllocator;

fn main() {
    tests::run();
}
