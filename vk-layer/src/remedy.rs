//! What to do about a file that cannot be written.

#![forbid(unsafe_code)]

use std::io;

pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => "raise the limit of file sizes (ulimit -f)",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or name a file on another disk",
        io::ErrorKind::ResourceBusy => {
            "another process that runs writes it: name a file with %p, the number of the process"
        }
        io::ErrorKind::AlreadyExists => {
            "it is no state file of this layer and stays as it is: remove it, or name another file"
        }
        io::ErrorKind::InvalidInput => "name a plain file, or one that does not exist",
        io::ErrorKind::NotConnected => "or name a file",
        io::ErrorKind::PermissionDenied if error.get_ref().is_some() => "name a file in a folder of your own",
        _ => "name a file in a folder that can be written to",
    }
}
