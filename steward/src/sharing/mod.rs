//! Two contexts on one device of the application, a thread each, with one shader cache; one is released while the other goes on.
//!
//! ```text
//!   root -- cache                       the shared table
//!        |- first's books   first's callbacks    what gpu-suballoc keeps | what the driver takes
//!        |- second's books  second's callbacks
//! ```
//! On an instance and a device of its own, after the workload: a context has its own table of commands, which no bracket of the
//! workload's sees. So callbacks are counted here, and not judged by the rules.

mod application;

use std::alloc::System;
use std::sync::Barrier;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, HostError, Usage};
use ash::vk;
use gpu_suballoc::{
    AllocatorOptions, AshContext, AshContextInfo, AshContexts, AshOptions, BufferInfo, BufferUsage, CacheError, CacheLimits,
    ContextError, GpuError, KernelError, KernelInfo, KernelPipeline, MemoryOptions, RegionOptions, Released, ShaderKey,
};
use vk_callbacks::{Bridge, CallbackError};

use crate::drivers::Selected;
use crate::report::{SharedContext, SharedContexts, Went};
use crate::workload::hash_kernel;
use application::Application;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// Kernels that a context compiles; it finds as many of the other's.
const OWN: u32 = 4;
/// Buffers that a context makes.
const BUFFERS: usize = 3;

/// Why it could not be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharingError {
    /// A command of the application's own failed.
    #[error("two contexts: {command} answered {result:?}")]
    Command {
        /// Which.
        command: &'static str,
        /// What it answered.
        result: vk::Result,
    },
    /// No host memory.
    #[error("two contexts: {0}")]
    Host(HostError),
    /// Callbacks could not be made.
    #[error("two contexts: {0}")]
    Callbacks(#[from] CallbackError),
    /// A context was not acquired or released.
    #[error("two contexts: {0}")]
    Context(#[from] ContextError),
    /// A kernel was not compiled.
    #[error("two contexts: {0}")]
    Kernel(CacheError<KernelError>),
    /// A buffer was not made or given back.
    #[error("two contexts: {0}")]
    Gpu(#[from] GpuError),
    /// A thread ended early.
    #[error("two contexts: a thread panicked, which is a fault of Steward's: report it")]
    Panicked,
}

impl From<HostError> for SharingError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

/// A context's memory: its books, and what the driver takes for it.
struct Memory {
    books: Context,
    callbacks: Bridge,
    /// The bridge's own.
    own: Usage,
}

impl Memory {
    fn new(root: &Context, [books, callbacks]: [&'static str; 2]) -> Result<Self, SharingError> {
        let books = root.child(books)?;
        let callbacks = Bridge::new(root.child(callbacks)?).map_err(|refused| refused.error)?;
        let own = callbacks.usage();
        Ok(Self { books, callbacks, own })
    }

    /// Bytes of books, blocks and bytes of the driver.
    fn live(&self) -> [u64; 3] {
        let driver = self.callbacks.usage().without(&self.own).total();
        [self.books.usage().total().live_bytes, driver.live_blocks, driver.live_bytes]
    }
}

/// Runs both on the driver.
///
/// # Errors
/// [`SharingError`]; everything that was made was given back by then, as far as the driver gives it back.
pub fn run(selected: &Selected) -> Result<SharedContexts, SharingError> {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("two contexts"))?;
    let cache = root.child("shader cache")?;
    let first = Memory::new(&root, ["first's books", "first's callbacks"])?;
    let second = Memory::new(&root, ["second's books", "second's callbacks"])?;
    let mut told = {
        let application = Application::new(selected)?;
        both(selected, &application, &cache, [&first, &second])?
    };
    let left = [&first, &second].map(|memory| memory.live()).map(|[books, _, driver]| books.saturating_add(driver));
    told.left_bytes = left.into_iter().fold(cache.usage().total().live_bytes, u64::saturating_add);
    for memory in [first, second] {
        drop(memory.callbacks.close());
    }
    drop(cache);
    // Where the driver left something, that is told, and the root stays.
    drop(root.close_root());
    Ok(told)
}

fn both(
    selected: &Selected,
    application: &Application<'_>,
    cache: &Context,
    memory: [&Memory; 2],
) -> Result<SharedContexts, SharingError> {
    let home = AshContexts::new(cache.handle(), CacheLimits::NONE)?;
    let callbacks = memory.map(|memory| memory.callbacks.raw());
    let acquire = |index: usize| {
        let [first, second] = &callbacks;
        let callbacks = if index == 0 { first } else { second };
        let options = AshOptions { callbacks: Some(application.lend(callbacks)), ..AshOptions::new(application.api_version) };
        let options = AshContextInfo {
            get_instance_proc_addr: selected.entry().static_fn().get_instance_proc_addr,
            instance: application.instance.handle(),
            physical_device: application.physical,
            device: application.device.handle(),
            options,
            allocator: AllocatorOptions {
                memory: MemoryOptions { first_block: Some(256 << 10), ..MemoryOptions::default() },
                ..AllocatorOptions::default()
            },
            memory: if index == 0 { memory[0].books.handle() } else { memory[1].books.handle() },
            pipeline_cache_data: &[],
        };
        // SAFETY: all are of one another, and live until both contexts are gone: so do the bridges.
        unsafe { home.acquire_ash(options) }
    };
    let [first, second] = [acquire(0)?, acquire(1)?];
    let meet = Barrier::new(2);
    let (of_first, of_second) = std::thread::scope(|threads| {
        let other = threads.spawn(|| work(&second, OWN, &meet));
        let mine = work(&first, 0, &meet);
        (mine, other.join().unwrap_or(Err(SharingError::Panicked)))
    });
    let (of_first, of_second) = (of_first?, of_second?);
    let mut told = SharedContexts { kernels: 2 * u64::from(OWN), ..SharedContexts::default() };
    let contexts = [("first", of_first), ("second", of_second)];
    told.contexts = contexts
        .map(|(name, compiled)| SharedContext {
            name: name.to_owned(),
            compiled,
            found: told.kernels.saturating_sub(compiled),
            regions: BUFFERS as u64,
        })
        .into();
    told.went = release(first, memory)?;
    let before = second.shaders().stats();
    let own: Vec<_> = (OWN..2 * OWN).filter(|number| home.cache().get(key(&second, *number)).is_some()).collect();
    told.still_found = own.len() as u64;
    (0..2 * OWN).try_for_each(|number| kernel(&second, number))?;
    told.compiled_anew = second.shaders().stats().compiled.saturating_sub(before.compiled);
    let [one, other] = memory;
    told.went_last = release(second, [other, one])?;
    Ok(told)
}

fn key(context: &AshContext, number: u32) -> ShaderKey {
    ShaderKey::kernel(context.shaders().device(), u64::from(number))
}

/// Compiles its own kernels, waits for the other context to have done so, and asks for all; makes buffers. Answers how many it compiled.
fn work(context: &AshContext, own: u32, meet: &Barrier) -> Result<u64, SharingError> {
    let compiled = (own..own + OWN).try_for_each(|number| kernel(context, number));
    // Whatever became of it: the other one waits.
    meet.wait();
    compiled?;
    (0..2 * OWN).try_for_each(|number| kernel(context, number))?;
    for number in 0..BUFFERS as u64 {
        let info = BufferInfo::new(4096 << number, BufferUsage::STORAGE_BUFFER);
        let region = context.allocator().create_buffer(&info, &RegionOptions::new())?;
        // It is kept for the next that wants one as large, and goes with the context.
        context.allocator().release(region).map_err(GpuError::from)?;
    }
    Ok(context.shaders().stats().compiled)
}

/// Finds or compiles the kernel of a number: the workload's own, with another constant each.
fn kernel(context: &AshContext, number: u32) -> Result<(), SharingError> {
    let compile = || {
        hash_kernel(number, |code, sets, ranges, specialization| {
            let pipelines = [KernelPipeline { name: c"main", specialization: Some(specialization) }];
            let info =
                KernelInfo { code, set_layouts: sets, push_constant_ranges: ranges, pipelines: &pipelines, keep_code: false };
            // SAFETY: what the workload makes of the same code on every device; nothing runs it.
            unsafe { context.compile(&info) }
        })
    };
    context.shaders().get_or_compile(key(context, number), compile).map(drop).map_err(SharingError::Kernel)
}

/// Releases a context, and sees what went; `memory` is its own, and the other's.
fn release(context: AshContext, memory: [&Memory; 2]) -> Result<Went, SharingError> {
    let [before, others] = memory.map(Memory::live);
    let released = context.release().map_err(|refused| ContextError::Outstanding(refused.outstanding))?;
    let [after, others_after] = memory.map(Memory::live);
    let Released { shaders, held, blocks, block_bytes, .. } = released;
    let [book_bytes, driver_blocks, driver_bytes] = [0, 1, 2].map(|index: usize| {
        let of = |row: &[u64; 3]| row.get(index).copied().unwrap_or_default();
        of(&before).saturating_sub(of(&after))
    });
    let sum = |row: [u64; 3]| row.into_iter().fold(0, u64::saturating_add);
    let others_bytes = sum(others).abs_diff(sum(others_after));
    Ok(Went { kernels: shaders, held, blocks, block_bytes, book_bytes, driver_blocks, driver_bytes, others_bytes })
}
