//! The driver that the program brings with it, linked: no loader, no manifest, no library.

use super::info::DriverInfo;
use super::probe;
use super::select::Selected;
use vk_callbacks::check::Opened;

/// What `--driver` calls it, and the report.
pub const REFERENCE: &str = "reference";

/// Steward's own driver. It shows nothing of the machine's drivers.
///
/// # Errors
/// What Vulkan answered: there was no memory.
pub fn reference() -> Result<Selected, ash::vk::Result> {
    let functions = ash::StaticFn {
        get_instance_proc_addr: reference_driver::get_instance_proc_addr,
    };
    // SAFETY: the driver's own function, which finds the commands that need no instance as the loader's does; it is part of the program.
    let entry = unsafe { ash::Entry::from_static_fn(functions) };
    let device = probe::devices(&entry)?.into_iter().next();
    let device = device.ok_or(ash::vk::Result::ERROR_INITIALIZATION_FAILED)?;
    let version = &device.driver_info;
    let info = DriverInfo {
        driver_name: REFERENCE.to_owned(),
        driver_info: format!("{version} (Steward's own driver: this shows nothing of yours)"),
        ..device
    };
    Ok(Selected::new(entry, info, Opened::Directly))
}

/// Whether this is the program's own driver.
#[must_use]
pub fn is_reference(info: &DriverInfo) -> bool {
    info.manifest.is_none() && info.driver_name == REFERENCE
}
