//! What stood between the program and the driver's own code in a run: its memory may be counted with the driver's.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::one_line;

/// The loader, the layers and the caches of a run. A field is empty where the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnvironment {
    /// The Vulkan loader; none where the driver's library was opened without one.
    pub loader: Option<LoaderFile>,
    /// The layers that were loaded while the instance lived.
    pub layers: Vec<ActiveLayer>,
    /// The files of the driver's libraries.
    pub driver_files: Vec<String>,
    /// What the driver keeps on disk between runs; none of drivers that are not known to keep anything.
    pub disk_cache: Option<DiskCache>,
}

/// The Vulkan loader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderFile {
    /// Its file.
    pub file: String,
    /// The version of Vulkan that it implements, which is its own version.
    pub version: String,
}

/// A layer between the program and the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveLayer {
    /// Its name, such as `VK_LAYER_KHRONOS_validation`; its file's name where no manifest names it.
    pub name: String,
    /// Its file.
    pub file: String,
}

/// A driver's cache of compiled shaders on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCache {
    /// The environment variable that switches it off.
    pub variable: String,
    /// Whether it was on in this run.
    pub on: bool,
    /// Whether it was on where callback coverage was measured.
    pub on_in_coverage: bool,
}

impl RunEnvironment {
    /// A line for each, for a terminal and for the page.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let driver = (!self.driver_files.is_empty())
            .then(|| format!("driver's library: {}", one_line(&self.driver_files.join(", "))));
        let loader = match &self.loader {
            Some(LoaderFile { file, version }) => {
                format!("loader: {}, Vulkan {}", one_line(file), one_line(version))
            }
            None => "loader: none, the driver's library was opened directly".to_owned(),
        };
        let layers: Vec<_> = self.layers.iter().map(|one| one_line(&one.name)).collect();
        let layers = match layers.is_empty() {
            true => "layers: none".to_owned(),
            false => format!("layers: {}", layers.join(", ")),
        };
        let cache = self.disk_cache.as_ref().map(DiskCache::line);
        [driver, Some(loader), Some(layers), cache].into_iter().flatten()
    }

    /// What the reader of the numbers has to know: layers allocate, and are counted as the driver.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let names: Vec<_> = self.layers.iter().map(|one| one.name.as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "layers were active ({}): what they allocate is counted as the driver's; unset VK_INSTANCE_LAYERS for the driver alone",
                names.join(", ")
            )
        })
    }
}

impl DiskCache {
    fn line(&self) -> String {
        let state = |on| if on { "on" } else { "off" };
        format!(
            "shader cache on disk: {} in this run, {} where callback coverage is measured ({})",
            state(self.on),
            state(self.on_in_coverage),
            one_line(&self.variable)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_a_line_and_layers_are_warned_of() {
        let mut environment = RunEnvironment {
            loader: Some(LoaderFile { file: "/lib/libvulkan.so.1".to_owned(), version: "1.3.239".to_owned() }),
            disk_cache: Some(DiskCache {
                variable: "MESA_SHADER_CACHE_DISABLE".to_owned(),
                on: true,
                on_in_coverage: false,
            }),
            ..RunEnvironment::default()
        };
        let lines: Vec<_> = environment.lines().collect();
        let expected = [
            "loader: /lib/libvulkan.so.1, Vulkan 1.3.239",
            "layers: none",
            "shader cache on disk: on in this run, off where callback coverage is measured (MESA_SHADER_CACHE_DISABLE)",
        ];
        assert_eq!(lines, expected);
        assert_eq!(environment.warning(), None);
        environment.layers = vec![ActiveLayer { name: "VK_LAYER_\u{1b}X".to_owned(), file: "/lib/x.so".to_owned() }];
        let lines: Vec<_> = environment.lines().collect();
        assert_eq!(lines[1], "layers: VK_LAYER_ X", "no control characters");
        let warning = environment.warning().expect("a layer was active");
        assert!(warning.contains("counted as the driver's"), "{warning}");
        let direct: Vec<_> = RunEnvironment::default().lines().collect();
        let expected = ["loader: none, the driver's library was opened directly", "layers: none"];
        assert_eq!(direct, expected);
    }
}
