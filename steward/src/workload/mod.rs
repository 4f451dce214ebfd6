//! A workload of some twenty-five kinds of Vulkan objects; an observer sees every command.
//!
//! [`run`] creates an instance and a device on the [`Selected`] driver. Each round creates buffers, images, views, samplers, descriptors,
//! pipelines and the rest, and buffers of gpu-suballoc. It records two command buffers, submits them, compares every result word with the
//! processor's from the same seed, and destroys everything in reverse order. After the last round buffers are defragmented.
//!
//! An observer implements [`Hooks`]: it provides `VkAllocationCallbacks` for each [`ObjectKind`](vk_accounts::ObjectKind), runs every command
//! in a bracket, and is notified of every created and destroyed handle. If a command fails, for example because callbacks refuse memory, all
//! objects are destroyed with the callbacks of their creation, and the error is returned.
//!
//! Not bracketed: the binding's four look-ups when the loader's library is opened, before there is an instance.

mod answer;
mod caller;
mod commands;
mod descriptors;
mod device;
mod error;
mod expect;
mod graphics;
mod instance;
mod memory;
mod messenger;
mod object;
mod options;
mod physical;
mod pipelines;
mod report;
mod resources;
mod round;
mod shaders;
mod suballocation;
mod submit;
mod sync;

pub use error::WorkloadError;
pub use options::{Options, Validation};
pub use report::Report;

use ash::vk;
use gpu_suballoc::MemoryPreference;
use vk_accounts::Hooks;

use crate::drivers::Selected;
use caller::Caller;
use commands::{Commands, Recorder};
use device::Device;
use instance::Instance;
use messenger::{Messages, Messenger};
use physical::Physical;
use suballocation::defragmentation;
use vk_accounts::report::{Defragmentation, DeviceMemory};

/// Runs the workload on one driver.
///
/// # Errors
///
/// [`WorkloadError`]: a command failed or a result is wrong. All created objects are destroyed.
pub fn run(
    driver: &Selected,
    hooks: &dyn Hooks,
    options: &Options,
) -> Result<Report, WorkloadError> {
    run_watched(driver, hooks, options, &|_| {})
}

/// A moment between two commands of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Instance and device exist: the loader has loaded its libraries.
    DeviceCreated,
    /// A round begins, after this number of rounds.
    RoundBegins(u32),
}

/// As [`run`], and calls `watch` between commands.
///
/// # Errors
///
/// As [`run`].
pub fn run_watched(
    driver: &Selected,
    hooks: &dyn Hooks,
    options: &Options,
    watch: &dyn Fn(Moment),
) -> Result<Report, WorkloadError> {
    let caller = Caller::new(hooks);
    let messages = Messages::default();
    let mut outcome = run_all(driver, &caller, (options, watch), &messages)?;
    outcome.unintended.extend(messages.drain());
    Ok(Report {
        rounds: options.rounds,
        commands: caller.commands(),
        comparisons: outcome.comparisons,
        objects: caller.object_created(),
        validation_messages: outcome.unintended,
        intended_messages: outcome.intended,
        device_memory: outcome.device_memory,
        defragmentation: outcome.defragmentation,
        ..Report::new(driver)
    })
}

/// The results of a run, when instance and device are destroyed.
#[derive(Default)]
struct Outcome {
    comparisons: u64,
    intended: Vec<String>,
    unintended: Vec<String>,
    device_memory: Option<DeviceMemory>,
    defragmentation: Option<Defragmentation>,
}

fn run_all(
    driver: &Selected,
    caller: &Caller<'_>,
    (options, watch): (&Options, &dyn Fn(Moment)),
    messages: &Messages,
) -> Result<Outcome, WorkloadError> {
    let mut outcome = Outcome::default();
    let watched = (options.validation != Validation::Off).then_some(messages);
    caller.phase("instance");
    let instance = Instance::new(caller, driver.entry(), watched)?;
    let _messenger = watched
        .map(|messages| Messenger::new(&instance, messages))
        .transpose()?;
    let physical = Physical::find(&instance, driver.info().device_index)?;
    if physical.device_name != driver.info().device_name {
        return Err(WorkloadError::OtherDevice);
    }

    caller.phase("device");
    let device = Device::new(&instance, &physical)?;
    watch(Moment::DeviceCreated);
    if options.validation == Validation::OnAfterIntendedError {
        outcome.unintended = messages.drain();
        break_a_rule(&device)?;
        forget_a_barrier(&device)?;
        outcome.intended = messages.drain();
    }
    for round in 0..options.rounds {
        watch(Moment::RoundBegins(round));
        let (inputs, expected) = options.inputs(round);
        let done = round::run(&device, round, inputs, expected)?;
        outcome.comparisons = outcome.comparisons.saturating_add(done.comparisons);
        outcome.device_memory = Some(done.device_memory);
    }
    if let Some(last) = options.rounds.checked_sub(1) {
        let (inputs, expected) = options.inputs(last);
        let moved = defragmentation::run(&device, last, inputs, expected)?;
        outcome.comparisons = outcome.comparisons.saturating_add(moved.comparisons);
        outcome.defragmentation = Some(moved.report);
    }
    Ok(outcome)
}

/// Breaks VUID-VkSemaphoreCreateInfo-flags-zerobitmask, which drivers ignore and the validation layer must report.
fn break_a_rule(device: &Device<'_>) -> Result<(), WorkloadError> {
    let reserved = vk::SemaphoreCreateInfo::default().flags(vk::SemaphoreCreateFlags::from_raw(1));
    // SAFETY: not valid usage, on purpose: a reserved flag. Drivers ignore it and create a binary semaphore.
    unsafe { device.create::<vk::Semaphore>(&reserved) }.map(drop)
}

/// Records two fills of one buffer without a barrier between them (SYNC-HAZARD-WRITE-AFTER-WRITE), which synchronization validation must
/// report. They are never submitted.
fn forget_a_barrier(device: &Device<'_>) -> Result<(), WorkloadError> {
    let buffer = resources::buffer(device, 64, vk::BufferUsageFlags::TRANSFER_DST)?;
    let _memory = memory::for_buffers(
        device,
        "a buffer to be filled twice",
        [*buffer],
        MemoryPreference::default(),
    )?;
    let commands = Commands::new(device)?;
    let [twice] = commands.all();
    // SAFETY: a new command buffer; the buffer outlives it, and no device ever runs it.
    unsafe {
        Recorder::record(device, twice, |to| {
            to.fill(*buffer, 1);
            to.fill(*buffer, 2);
        })
    }
}
