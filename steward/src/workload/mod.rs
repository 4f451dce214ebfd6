//! A workload of some twenty-five kinds of Vulkan objects: a plain program.
//!
//! [`run`] creates an instance and a device on the [`Selected`] driver. Each round creates buffers, images, views, samplers, descriptors,
//! pipelines and the rest, and buffers of gpu-suballoc. It records two command buffers, submits them, compares every result word with the
//! processor's from the same seed, and destroys everything in reverse order. After the last round buffers are defragmented.
//!
//! It passes no callbacks and keeps no accounts: the layer below does. If a command fails, for example because callbacks refuse memory, all
//! objects are destroyed, and the error is returned.

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
mod phases;
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
pub use phases::Moment;
pub use report::Report;

use ash::vk;
use gpu_suballoc::MemoryPreference;

use crate::drivers::Selected;
use commands::{Commands, Recorder};
use device::Device;
use instance::Instance;
use messenger::{Messages, Messenger};
use phases::Phases;
use physical::Physical;
use suballocation::defragmentation;
use vk_report::report::{Defragmentation, DeviceMemory};

/// Runs the workload on one driver, and calls `watch` between commands.
///
/// # Errors
///
/// [`WorkloadError`]: a command failed or a result is wrong. All created objects are destroyed.
pub fn run(
    driver: &Selected,
    options: &Options,
    watch: &dyn Fn(Moment),
) -> Result<Report, WorkloadError> {
    let messages = Messages::default();
    let mut outcome = run_all(driver, (options, watch), &messages)?;
    outcome.unintended.extend(messages.drain());
    Ok(Report {
        rounds: options.rounds,
        comparisons: outcome.comparisons,
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
    (options, watch): (&Options, &dyn Fn(Moment)),
    messages: &Messages,
) -> Result<Outcome, WorkloadError> {
    let mut outcome = Outcome::default();
    let watched = (options.validation != Validation::Off).then_some(messages);
    let phases = Phases::new(watch);
    phases.begin("instance");
    let instance = Instance::new(&phases, driver.entry(), watched)?;
    let _messenger = watched
        .map(|messages| Messenger::new(&instance, messages))
        .transpose()?;
    let physical = Physical::find(&instance, driver.info().device_index)?;
    if physical.device_name != driver.info().device_name {
        return Err(WorkloadError::OtherDevice);
    }

    phases.begin("device");
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
