#![forbid(unsafe_code)]

use std::io::Read as _;
use std::path::Path;

use alloc_core::{HostError, TryString};
use vk_report::files;

use super::complain;
use super::entries::{Entries, push_file, push_variable};
use super::table::ENVIRONMENT_PREFIX;
use crate::os;
use crate::record::{Own, own, read_to_end};

pub(crate) const SETTINGS_FILE: &str = "vk_layer_settings.txt";
const MAX_FILE: u64 = 1 << 20;

pub(super) fn push_environment(entries: &mut Entries) -> Result<(), HostError> {
    os::each_variable(|variable| {
        let name = variable.split_once('=').map_or("", |(name, _)| name);
        match name.starts_with(ENVIRONMENT_PREFIX) && is_trusted(name)? {
            true => push_variable(entries, variable),
            false => Ok(()),
        }
    })
}

fn is_trusted(variable: &str) -> Result<bool, HostError> {
    let is_trusted = os::is_trusted(variable)?;
    if !is_trusted {
        complain(format_args!(
            "{variable} is left out: it is from the user's part of the registry, and this process is elevated"
        ));
    }
    Ok(is_trusted)
}

/// The first file that exists is read: the one that `VK_LAYER_SETTINGS_PATH` names, or one in the folder that it names;
/// one where the system has such files; one in the working folder.
pub(super) fn push_settings_file(entries: &mut Entries) -> Result<(), HostError> {
    if let Some(named) = os::variable(c"VK_LAYER_SETTINGS_PATH")?
        && is_trusted("VK_LAYER_SETTINGS_PATH")?
    {
        for path in [TryString::try_from_str_in(&named, own())?, joined(&[&named, SETTINGS_FILE])?] {
            if push_from(entries, &path)? {
                return Ok(());
            }
        }
    }
    if os::find_settings(|path| push_from(entries, path))? {
        return Ok(());
    }
    push_from(entries, SETTINGS_FILE).map(drop)
}

pub(crate) fn joined(parts: &[&str]) -> Result<TryString<Own>, HostError> {
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
