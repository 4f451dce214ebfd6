//! All tests of the crate that may share a process. Beside this file stand those that open a driver or count what the process allocates.

mod ash_device;
mod cache;
mod cache_model;
mod callbacks;
mod churn;
#[cfg(not(miri))]
mod every_example;
#[cfg(not(miri))]
mod examples;
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

use alloc_core::HostAllocator;
use gpu_suballoc::{AllocatorOptions, DeviceMemory, GpuAllocator};

fn over<D: DeviceMemory, A: HostAllocator>(device: D, host: A) -> GpuAllocator<D, A> {
    over_with(device, host, AllocatorOptions::default())
}

fn over_with<D: DeviceMemory, A: HostAllocator>(
    device: D,
    host: A,
    options: AllocatorOptions,
) -> GpuAllocator<D, A> {
    // SAFETY: a mock, which says what is wrong; infos are valid, and nothing runs on it when a region is freed.
    let made = unsafe { GpuAllocator::new(device, host, options) };
    made.map_err(|refused| refused.error).unwrap()
}
