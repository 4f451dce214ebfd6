//! Two parts of a program on one device, a context and a thread each, with one shader cache: what one has compiled the
//! other finds. One context is released while the other goes on: exactly its own kernels, device memory and host memory
//! go.
//!
//! ```text
//!  application
//!    +-- shader cache          the shared table
//!    +-- first, second         tables and kernels of a context
//! ```
//!
//! `cargo run -p gpu-suballoc --example two_contexts`; prints `SKIPPED` where there is no driver.

mod support;

use std::ops::Range;
use std::sync::Barrier;
use std::thread;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
use ash::vk;
use gpu_suballoc::ash::{AshContext, AshContexts, KernelInfo, KernelPipeline};
use gpu_suballoc::cache::{CacheLimits, ShaderKey};
use gpu_suballoc::context::ContextError;
use gpu_suballoc::{BufferInfo, BufferUsage, RegionOptions};
use support::{Failure, Gpu};

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

/// Of `support/store.comp`, by glslangValidator.
static CODE: &[u8] = include_bytes!("support/store.comp.spv");

/// Kernels that each context is the first to want.
const OWN: u32 = 4;

fn main() -> Result<(), Failure> {
    support::run(two_contexts)
}

fn two_contexts(gpu: &Gpu) -> Result<(), Failure> {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
    let (cache, one, other) = (root.child("shader cache")?, root.child("first")?, root.child("second")?);
    let contexts = AshContexts::new(cache.handle(), CacheLimits::NONE)?;
    // SAFETY: instance and device belong together, and outlive the contexts.
    let first = unsafe { contexts.acquire_ash(gpu.context(one.handle())) }?;
    // SAFETY: as above.
    let second = unsafe { contexts.acquire_ash(gpu.context(other.handle())) }?;

    let meet = Barrier::new(2);
    let [of_first, of_second] = thread::scope(|threads| {
        let other = threads.spawn(|| work(&second, OWN..2 * OWN, &meet));
        let own = work(&first, 0..OWN, &meet);
        [own, other.join().unwrap_or(Err("a panic".to_owned()))]
    });
    for (name, compiled) in [("first", of_first?), ("second", of_second?)] {
        let found = u64::from(2 * OWN) - compiled;
        println!("{name}: {compiled} kernels compiled, {found} found in the cache");
    }
    println!("{}", root.snapshot()?);

    let before = one.usage().total().live_bytes;
    let released = first.release().map_err(|refused| ContextError::Outstanding(refused.error))?;
    let left = one.usage().total().live_bytes;
    println!(
        "first released: {} kernels, {} memory objects of {} KiB, {} of {before} bytes of host memory",
        released.shaders,
        released.blocks,
        released.block_bytes >> 10,
        before - left
    );
    let compiled = second.shaders().stats().compiled;
    (0..2 * OWN).try_for_each(|number| kernel(&second, number))?;
    let anew = second.shaders().stats().compiled - compiled;
    println!("second goes on: its own kernels are found, {anew} of first's compiled anew");
    if (released.shaders, left, anew) != (u64::from(OWN), 0, u64::from(OWN)) {
        return Err("exactly what was first's was to go".into());
    }
    second.release().map_err(|refused| ContextError::Outstanding(refused.error))?;
    drop((contexts, cache, one, other));
    root.close_root()?;
    println!("nothing is left");
    Ok(())
}

/// Compiles its own kernels, waits for the other context's, wants them all, and takes some memory. Returns how many it
/// compiled.
fn work(context: &AshContext, own: Range<u32>, meet: &Barrier) -> Result<u64, String> {
    let compiled = own.clone().try_for_each(|number| kernel(context, number));
    // Also after an error: the other thread waits here.
    meet.wait();
    compiled?;
    (0..2 * OWN).try_for_each(|number| kernel(context, number))?;
    let info = BufferInfo::new(4096, BufferUsage::STORAGE_BUFFER);
    let memory = context.allocator();
    let region = memory.create_buffer(&info, &RegionOptions::new());
    // The allocator keeps the buffer for the next request, and destroys it with the context.
    let kept = region.and_then(|region| Ok(memory.release(region)?));
    kept.map_err(|error| error.to_string())?;
    Ok(context.shaders().stats().compiled)
}

/// Finds or compiles the kernel that stores `number`.
fn kernel(context: &AshContext, number: u32) -> Result<(), String> {
    let compile = || {
        let words = CODE.as_chunks::<4>().0.iter();
        let code: Vec<_> = words.map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let constants = [vk::SpecializationMapEntry::default().size(4)];
        let number = number.to_ne_bytes();
        let number = vk::SpecializationInfo::default().map_entries(&constants).data(&number);
        let info = KernelInfo {
            code: &code,
            set_layouts: &[vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings)],
            push_constant_ranges: &[],
            pipelines: &[KernelPipeline { name: c"main", specialization: Some(&number) }],
            keep_code: false,
        };
        // SAFETY: valid SPIR-V, whose one binding and constant these are.
        unsafe { context.compile(&info) }
    };
    let shaders = context.shaders();
    let key = ShaderKey::kernel(shaders.device(), u64::from(number));
    let found = shaders.get_or_compile(key, compile);
    found.map(drop).map_err(|error| error.to_string())
}
