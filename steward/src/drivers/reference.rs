use super::info::DriverInfo;
use super::open::OpenDriver;
use super::probe;
use vk_callbacks::check::Opened;

/// Its name for `--driver` and in reports.
pub const REFERENCE: &str = "reference";

/// Steward's own driver. Its results say nothing about the machine's drivers.
///
/// # Errors
/// The result of Vulkan: there was no memory.
pub fn reference() -> Result<OpenDriver, ash::vk::Result> {
    let functions = ash::StaticFn { get_instance_proc_addr: reference_driver::get_instance_proc_addr };
    // SAFETY: the driver's function finds global commands as the loader's does; it is part of the program.
    let entry = unsafe { ash::Entry::from_static_fn(functions) };
    let device = probe::devices(&entry)?.into_iter().next();
    let device = device.ok_or(ash::vk::Result::ERROR_INITIALIZATION_FAILED)?;
    let version = &device.driver_info;
    let info = DriverInfo {
        driver_name: REFERENCE.to_owned(),
        driver_info: format!("{version} (Steward's own driver: this shows nothing of yours)"),
        ..device
    };
    Ok(OpenDriver::new(entry, info, Opened::Directly))
}

pub(super) fn is_reference(info: &DriverInfo) -> bool {
    info.manifest.is_none() && info.driver_name == REFERENCE
}
