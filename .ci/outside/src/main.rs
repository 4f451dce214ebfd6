//! One thing of each library, over what was packed.

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
use debug_guard::{Guard, GuardOptions, Mode};
use gpu_suballoc::VirtualBlock;
use vk_callbacks::Bridge;

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = Guard::new(&SYSTEM, GuardOptions::new(Mode::Cookie)).map_err(|refused| refused.error)?;
    // SAFETY: the guard outlives the root.
    let root = unsafe { Context::root(&guard, ContextOptions::new("application")) }?;
    let bridge = Bridge::new(root.child("vulkan")?)?;
    assert!(bridge.callbacks().raw().pfn_allocation.is_some());
    bridge.close().map_err(|refused| refused.to_string())?;

    let mut block = VirtualBlock::new(root.child("regions")?, 1 << 20, 256)?;
    let range = block.allocate(4096, 256)?;
    assert!(root.usage().total().live_bytes > 0);
    block.free(range.allocation)?;
    drop(block);
    println!("built from the packed crates: {} bytes are left", root.usage().total().live_bytes);
    Ok(())
}
