#![forbid(unsafe_code)]

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::table::aligned;

/// One physical device of one driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverInfo {
    /// Its number in the listing, from 0, over all drivers.
    pub index: usize,
    /// Its number within its driver, from 0.
    pub device_index: usize,
    /// The driver's manifest; `None` if the loader found the driver without one.
    #[serde(with = "os_path")]
    pub manifest: Option<PathBuf>,
    /// The manifest's file name without `.json`, such as `lvp_icd.x86_64`; empty without a manifest.
    pub stem: String,
    /// `VkPhysicalDeviceDriverProperties::driverID` without the prefix, such as `MESA_LLVMPIPE`; empty if the driver
    /// has none.
    pub driver_id: String,
    /// `driverName`, such as `llvmpipe`; empty if the driver has none.
    pub driver_name: String,
    /// `driverInfo`, such as `Mesa 22.3.6 (LLVM 15.0.6)`; if that is empty, the number of the driver's version.
    pub driver_info: String,
    /// `VkPhysicalDeviceProperties::deviceName`.
    pub device_name: String,
    /// The device's version of Vulkan: major, minor, patch.
    pub api_version: (u32, u32, u32),
}

impl DriverInfo {
    /// The driver's name, or, if it has none, its manifest's or its device's.
    #[must_use]
    pub fn title(&self) -> &str {
        [&self.driver_name, &self.stem].into_iter().find(|name| !name.is_empty()).unwrap_or(&self.device_name)
    }

    /// The same with the driver's version.
    #[must_use]
    pub fn title_with_version(&self) -> String {
        format!("{} {}", self.title(), self.driver_info)
    }
}

/// A path for another process of this program: it may be no text.
mod os_path {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(Path::as_os_str).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let path = Option::<OsString>::deserialize(from)?;
        Ok(path.map(PathBuf::from))
    }
}

/// Prints drivers as a table, one line each under a head, without a newline at the end.
#[derive(Clone, Copy, Debug)]
pub struct DriverTable<'a>(pub &'a [DriverInfo]);

impl fmt::Display for DriverTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["index", "driver", "id", "file", "version", "device"].map(str::to_owned);
        let row = |driver: &DriverInfo| {
            let DriverInfo { index, driver_name, driver_id, stem, driver_info, device_name, .. } = driver.clone();
            let index = index.to_string();
            vec![index, driver_name, driver_id, stem, driver_info, device_name]
        };
        let mut rows = vec![head.into()];
        rows.extend(self.0.iter().map(row));
        f.write_str(&aligned(&rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let lavapipe = DriverInfo {
            driver_name: "llvmpipe".into(),
            driver_id: "MESA_LLVMPIPE".into(),
            stem: "lvp_icd".into(),
            driver_info: "Mesa 1".into(),
            device_name: "a processor".into(),
            ..DriverInfo::default()
        };
        let other = DriverInfo { index: 10, device_name: "x".into(), ..DriverInfo::default() };
        assert_eq!(
            DriverTable(&[lavapipe, other]).to_string(),
            "index  driver    id             file     version  device\n\
             0      llvmpipe  MESA_LLVMPIPE  lvp_icd  Mesa 1   a processor\n\
             10                                                x"
        );
    }
}
