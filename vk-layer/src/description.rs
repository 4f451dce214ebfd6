use std::ffi::{CStr, c_void};
use std::fmt;
use std::iter;

use alloc_core::{HostError, TryString, TryVec};
use debug_guard::ModuleFinder;

use crate::chain::{DeviceProperties, GetProcAddr, InstanceCreateInfo, LOADER_INSTANCE, links_behind, slice_of};
use crate::hooks::get_instance_proc_addr;
use crate::os::{self, PATH_LIST_SEPARATOR, file_name};
use crate::per_process::PerProcess;
use crate::record::{Own, own};
use crate::settings::LAYER;

/// NVIDIA packs the parts of its version in a way of its own.
const NVIDIA: u32 = 0x10de;

#[derive(Clone, Copy)]
pub(crate) struct DeviceDescription {
    api_version: u32,
    driver_version: u32,
    vendor: u32,
    device_name: [u8; 256],
}

impl DeviceDescription {
    pub(crate) const fn new(properties: DeviceProperties) -> Self {
        Self {
            api_version: properties.api_version,
            driver_version: properties.driver_version,
            vendor: properties.vendor,
            device_name: properties.device_name,
        }
    }

    /// The name ends at the first byte that is no UTF-8.
    pub(crate) fn name(&self) -> &str {
        let name = CStr::from_bytes_until_nul(&self.device_name);
        let name = name.map_or(&[][..], CStr::to_bytes);
        let valid = name.utf8_chunks().next();
        valid.map_or("", |chunk| chunk.valid())
    }
}

impl fmt::Display for DeviceDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_version, driver_version, vendor, .. } = *self;
        let of_vulkan = |version: u32| (version >> 22 & 0x7f, version >> 12 & 0x3ff, version & 0xfff);
        let (major, minor, patch) = if vendor == NVIDIA {
            (driver_version >> 22, driver_version >> 14 & 0xff, driver_version >> 6 & 0xff)
        } else {
            of_vulkan(driver_version)
        };
        write!(f, "{}, driver {major}.{minor}.{patch}", self.name())?;
        let (major, minor, patch) = of_vulkan(api_version);
        write!(f, " of vendor {vendor:#x}, Vulkan {major}.{minor}.{patch}")
    }
}

pub(crate) struct Surroundings {
    pub(crate) loader: Option<TryString<Own>>,
    pub(crate) layers: TryVec<TryString<Own>, Own>,
    pub(crate) below: TryVec<TryString<Own>, Own>,
    /// Of several files that are installed the loader has picked this one.
    pub(crate) library: Option<TryString<Own>>,
}

static SURROUNDINGS: PerProcess<Surroundings> = PerProcess::new();

pub(crate) fn surroundings() -> Option<&'static Surroundings> {
    SURROUNDINGS.get()
}

pub(crate) fn after_fork() {
    SURROUNDINGS.forget();
}

/// `below` is the layer's below. Only the first instance counts.
///
/// # Safety
/// `info` is NULL or a valid `VkInstanceCreateInfo`, whose link was advanced.
pub(crate) unsafe fn note_surroundings(info: *const c_void, below: GetProcAddr) {
    SURROUNDINGS.get_or_make(|| {
        // SAFETY: NULL or a valid create info.
        let layers = unsafe { enabled_layers(info.cast()) }.ok()?;
        // SAFETY: NULL or a valid create info whose link was advanced.
        let behind = unsafe { links_behind(info, LOADER_INSTANCE) };
        let file_of = |function: GetProcAddr| {
            let mut finder = ModuleFinder::new();
            let (path, _) = finder.find(function as *const () as usize)?;
            TryString::try_from_str_in(path, own()).ok()
        };
        let mut surroundings = Surroundings { loader: None, layers, below: TryVec::new_in(own()), library: own_file() };
        for file in iter::once(below).chain(behind).filter_map(file_of) {
            if is_loader(&file) {
                surroundings.loader = Some(file);
            } else {
                surroundings.below.try_push(file).ok()?;
            }
        }
        Some(surroundings)
    });
}

/// # Safety
/// As [`note_surroundings`].
unsafe fn enabled_layers(info: *const InstanceCreateInfo) -> Result<TryVec<TryString<Own>, Own>, HostError> {
    let mut layers: TryVec<TryString<Own>, Own> = TryVec::new_in(own());
    let mut push = |name: &str| -> Result<(), HostError> {
        let is_known = layers.iter().any(|known| known.as_str() == name);
        if name.is_empty() || is_known || LAYER.to_str() == Ok(name) {
            return Ok(());
        }
        let name = TryString::try_from_str_in(name, own())?;
        layers.try_push(name).map_err(|refused| refused.error)
    };
    for name in os::variable(c"VK_INSTANCE_LAYERS")?.iter().flat_map(|names| names.as_str().split(PATH_LIST_SEPARATOR))
    {
        push(name)?;
    }
    // SAFETY: NULL or a valid create info.
    let Some(info) = (unsafe { info.as_ref() }) else {
        return Ok(layers);
    };
    // SAFETY: a valid create info has `layer_count` names.
    for name in unsafe { slice_of(info.layer_names, info.layer_count) } {
        // SAFETY: each ends with 0.
        if let Ok(name) = unsafe { CStr::from_ptr(*name) }.to_str() {
            push(name)?;
        }
    }
    Ok(layers)
}

fn own_file() -> Option<TryString<Own>> {
    let function: GetProcAddr = get_instance_proc_addr;
    os::path_of(function as *const c_void)
}

pub(crate) fn is_loader(module: &str) -> bool {
    os::is_loader(file_name(module))
}

#[cfg(test)]
mod tests {
    use super::DeviceDescription;
    use crate::chain::DeviceProperties;

    fn description(name: &[u8], vendor: u32, driver_version: u32) -> DeviceDescription {
        let mut device_name = [0; 256];
        device_name[..name.len()].copy_from_slice(name);
        let mut properties = DeviceProperties::default();
        properties.api_version = 1 << 22 | 3 << 12 | 230;
        (properties.driver_version, properties.vendor) = (driver_version, vendor);
        properties.device_name = device_name;
        DeviceDescription::new(properties)
    }

    #[test]
    fn ly33_a_device_is_described_by_its_name_and_versions() {
        for (name, vendor, version, expected) in [
            (&b"llvmpipe"[..], 0x10005, 1, "llvmpipe, driver 0.0.1 of vendor 0x10005, Vulkan 1.3.230"),
            (
                b"GeForce\xff",
                0x10de,
                580 << 22 | 159 << 14 | 4 << 6,
                "GeForce, driver 580.159.4 of vendor 0x10de, Vulkan 1.3.230",
            ),
            (&[b'x'; 256], 1, 0, ", driver 0.0.0 of vendor 0x1, Vulkan 1.3.230"),
        ] {
            assert_eq!(description(name, vendor, version).to_string(), expected);
        }
        assert_eq!(description(b"one\0garbage", 1, 1).name(), "one");
    }
}
