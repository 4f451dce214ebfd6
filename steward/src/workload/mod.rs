//! A workload of some twenty-five kinds of Vulkan objects: a plain program.
//!
//! [`run`] creates an instance and a device on the [`OpenDriver`] driver. Each round creates buffers, images, views,
//! samplers, descriptors, pipelines and the rest, and buffers of gpu-suballoc, compares every result word with the
//! processor's from the same seed, and destroys everything in reverse order. After the last round buffers are
//! defragmented.

mod commands;
mod descriptors;
mod device;
mod error;
mod expect;
mod graphics;
mod instance;
mod memory;
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
pub use options::Options;
pub use phases::Moment;
pub use report::Report;

use crate::drivers::OpenDriver;
use device::Device;
use instance::Instance;
use phases::Phases;
use physical::Physical;
use suballocation::defragmentation;

/// Runs the workload on one driver, and calls `watch` between commands.
///
/// # Errors
///
/// [`WorkloadError`]: a command failed or a result is wrong. All created objects are destroyed.
pub fn run(driver: &OpenDriver, options: &Options, watch: &dyn Fn(Moment)) -> Result<Report, WorkloadError> {
    let mut report = Report { rounds: options.rounds, ..Report::new(driver) };
    let phases = Phases::new(watch);
    phases.begin("instance");
    let instance = Instance::new(&phases, driver.entry())?;
    let physical = Physical::find(&instance, driver.info().device_index)?;
    if physical.device_name != driver.info().device_name {
        return Err(WorkloadError::OtherDevice);
    }

    phases.begin("device");
    let device = Device::new(&instance, &physical)?;
    watch(Moment::DeviceCreated);
    for round in 0..options.rounds {
        watch(Moment::RoundBegins(round));
        let (inputs, expected) = options.inputs(round);
        let done = round::run(&device, round, inputs, expected)?;
        report.comparisons = report.comparisons.saturating_add(done.comparisons);
        report.device_memory = Some(done.device_memory);
    }
    if let Some(last) = options.rounds.checked_sub(1) {
        let (inputs, expected) = options.inputs(last);
        let moved = defragmentation::run(&device, last, inputs, expected)?;
        report.comparisons = report.comparisons.saturating_add(moved.comparisons);
        report.defragmentation = Some(moved.report);
    }
    report.command_buffers = device.command_buffers().get();
    Ok(report)
}
