//! What stands between the program and a driver while its instance lives.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use vk_accounts::report::{ActiveLayer, DiskCache, LoaderFile, RunEnvironment};
use vk_callbacks::check::Opened;

use super::info::DriverInfo;
use super::loaded_files::{LoadedFiles, VulkanPart};
use super::manifest;
use super::select::Selected;

/// Looks at the libraries of this process. To be called while an instance of the driver lives.
#[must_use]
pub fn run_environment(driver: &Selected, opened: Opened) -> RunEnvironment {
    let files = LoadedFiles::look();
    let function = driver.entry().static_fn().get_instance_proc_addr as *const _;
    let loader = match opened {
        Opened::ThroughLoader => files.file_of(function),
        Opened::Directly => None,
    };
    let announced = manifest::layers();
    let (mut layers, mut driver_files) = (Vec::new(), Vec::new());
    for (part, file) in files.vulkan_parts(loader) {
        match part {
            VulkanPart::Driver => driver_files.push(file),
            VulkanPart::Layer => layers.push(ActiveLayer {
                name: layer_name(&announced, &file),
                file,
            }),
        }
    }
    RunEnvironment {
        loader: loader.map(|file| LoaderFile {
            file: file.to_owned(),
            version: version(driver.entry()),
        }),
        layers,
        driver_files,
        disk_cache: disk_cache(driver.info(), &|name| env::var(name).ok()),
    }
}

/// What the manifests call the layer in this file; its file's name where none has it.
fn layer_name(announced: &[(String, std::path::PathBuf)], file: &str) -> String {
    let own = Path::new(file).file_name();
    let named = announced.iter().find(|(_, path)| path.file_name() == own);
    named.map_or_else(
        || {
            own.unwrap_or(OsStr::new(file))
                .to_string_lossy()
                .into_owned()
        },
        |(name, _)| name.clone(),
    )
}

/// The loader answers with the version of Vulkan that it was built for.
fn version(entry: &ash::Entry) -> String {
    // SAFETY: a command without an instance, which changes nothing.
    let version = unsafe { entry.try_enumerate_instance_version() };
    let version = version.ok().flatten().unwrap_or(ash::vk::API_VERSION_1_0);
    format!(
        "{}.{}.{}",
        ash::vk::api_version_major(version),
        ash::vk::api_version_minor(version),
        ash::vk::api_version_patch(version)
    )
}

/// The drivers that are known to keep compiled shaders on disk.
fn disk_cache(driver: &DriverInfo, variable: &dyn Fn(&str) -> Option<String>) -> Option<DiskCache> {
    let is_true =
        |value: &str| ["1", "true", "yes", "y", "t"].contains(&value.to_lowercase().as_str());
    let (name, off) = if driver.driver_id.starts_with("MESA_") {
        let name = "MESA_SHADER_CACHE_DISABLE";
        (name, variable(name).is_some_and(|value| is_true(&value)))
    } else if driver.driver_id == "NVIDIA_PROPRIETARY" {
        let name = "__GL_SHADER_DISK_CACHE";
        (name, variable(name).is_some_and(|value| value == "0"))
    } else {
        return None;
    };
    Some(DiskCache {
        variable: name.to_owned(),
        on: !off,
        on_in_coverage: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_those_of_the_driver_as_the_environment_has_them() {
        let cache = |id: &str, value: Option<&str>| {
            let driver = DriverInfo {
                driver_id: id.to_owned(),
                ..DriverInfo::default()
            };
            disk_cache(&driver, &|_| value.map(str::to_owned)).map(|cache| cache.on)
        };
        assert_eq!(cache("MESA_LLVMPIPE", None), Some(true));
        assert_eq!(cache("MESA_RADV", Some("True")), Some(false));
        assert_eq!(cache("MESA_RADV", Some("false")), Some(true));
        assert_eq!(cache("NVIDIA_PROPRIETARY", Some("0")), Some(false));
        assert_eq!(cache("NVIDIA_PROPRIETARY", Some("1")), Some(true));
        assert_eq!(cache("GOOGLE_SWIFTSHADER", Some("1")), None);
    }

    #[test]
    fn a_layer_is_called_as_its_manifest_calls_it() {
        let announced = [("VK_LAYER_X".to_owned(), "libx.so".into())];
        assert_eq!(layer_name(&announced, "/usr/lib/libx.so"), "VK_LAYER_X");
        assert_eq!(layer_name(&announced, "/usr/lib/liby.so"), "liby.so");
    }
}
