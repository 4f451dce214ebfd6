//! The four traces on a real device: `steward drive --device-memory`.
//!
//! ```text
//!   traces --ops--> play --GpuAllocator--> CountedDevice --> AshDevice --> driver
//!             sizes --> pairs --the same, and vkAllocateMemory by itself--'
//!                                                   report -> text, JSON
//! ```
//!
//! Only allocation and free are measured: the memory is not read or written.

mod budget;
mod counted_device;
mod error;
mod open;
mod pairs;
mod play;
mod report;
mod text;
mod times;
mod traces;

pub use error::DeviceMemoryError;
pub use play::measure;
pub use report::{DeviceMemoryReport, PairRow, PairTimes, TimeRow, TraceRow};
pub use traces::{MemoryTrace, SizeEnding, TraceOp, TraceScale, all_traces, churn};

use crate::drivers::Selected;
use open::OpenDevice;

/// Limits of the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasureOptions {
    /// The most bytes that may be allocated at any moment, if less than the limit of [`measure`].
    pub limit: Option<u64>,
    /// Play a twentieth of the rounds of each trace, as a quick test.
    pub quick: bool,
}

/// [Measures](measure) the device of a driver.
///
/// # Errors
/// [`DeviceMemoryError`]: no device could be created, or a region could not be freed. A request that is refused is a number in the report.
pub fn run(
    selected: &Selected,
    options: MeasureOptions,
) -> Result<DeviceMemoryReport, DeviceMemoryError> {
    let device = OpenDevice::new(selected)?;
    let is_host_memory = device.is_host_memory();
    let mut report = measure(&device.memory(), options, is_host_memory)?;
    let info = selected.info();
    report.driver = info.title().to_owned();
    report.driver_version = info.driver_info.clone();
    report.device = info.device_name.clone();
    Ok(report)
}
