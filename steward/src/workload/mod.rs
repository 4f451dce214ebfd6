//! A workload of some twenty-five kinds of Vulkan object, whose every command an observer sees.
//!
//! [`run`] makes an instance and a device on the [`Selected`] driver. Each round then makes buffers, images, views, samplers,
//! descriptors, pipelines and the rest, and buffers of gpu-suballoc, records two command buffers, submits them, compares every word that comes back with what
//! the processor computes from the same seed, and destroys everything in reverse order. Behind the last round buffers are defragmented.
//!
//! An observer is a [`Hooks`]: it hands in `VkAllocationCallbacks` for each [`ObjectKind`](vk_accounts::ObjectKind) and is told of every command, in a
//! bracket as tight as Rust allows, and of every handle that comes and goes. The workload keeps its promise when callbacks refuse: whichever command fails, what was
//! made so far is destroyed, with the callbacks it was made with, and the failure is returned. There is no other path.
//!
//! Not bracketed: what the binding asks of the loader before there is an instance (four look-ups when the library is opened).

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

pub(crate) use answer::Answer;
pub use error::WorkloadError;
pub use options::{Options, Validation};
pub use report::Report;
pub(crate) use shaders::hash_kernel;

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
/// A [`WorkloadError`] as soon as a command fails or a result is wrong; everything that was made has been destroyed by then.
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
    /// Instance and device live: what the loader loads is there.
    DeviceCreated,
    /// A round begins; so many are done.
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
    let mut outcome = everything(driver, &caller, (options, watch), &messages)?;
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

/// What is known when instance and device are gone again.
#[derive(Default)]
struct Outcome {
    comparisons: u64,
    intended: Vec<String>,
    unintended: Vec<String>,
    device_memory: Option<DeviceMemory>,
    defragmentation: Option<Defragmentation>,
}

fn everything(
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

/// Breaks VUID-VkSemaphoreCreateInfo-flags-zerobitmask, which drivers do not look at and the validation layer must see.
fn break_a_rule(device: &Device<'_>) -> Result<(), WorkloadError> {
    let reserved = vk::SemaphoreCreateInfo::default().flags(vk::SemaphoreCreateFlags::from_raw(1));
    // SAFETY: not valid usage, on purpose: a flag that is reserved. No driver gives it a meaning; a binary semaphore comes back.
    unsafe { device.create::<vk::Semaphore>(&reserved) }.map(drop)
}

/// Records two fills of one buffer without a barrier between them (SYNC-HAZARD-WRITE-AFTER-WRITE): what synchronization validation must
/// see. It is never submitted.
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
    // SAFETY: a fresh command buffer; what it uses is declared above it, and no device ever runs it.
    unsafe {
        Recorder::record(device, twice, |to| {
            to.fill(*buffer, 1);
            to.fill(*buffer, 2);
        })
    }
}
