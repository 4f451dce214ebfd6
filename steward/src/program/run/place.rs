//! Where a run's folder is, and its manifest: both come through the loader's lists and the layer's settings.

#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::os::files::{FALLBACK_FOLDER, LIST_SEPARATOR, link, private_folder};
use crate::os::layer_place::LIBRARY;
use crate::program::layer::{MAX_PATH, manifest};

/// Where the folder is if `TMPDIR` does not come through.
pub(in crate::program) const FALLBACK: &str = FALLBACK_FOLDER;

/// Other users cannot read the folder.
pub(in crate::program) fn new_folder(prefix: &str, parent: &Path) -> io::Result<TempDir> {
    let folder = private_folder(prefix, parent)?;
    if comes_through(folder.path()) {
        return Ok(folder);
    }
    private_folder(prefix, Path::new(FALLBACK))
}

pub(super) fn write_manifest(folder: &Path, layer: &Path) -> io::Result<()> {
    let manifest = match manifest(layer) {
        Ok(manifest) => manifest,
        // A path that a manifest cannot name: the loader takes a link beside the manifest, or the library itself if it
        // is there.
        Err(_) => {
            let beside = folder.join(LIBRARY);
            if layer != beside {
                link(layer, &beside)?;
            }
            manifest(&Path::new(".").join(LIBRARY)).map_err(io::Error::other)?
        }
    };
    fs::write(folder.join("steward.json"), manifest)
}

/// [`LIST_SEPARATOR`] is in no name of the loader's lists. The layer's settings are text, in which `%` begins a
/// placeholder.
fn comes_through(path: &Path) -> bool {
    path.to_str().is_some_and(|path| {
        path.len() <= MAX_PATH
            && !path.contains(|one: char| one == '%' || one.is_control())
            && !path.contains(LIST_SEPARATOR)
    })
}

#[cfg(all(test, unix))] // colons, and bytes that are no text
mod tests {
    use super::comes_through;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    #[test]
    fn ly43_paths_that_a_list_or_a_setting_would_change_do_not_come_through() {
        for path in ["/tmp/x", "/tmp/with space", "/tmp/\u{e9}\"\\;,#'", "relative"] {
            assert!(comes_through(Path::new(path)), "{path}");
        }
        for path in ["/tmp/co:lon", "/tmp/100%", "/tmp/%p", "/tmp/a\nb", &"/long".repeat(300)] {
            assert!(!comes_through(Path::new(path)), "{path}");
        }
        assert!(!comes_through(Path::new(OsStr::from_bytes(b"/tmp/\xff"))));
    }
}
