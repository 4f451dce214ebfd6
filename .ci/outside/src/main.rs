//! One thing of each library, over what was packed.

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
use debug_guard::{Guard, GuardOptions, Mode};
use gpu_suballoc::{AllocatorOptions, BufferInfo, BufferUsage, GpuAllocator, RegionOptions};
use gpu_suballoc::mock::{MockDevice, MockProfile};
use vk_callbacks::Bridge;

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = Guard::new(&SYSTEM, GuardOptions::new(Mode::Cookie)).map_err(|refused| refused.error)?;
    // SAFETY: the guard outlives the root.
    let root = unsafe { Context::root(&guard, ContextOptions::new("application")) }?;
    let bridge = Bridge::new(root.child("vulkan")?)?;
    assert!(bridge.callbacks().raw().pfn_allocation.is_some());
    bridge.close().map_err(|refused| refused.to_string())?;

    let device = MockDevice::new(MockProfile::Nvidia, FromGlobalAlloc::SYSTEM);
    // SAFETY: infos are valid for the device, and nothing runs on it.
    let gpu = unsafe { GpuAllocator::new(&device, root.child("regions")?, AllocatorOptions::default()) }
        .map_err(|refused| refused.error)?;
    let buffer = gpu.create_buffer(&BufferInfo::new(4096, BufferUsage::TRANSFER_SRC), &RegionOptions::new())?;
    assert!(root.usage().total().live_bytes > 0 || gpu.stats().host_bytes > 0);
    gpu.free(buffer)?;
    gpu.close().map_err(|refused| refused.to_string())?;
    println!("built from the packed crates: {} bytes are left", root.usage().total().live_bytes);
    Ok(())
}
