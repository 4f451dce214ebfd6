use std::ffi::CStr;

use vk_report::pattern::matches;

pub(super) fn fits_executable(pattern: &str) -> bool {
    let mut buffer = [0; MAX_PATH];
    matches(pattern, executable(&mut buffer))
}

/// `PATH_MAX` of Linux.
pub(crate) const MAX_PATH: usize = 4096;

/// The answer has no folders, and is empty where the name is unknown.
pub(crate) fn executable(buffer: &mut [u8; MAX_PATH]) -> &[u8] {
    let link: &CStr = c"/proc/self/exe";
    let room = buffer.len();
    // SAFETY: a path that ends with 0, and a buffer of this length.
    let length = unsafe { libc::readlink(link.as_ptr(), buffer.as_mut_ptr().cast(), room) };
    let path = usize::try_from(length)
        .ok()
        .and_then(|length| buffer.get(..length));
    let name = path.and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{MAX_PATH, executable, fits_executable};

    #[test]
    fn the_executable_is_this_test() {
        let mut buffer = [0; MAX_PATH];
        let path = std::env::current_exe().expect("a path");
        let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes);
        assert_eq!(Some(executable(&mut buffer)), name);
        assert!(fits_executable("*") && !fits_executable("no such program"));
    }
}
