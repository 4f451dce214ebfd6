//! Files that are whole or not there.

#![forbid(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;

use alloc_core::TryString;

use crate::file_limit;
use crate::record::own;

/// Writes `text` beside the file, and then renames it to the file's name. Follows no link and makes no folder.
pub(super) fn replace(name: &str, text: &str) -> io::Result<()> {
    file_limit::admit(text.len())?;
    let mut part = TryString::new_in(own());
    part.try_write_fmt(format_args!("{name}.{}.part", std::process::id()))
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    // What an earlier process with this number left behind.
    let _ = fs::remove_file(part.as_str());
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(part.as_str())?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| fs::rename(part.as_str(), name));
    if written.is_err() {
        let _ = fs::remove_file(part.as_str());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_of_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("report");
        let name = name.to_str().expect("a name");
        for text in ["first, and longer", "second"] {
            replace(name, text).expect("a folder that can be written to");
            assert_eq!(std::fs::read_to_string(name).expect("a file"), text);
        }
        // A folder stands in the way of the rename.
        let taken = folder.path().join("folder");
        std::fs::create_dir_all(taken.join("file")).expect("a folder");
        replace(taken.to_str().expect("a name"), "text").expect_err("no file can be there");
        let missing = folder.path().join("missing").join("report");
        replace(missing.to_str().expect("a name"), "text").expect_err("no folder is made");
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["folder", "report"]);
    }
}
