//! The registry's values, and the key of Khronos.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use windows_registry::{CURRENT_USER, Key, LOCAL_MACHINE, Result, Type, Value};

/// Display adapters, and software components of one: the driver's installer names its manifest there.
const ADAPTERS: [&str; 2] = [
    r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}",
    r"SYSTEM\CurrentControlSet\Control\Class\{5c4c3332-344d-483c-8739-259e934c9cc8}",
];
const OF_ADAPTER: &str = "VulkanDriverName";
/// `ERROR_FILE_NOT_FOUND`.
const NOT_FOUND: i32 = 0x8007_0002_u32.cast_signed();

fn khronos(key: &str) -> String {
    format!(r"SOFTWARE\Khronos\Vulkan\{key}")
}

/// The files that a key of Khronos lists, for the machine or for the user: the names of values that are 0.
pub(super) fn listed(hive: &Key, key: &str) -> Vec<PathBuf> {
    let is_on = |value: &Value| value.ty() == Type::U32 && **value == [0; 4];
    let files = |key: &Key| -> Result<_> {
        Ok(key.values()?.filter(|(_, value)| is_on(value)).map(|(name, _)| name.into()).collect())
    };
    hive.open(khronos(key)).and_then(|key| files(&key)).unwrap_or_default()
}

/// Manifests that came with the drivers of display adapters.
pub(super) fn of_adapters() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for class in ADAPTERS.into_iter().filter_map(|class| LOCAL_MACHINE.open(class).ok()) {
        let adapters = class.keys().into_iter().flatten().filter_map(|name| class.open(name).ok());
        let values = adapters.filter_map(|adapter| adapter.get_value(OF_ADAPTER).ok());
        let names = values.filter_map(|value| Vec::<String>::try_from(value).ok()).flatten();
        for file in names.filter(|name| !name.is_empty()).map(PathBuf::from) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

/// Adds a file to what the key of the user lists.
pub(super) fn enlist(key: &str, file: &Path) -> io::Result<()> {
    let refusal = "the name is no Unicode, which Vulkan's loader needs: choose another folder";
    let name = file.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, refusal))?;
    Ok(CURRENT_USER.create(khronos(key))?.set_u32(name, 0)?)
}

/// Takes a file out of what the key of the user lists. Returns whether it was there.
pub(super) fn strike(key: &str, file: &Path) -> io::Result<bool> {
    let key = CURRENT_USER.options().write().open(khronos(key));
    let Some(name) = file.to_str() else {
        return Ok(false); // it was refused
    };
    match key.and_then(|key| key.remove_value(name)) {
        Err(error) if error.code().0 == NOT_FOUND => Ok(false),
        done => Ok(done.map(|()| true)?),
    }
}
