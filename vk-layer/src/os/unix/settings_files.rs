use alloc_core::{HostError, TryString};

use super::variable;
use crate::settings::environment::{SETTINGS_FILE, joined};

const DATA_FOLDER: &str = "vulkan/settings.d";

/// Tries the user's and the system's folders for data until `read` has taken a file.
pub(crate) fn find_settings(mut read: impl FnMut(&str) -> Result<bool, HostError>) -> Result<bool, HostError> {
    let user = match variable(c"XDG_DATA_HOME")? {
        Some(folder) => Some(folder),
        None => match variable(c"HOME")? {
            Some(home) => Some(joined(&[&home, ".local/share"])?),
            None => None,
        },
    };
    let system = variable(c"XDG_DATA_DIRS")?;
    let system = system.as_ref().map_or("/usr/local/share:/usr/share", TryString::as_str);
    let folders = user.iter().map(TryString::as_str).chain(system.split(':'));
    for folder in folders.filter(|folder| folder.starts_with('/')) {
        if read(&joined(&[folder, DATA_FOLDER, SETTINGS_FILE])?)? {
            return Ok(true);
        }
    }
    Ok(false)
}
