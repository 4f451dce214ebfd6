/// The unwinder finds a module's tables by glibc's `_dl_find_object`, which is there from 2.35 on, and which libgcc
/// calls from its version 12 on, of the same year. Before, both go through `dl_iterate_phdr`, whose lock the stopped
/// thread may hold. Async-signal-safe.
#[cfg(target_env = "gnu")]
pub(crate) fn unwinds_in_handlers() -> bool {
    // SAFETY: asks for a text.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: the library's own, which ends in a zero and stays.
    let version = unsafe { core::ffi::CStr::from_ptr(version) };
    version.to_str().is_ok_and(|version| at_least(version, (2, 35)))
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn unwinds_in_handlers() -> bool {
    false
}

#[cfg(any(test, target_env = "gnu"))]
fn at_least(version: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = version.split('.').map(str::parse);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= wanted)
}

#[cfg(test)]
mod tests {
    use super::at_least;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, told) in [
            ("2.35", true),
            ("2.36.9000", true),
            ("3.0", true),
            ("2.100", true),
            ("2.34", false),
            ("2.9", false),
            ("1.99", false),
        ] {
            assert_eq!(at_least(version, (2, 35)), told, "{version}");
        }
        for version in ["", "2", "2.", "two.35", "2.x"] {
            assert!(!at_least(version, (2, 35)), "{version}");
        }
    }
}
