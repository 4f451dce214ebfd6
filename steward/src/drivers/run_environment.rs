use std::env;
use std::ffi::OsStr;
use std::path::Path;

use vk_callbacks::check::Opened;
use vk_report::report::{ActiveLayer, DiskCache, LoaderFile, RunEnvironment};

use super::info::DriverInfo;
use super::instance::version_text;
use super::manifest::{self, AnnouncedLayer};
use super::open::OpenDriver;
use crate::os::{LoadedFiles, VulkanPart};

/// Reads which libraries this process has loaded. Call it while an instance of the driver lives.
#[must_use]
pub fn run_environment(driver: &OpenDriver) -> RunEnvironment {
    let files = LoadedFiles::read();
    let function = driver.entry().static_fn().get_instance_proc_addr as *const _;
    let loader = match driver.opened() {
        Opened::ThroughLoader => files.file_of(function),
        Opened::Directly => None,
    };
    let announced = manifest::layers();
    let (mut layers, mut driver_files) = (Vec::new(), Vec::new());
    for (part, file) in files.vulkan_parts(loader) {
        match part {
            VulkanPart::Driver => driver_files.push(file),
            VulkanPart::Layer => layers.push(ActiveLayer { name: layer_name(&announced, &file), file }),
        }
    }
    RunEnvironment {
        loader: loader.map(|file| LoaderFile { file: file.to_owned(), version: version(driver.entry()) }),
        layers,
        driver_files,
        disk_cache: disk_cache(driver.info(), &|name| env::var(name).ok()),
    }
}

fn layer_name(announced: &[AnnouncedLayer], file: &str) -> String {
    let own = Path::new(file).file_name().unwrap_or(OsStr::new(file));
    let is_own = |layer: &&AnnouncedLayer| layer.library.file_name() == Some(own);
    let named = announced.iter().find(is_own);
    named.map_or_else(|| own.to_string_lossy().into_owned(), |layer| layer.name.clone())
}

fn version(entry: &ash::Entry) -> String {
    // SAFETY: a command without an instance, which changes nothing.
    let version = unsafe { entry.try_enumerate_instance_version() };
    version_text(version.ok().flatten().unwrap_or(ash::vk::API_VERSION_1_0))
}

fn disk_cache(driver: &DriverInfo, variable: &dyn Fn(&str) -> Option<String>) -> Option<DiskCache> {
    let is_true = |value: &str| ["1", "true", "yes", "y", "t"].contains(&value.to_lowercase().as_str());
    let is_off = |value: &str| value == "0";
    let (name, switches_off): (_, &dyn Fn(&str) -> bool) = match driver.driver_id.as_str() {
        "NVIDIA_PROPRIETARY" => ("__GL_SHADER_DISK_CACHE", &is_off),
        id if id.starts_with("MESA_") => ("MESA_SHADER_CACHE_DISABLE", &is_true),
        _ => return None,
    };
    Some(DiskCache {
        variable: name.to_owned(),
        on: !variable(name).is_some_and(|value| switches_off(&value)),
        on_in_coverage: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_those_of_the_driver_as_the_environment_has_them() {
        let cache = |id: &str, value: Option<&str>| {
            let driver = DriverInfo { driver_id: id.to_owned(), ..DriverInfo::default() };
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
        let announced =
            [AnnouncedLayer { manifest: "x.json".into(), name: "VK_LAYER_X".to_owned(), library: "libx.so".into() }];
        assert_eq!(layer_name(&announced, "/usr/lib/libx.so"), "VK_LAYER_X");
        assert_eq!(layer_name(&announced, "/usr/lib/liby.so"), "liby.so");
    }
}
