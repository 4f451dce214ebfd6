//! NVIDIA's management library, if installed: whether two cards are connected by NVLink, which the PCI path does not show.

use std::ffi::{CString, c_char, c_int, c_void};

use gpu_suballoc::group::PciAddress;
use libloading::{Library, Symbol};

/// `NVML_P2P_CAPS_INDEX_NVLINK`.
const NVLINK: c_int = 2;
/// `NVML_SUCCESS`, and `NVML_P2P_STATUS_OK`.
const OK: c_int = 0;

type Device = *mut c_void;
type ByBus = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;
type Status = unsafe extern "C" fn(Device, Device, c_int, *mut c_int) -> c_int;
type Plain = unsafe extern "C" fn() -> c_int;

/// The library, initialised until it is dropped.
pub(super) struct Nvml(Library);

impl Nvml {
    /// `None` if there is no such library, or it finds no driver.
    pub(super) fn open() -> Option<Self> {
        // SAFETY: the system's library of that name, trusted like the driver; its initialisers have no preconditions.
        let library = unsafe { Library::new("libnvidia-ml.so.1") }.ok()?;
        {
            // SAFETY: `nvmlReturn_t nvmlInit_v2(void)`.
            let init: Symbol<'_, Plain> = unsafe { library.get(b"nvmlInit_v2\0") }.ok()?;
            // SAFETY: may be called repeatedly; a shutdown matches each call.
            if unsafe { init() } != OK {
                return None;
            }
        }
        Some(Self(library))
    }

    /// Whether each device can access the other's memory over NVLink; `None` if the library does not report it.
    pub(super) fn has_link(&self, one: PciAddress, other: PciAddress) -> Option<bool> {
        let (one, other) = (self.device(one)?, self.device(other)?);
        // SAFETY: `nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t, nvmlDevice_t, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t *)`.
        let status: Symbol<'_, Status> = unsafe { self.0.get(b"nvmlDeviceGetP2PStatus\0") }.ok()?;
        let mut state = -1;
        // SAFETY: both devices are the library's, which is initialised; `state` is written to.
        let answer = unsafe { status(one, other, NVLINK, &raw mut state) };
        (answer == OK).then_some(state == OK)
    }

    fn device(&self, address: PciAddress) -> Option<Device> {
        let bus = CString::new(address.to_string()).ok()?;
        // SAFETY: `nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *, nvmlDevice_t *)`.
        let by_bus: Symbol<'_, ByBus> =
            unsafe { self.0.get(b"nvmlDeviceGetHandleByPciBusId_v2\0") }.ok()?;
        let mut device = std::ptr::null_mut();
        // SAFETY: a C string and room for the handle; the library is initialised.
        let answer = unsafe { by_bus(bus.as_ptr(), &raw mut device) };
        (answer == OK && !device.is_null()).then_some(device)
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: `nvmlReturn_t nvmlShutdown(void)`.
        if let Ok(shutdown) = unsafe { self.0.get::<Plain>(b"nvmlShutdown\0") } {
            // SAFETY: matches the initialisation; no handle is used afterwards.
            unsafe { shutdown() };
        }
    }
}
