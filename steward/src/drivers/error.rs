#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::PathBuf;

use super::info::{DriverInfo, DriverTable};
use super::names;

/// Why there is no driver to work with: one sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The loader's library cannot be opened.
    #[error(
        "there is no Vulkan loader ({reason}): install libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora, Arch) or the Vulkan SDK"
    )]
    NoLoader {
        /// The error of the operating system.
        reason: String,
    },
    /// The loader shows no device.
    #[error(
        "the Vulkan loader shows no device{}: {}install a driver, such as mesa-vulkan-drivers, which includes lavapipe",
        because(.refused),
        instead(.narrowed)
    )]
    NoDriver {
        /// The tried drivers, each with its result.
        refused: Vec<LoaderRefusal>,
        /// The environment variable that replaced the usual search, and its value.
        narrowed: Option<(String, String)>,
    },
    /// The program's own driver cannot be used.
    #[error("the program's own driver answered {result}: free some memory")]
    NoReference {
        /// Its result.
        result: String,
    },
    /// The file at the given path is no driver's manifest.
    #[error(
        "{path} is no driver's manifest ({reason}): name the JSON file that has the driver's library_path, such as lvp_icd.x86_64.json, \
         or a driver that `steward drivers` lists"
    )]
    NoManifest {
        /// The path.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The driver of the manifest at the given path shows no device.
    #[error(
        "the driver of {path} shows no device ({reason}): VK_LOADER_DEBUG=error,driver makes the loader say why it left a driver out"
    )]
    DevicelessAt {
        /// The path.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The driver of that name is installed, and shows no device.
    #[error(
        "{name:?} is installed ({}), and shows no device: {}; plug its device in, or choose one of these by index, driver, id, file or alias, \
         or name the path of a manifest:\n{}",
        .refused.title(), .refused.reason, DriverTable(.known)
    )]
    Deviceless {
        /// The name.
        name: String,
        /// The driver.
        refused: LoaderRefusal,
        /// The drivers that show devices.
        known: Vec<DriverInfo>,
    },
    /// No driver has the name.
    #[error(
        "no driver is called {name:?}{}; choose one of these by index, driver, id, file or alias (lavapipe, nvidia, radv, ..), or name \
         the path of a manifest:\n{}",
        names::like(.known, .name).map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default(),
        DriverTable(.known)
    )]
    UnknownName {
        /// The name.
        name: String,
        /// The existing drivers.
        known: Vec<DriverInfo>,
    },
}

/// A driver that was tried and showed no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderRefusal {
    /// Its manifest; `None` if the loader chose drivers itself.
    pub manifest: Option<PathBuf>,
    /// Its result.
    pub reason: String,
}

impl LoaderRefusal {
    pub(super) fn title(&self) -> String {
        let stem = self.manifest.as_deref().and_then(|path| path.file_stem());
        stem.unwrap_or_else(|| "the loader".as_ref()).to_string_lossy().into_owned()
    }
}

fn instead(narrowed: &Option<(String, String)>) -> String {
    let text = |(name, value): &(String, String)| {
        format!("{name} names {value}: unset it, or name a manifest that is there; or ")
    };
    narrowed.as_ref().map(text).unwrap_or_default()
}

fn because(refused: &[LoaderRefusal]) -> String {
    let mut text = String::new();
    for (number, one) in refused.iter().enumerate() {
        let before = if number == 0 { " (" } else { ", " };
        let _ = write!(text, "{before}{}: {}", one.title(), one.reason);
    }
    if !text.is_empty() {
        text.push(')');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_what_to_do() {
        let refused = vec![
            LoaderRefusal { manifest: Some("/etc/vulkan/icd.d/a_icd.json".into()), reason: "no device".into() },
            LoaderRefusal { manifest: None, reason: "ERROR_INCOMPATIBLE_DRIVER".into() },
        ];
        let text = DriverError::NoDriver { refused, narrowed: None }.to_string();
        assert!(
            text.contains("no device (a_icd: no device, the loader: ERROR_INCOMPATIBLE_DRIVER): install"),
            "{text}"
        );
        let none = |narrowed| DriverError::NoDriver { refused: vec![], narrowed }.to_string();
        assert!(none(None).contains("shows no device: install"));
        let text = none(Some(("VK_DRIVER_FILES".into(), "/x.json".into())));
        assert!(text.contains(
            "shows no device: VK_DRIVER_FILES names /x.json: unset it, or name a manifest that is there; or install"
        ));
        assert!(DriverError::NoLoader { reason: "gone".into() }.to_string().contains("(gone): install libvulkan1"));
        let known = vec![DriverInfo { driver_name: "llvmpipe".into(), ..DriverInfo::default() }];
        let text = DriverError::UnknownName { name: "x".into(), known }.to_string();
        assert!(text.contains("\"x\";") && text.contains("\nindex") && text.contains("llvmpipe"), "{text}");
    }
}
