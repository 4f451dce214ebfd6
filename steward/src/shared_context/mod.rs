//! Two contexts on one device of the application, a thread each, with one shader cache; one is released while the other goes on.
//!
//! ```text
//!   root -- shader cache                   the shared table
//!        |- first's books    first context      gpu-suballoc's bookkeeping | the driver's blocks
//!        |- second's books   second context
//!        |- the shared device                   shared by objects in the driver
//! ```
//! This test runs after the workload, on its own instance and device. It uses the same allocator, so `--guard` and `--fail` apply. Each
//! context loads its own table of commands. Each command runs in a [bracket](brackets), so callbacks are judged by the rules.

mod application;
mod brackets;
mod commands;
mod memory;

use std::alloc::System;
use std::sync::Barrier;

use alloc_core::{
    Context, ContextOptions, FromGlobalAlloc, HostAllocator, HostError, Scope, Scoped,
};
use ash::vk;
use gpu_suballoc::ash::{
    AshContext, AshContextInfo, AshContexts, AshOptions, KernelError, KernelInfo, KernelPipeline,
};
use gpu_suballoc::cache::{CacheError, CacheLimits, ShaderKey};
use gpu_suballoc::context::{ContextError, ReleaseReport};
use gpu_suballoc::device::DeviceError;
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::{AllocatorOptions, BufferInfo, BufferUsage, GpuError, RegionOptions};
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{CallbackError, CheckOptions, Checker};

use crate::drivers::Selected;
use crate::workload::hash_kernel;
use application::Application;
use brackets::Brackets;
use commands::InstalledBrackets;
use memory::{Callbacks, Memory};
use vk_accounts::report::origins::{SiteRecorder, StackCapture};
use vk_accounts::report::{
    FindingRow, Leaks, Leftover, SharedContext, SharedContexts, Unjudged, Went,
};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// Number of kernels that each context compiles. Each context finds the other context's kernels in the cache.
const OWN: u32 = 4;
/// Buffers that a context creates.
const BUFFERS: usize = 3;

/// Why the run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharingError {
    /// A command of the application failed.
    #[error("two contexts: {command} answered {result:?}")]
    Command {
        /// Its name.
        command: &'static str,
        /// Its result.
        result: vk::Result,
    },
    /// No host memory.
    #[error("two contexts: {0}")]
    Host(#[from] HostError),
    /// Callbacks could not be created.
    #[error("two contexts: {0}")]
    Callbacks(#[from] CallbackError),
    /// A context was not acquired or released.
    #[error("two contexts: {0}")]
    Context(#[from] ContextError),
    /// A kernel was not compiled.
    #[error("two contexts: {0}")]
    Kernel(CacheError<KernelError>),
    /// A buffer was not created or freed.
    #[error("two contexts: {0}")]
    Gpu(#[from] GpuError),
    /// A thread ended early.
    #[error("two contexts: a thread panicked, which is a fault of Steward's: report it")]
    Panicked,
}

impl SharingError {
    /// The driver found no host memory.
    #[must_use]
    pub fn is_out_of_host_memory(&self) -> bool {
        let of_device = |error: &GpuError| *error == GpuError::Device(DeviceError::OutOfHostMemory);
        match self {
            Self::Command { result, .. } => *result == vk::Result::ERROR_OUT_OF_HOST_MEMORY,
            Self::Context(ContextError::Gpu(error)) | Self::Gpu(error) => of_device(error),
            Self::Kernel(CacheError::Compile(KernelError { error, .. })) => of_device(error),
            _ => false,
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct SharedRun {
    /// The measurements, or the error that ended the run early.
    pub outcome: Result<SharedContexts, SharingError>,
    /// Blocks that the driver never freed.
    pub leftovers: Vec<Leftover>,
    /// These blocks by call stack.
    pub leaks: Leaks,
}

/// Runs both contexts on the driver, over `backing`. With `check` their callbacks are checked by Vulkan's rules.
///
/// # Errors
/// No memory for bookkeeping. Other errors are in [`SharedRun::outcome`]; all objects are destroyed by then.
///
/// # Safety
/// `backing` outlives the driver's instance, which is destroyed when this function returns, and blocks that the driver never frees.
pub unsafe fn run<A: HostAllocator + Sync>(
    selected: &Selected,
    backing: &A,
    check: bool,
) -> Result<SharedRun, SharingError> {
    let options = CheckOptions {
        coverage: BracketCoverage::Complete,
        opened: selected.opened(),
    };
    let checker = check.then(|| Checker::new(&SYSTEM, options)).transpose()?;
    // SAFETY: the caller's promise.
    let root = unsafe { Context::root(backing, ContextOptions::new("two contexts")) }?;
    let cache = root.child("shader cache")?;
    let stacks = StackCapture::new(SiteRecorder::default())?;
    let watching = (checker.as_ref(), &stacks);
    let device = Callbacks::new(&root, "the shared device", watching)?;
    let first = Memory::new(&root, ["first's books", "first context"], watching)?;
    let second = Memory::new(&root, ["second's books", "second context"], watching)?;
    let brackets = Brackets::new(checker.as_ref(), device.owner());
    for callbacks in [&device, &first.callbacks, &second.callbacks] {
        brackets.add(callbacks.owner(), &callbacks.lend());
    }
    let mut outcome = {
        let _installed = InstalledBrackets::new(
            &brackets,
            selected.entry().static_fn().get_instance_proc_addr,
        );
        Application::new(selected, &device, &brackets)
            .and_then(|application| both(&application, &cache, [&first, &second]))
    };
    let commands = brackets.commands();
    let found = checker.as_ref().map(judged).transpose()?;
    if let Ok(shared) = &mut outcome {
        let books =
            [&cache, &first.books, &second.books].map(|books| books.usage().total().live_bytes);
        let all = [&device, &first.callbacks, &second.callbacks]
            .map(|callbacks| callbacks.usage().total());
        shared.left_bytes = books
            .into_iter()
            .chain(all.map(|usage| usage.live_bytes))
            .fold(0, u64::saturating_add);
        shared.callback_blocks = all
            .into_iter()
            .map(|usage| usage.total_blocks)
            .fold(0, u64::saturating_add);
        (shared.commands, shared.judged) = (commands, found.is_some());
        (shared.findings, shared.unjudged) = found.unwrap_or_default();
    }
    let leftovers = [first.callbacks, second.callbacks, device]
        .into_iter()
        .filter_map(Callbacks::close)
        .collect();
    if let Some(checker) = checker {
        // SAFETY: the driver's instance is destroyed, so no thread calls the callbacks any more.
        unsafe { checker.close_anyway() };
    }
    drop((first.books, second.books, cache));
    // If the driver left something, `leftovers` lists it and the root stays.
    drop(root.close_root());
    let leaks = stacks.with(|recorder| recorder.leaks(&[]));
    Ok(SharedRun {
        outcome,
        leftovers,
        leaks,
    })
}

/// Finishes the check. Returns all findings, and the numbers of what could not be judged.
fn judged(checker: &Checker<'_>) -> Result<(Vec<FindingRow>, Option<Unjudged>), SharingError> {
    checker.finish();
    let found = checker.findings(Scoped::new(&SYSTEM, Scope::Object))?;
    let mut rows: Vec<_> = found.iter().map(FindingRow::from).collect();
    // Two threads run, so the order of time varies.
    rows.sort_by(|one, other| {
        (&one.rule, &one.command, &one.sentence).cmp(&(
            &other.rule,
            &other.command,
            &other.sentence,
        ))
    });
    Ok((rows, Unjudged::live(checker.lost())))
}

fn both(
    application: &Application<'_>,
    cache: &Context,
    memory: [&Memory; 2],
) -> Result<SharedContexts, SharingError> {
    let home = AshContexts::new(cache.handle(), CacheLimits::NONE)?;
    let acquire = |memory: &Memory| {
        let callbacks = Some(memory.callbacks.lend());
        let info = AshContextInfo {
            get_instance_proc_addr: commands::get_instance_proc_addr,
            instance: application.instance.handle(),
            physical_device: application.physical,
            device: application.device,
            options: AshOptions {
                callbacks,
                ..AshOptions::new(application.api_version)
            },
            allocator: AllocatorOptions {
                memory: MemoryOptions {
                    first_block: Some(256 << 10),
                    ..MemoryOptions::default()
                },
                ..AllocatorOptions::default()
            },
            memory: memory.books.handle(),
            pipeline_cache_data: &[],
        };
        // SAFETY: instance, physical device and device belong together. They, the callbacks and the brackets outlive both contexts.
        unsafe { home.acquire_ash(info) }
    };
    let [one, other] = memory;
    let (first, second) = (acquire(one)?, acquire(other)?);
    let meet = Barrier::new(2);
    let (of_first, of_second) = std::thread::scope(|threads| {
        let other = threads.spawn(|| work(&second, OWN, &meet));
        let mine = work(&first, 0, &meet);
        (mine, other.join().unwrap_or(Err(SharingError::Panicked)))
    });
    let (of_first, of_second) = (of_first?, of_second?);
    let mut shared = SharedContexts {
        kernels: 2 * u64::from(OWN),
        ..SharedContexts::default()
    };
    let contexts = [("first", of_first), ("second", of_second)];
    shared.contexts = contexts
        .map(|(name, compiled)| SharedContext {
            name: name.to_owned(),
            compiled,
            found: shared.kernels.saturating_sub(compiled),
            regions: BUFFERS as u64,
        })
        .into();
    shared.went = release(first, memory)?;
    let before = second.shaders().stats();
    let own: Vec<_> = (OWN..2 * OWN)
        .filter(|number| home.cache().get(key(&second, *number)).is_some())
        .collect();
    shared.still_found = own.len() as u64;
    (0..2 * OWN).try_for_each(|number| kernel(&second, number))?;
    shared.compiled_anew = second
        .shaders()
        .stats()
        .compiled
        .saturating_sub(before.compiled);
    shared.went_last = release(second, [other, one])?;
    Ok(shared)
}

fn key(context: &AshContext, number: u32) -> ShaderKey {
    ShaderKey::kernel(context.shaders().device(), u64::from(number))
}

/// Compiles its own kernels, waits for the other context's, looks up all kernels and creates buffers. Returns the number of compilations.
fn work(context: &AshContext, own: u32, meet: &Barrier) -> Result<u64, SharingError> {
    let compiled = (own..own + OWN).try_for_each(|number| kernel(context, number));
    // Also after an error, because the other thread waits at the barrier.
    meet.wait();
    compiled?;
    (0..2 * OWN).try_for_each(|number| kernel(context, number))?;
    for number in 0..BUFFERS as u64 {
        let info = BufferInfo::new(4096 << number, BufferUsage::STORAGE_BUFFER);
        let region = context
            .allocator()
            .create_buffer(&info, &RegionOptions::new())?;
        // The allocator keeps the buffer for reuse, and destroys it with the context.
        context
            .allocator()
            .release(region)
            .map_err(GpuError::from)?;
    }
    Ok(context.shaders().stats().compiled)
}

/// Finds or compiles the kernel of a number: the workload's kernel with a constant.
fn kernel(context: &AshContext, number: u32) -> Result<(), SharingError> {
    let compile = || {
        hash_kernel(number, |code, sets, ranges, specialization| {
            let pipelines = [KernelPipeline {
                name: c"main",
                specialization: Some(specialization),
            }];
            let info = KernelInfo {
                code,
                set_layouts: sets,
                push_constant_ranges: ranges,
                pipelines: &pipelines,
                keep_code: false,
            };
            // SAFETY: what the workload makes of the same code on every device; nothing runs it.
            unsafe { context.compile(&info) }
        })
    };
    context
        .shaders()
        .get_or_compile(key(context, number), compile)
        .map(drop)
        .map_err(SharingError::Kernel)
}

/// Releases a context and measures what it freed; `memory` is its own and the other's.
fn release(context: AshContext, memory: [&Memory; 2]) -> Result<Went, SharingError> {
    let [before, others] = memory.map(Memory::live);
    let released = context
        .release()
        .map_err(|refused| ContextError::Outstanding(refused.error))?;
    let [after, others_after] = memory.map(Memory::live);
    let ReleaseReport {
        shaders,
        held,
        blocks,
        block_bytes,
        ..
    } = released;
    let [book_bytes, driver_blocks, driver_bytes] = [0, 1, 2].map(|index: usize| {
        let of = |row: &[u64; 3]| row.get(index).copied().unwrap_or_default();
        of(&before).saturating_sub(of(&after))
    });
    let sum = |row: [u64; 3]| row.into_iter().fold(0, u64::saturating_add);
    let others_bytes = sum(others).abs_diff(sum(others_after));
    Ok(Went {
        kernels: shaders,
        held,
        blocks,
        block_bytes,
        book_bytes,
        driver_blocks,
        driver_bytes,
        others_bytes,
    })
}
