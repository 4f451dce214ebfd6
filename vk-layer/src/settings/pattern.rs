#![forbid(unsafe_code)]

use vk_report::pattern::matches;

use crate::os::{MAX_PATH, executable};

pub(super) fn fits_executable(pattern: &str) -> bool {
    let mut buffer = [0; MAX_PATH];
    matches(pattern, executable(&mut buffer))
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
