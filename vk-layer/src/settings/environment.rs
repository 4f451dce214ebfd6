use std::ffi::{CStr, c_char};
use std::io::Read as _;
use std::path::Path;

use alloc_core::{HostError, TryString};
use vk_report::files;

use super::complain;
use super::entries::{Entries, push_file, push_variable};
use crate::record::{Own, own, read_to_end};

const FILE: &str = "vk_layer_settings.txt";
const DATA_FOLDER: &str = "vulkan/settings.d";
const MAX_FILE: u64 = 1 << 20;

pub(super) fn push_environment(entries: &mut Entries) -> Result<(), HostError> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's list; Vulkan's loader reads it in the same command.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: the list ends with NULL, which was not reached yet.
        let variable = unsafe { *next };
        if variable.is_null() {
            break;
        }
        // SAFETY: each entry is a string that ends with 0.
        let variable = unsafe { CStr::from_ptr(variable) };
        if let Ok(variable) = variable.to_str() {
            push_variable(entries, variable)?;
        }
        // SAFETY: this entry was not the last, NULL.
        next = unsafe { next.add(1) };
    }
    Ok(())
}

/// The first file that exists is read: the one that `VK_LAYER_SETTINGS_PATH` names, or one in the folder that it names; one in the user's
/// or the system's folders for data; one in the working folder.
pub(super) fn push_settings_file(entries: &mut Entries) -> Result<(), HostError> {
    if let Some(named) = variable(c"VK_LAYER_SETTINGS_PATH")? {
        for path in [
            TryString::try_from_str_in(&named, own())?,
            joined(&[&named, FILE])?,
        ] {
            if push_from(entries, &path)? {
                return Ok(());
            }
        }
    }
    let user = match variable(c"XDG_DATA_HOME")? {
        Some(folder) => Some(folder),
        None => match variable(c"HOME")? {
            Some(home) => Some(joined(&[&home, ".local/share"])?),
            None => None,
        },
    };
    let system = variable(c"XDG_DATA_DIRS")?;
    let system = system
        .as_ref()
        .map_or("/usr/local/share:/usr/share", TryString::as_str);
    let folders = user.iter().map(TryString::as_str).chain(system.split(':'));
    for folder in folders.filter(|folder| folder.starts_with('/')) {
        if push_from(entries, &joined(&[folder, DATA_FOLDER, FILE])?)? {
            return Ok(());
        }
    }
    push_from(entries, FILE).map(drop)
}

fn joined(parts: &[&str]) -> Result<TryString<Own>, HostError> {
    let mut path = TryString::new_in(own());
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            path.try_push_str("/")?;
        }
        path.try_push_str(part)?;
    }
    Ok(path)
}

/// A file that another user could have written is not read: the reason is reported, and no other place is searched.
fn push_from(entries: &mut Entries, path: &str) -> Result<bool, HostError> {
    let file = match files::open_settings(Path::new(path)) {
        Ok(Some(file)) => file,
        Err(error) if error.get_ref().is_some() => {
            complain(format_args!(
                "the settings in {path} are left out: {error}: have the file in a folder that is yours alone, and name it with VK_LAYER_SETTINGS_PATH"
            ));
            return Ok(true);
        }
        _ => return Ok(false),
    };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let before = entries.len();
    push_file(entries, &read_to_end(file.take(MAX_FILE))?)?;
    if entries.len() > before {
        complain(format_args!("settings are read from {}", path.display()));
    }
    Ok(true)
}

pub(crate) fn variable(name: &CStr) -> Result<Option<TryString<Own>>, HostError> {
    // SAFETY: the name ends with 0; Vulkan's loader reads the environment in the same command.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return Ok(None);
    }
    // SAFETY: a string, valid until the environment changes.
    let value = unsafe { CStr::from_ptr(value) };
    let value = value.to_str().ok().filter(|value| !value.is_empty());
    value
        .map(|value| TryString::try_from_str_in(value, own()))
        .transpose()
}
