use std::ffi::OsString;
use std::path::Path;

/// The setting of a child by which it can request reports of itself.
pub(crate) fn report_requests(_: &Path) -> (&'static str, OsString) {
    ("VK_STEWARD_MEMORY_SIGNAL", "USR2".into())
}

pub(crate) fn request_report() {
    // SAFETY: the layer handles the signal: it stores to an atomic.
    assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
}

pub(crate) fn resident_kilobytes() -> u64 {
    let numbers = std::fs::read_to_string("/proc/self/statm").expect("the kernel says it");
    let pages = numbers.split(' ').nth(1).expect("the second number");
    // 4 KiB each, or more: then a bound is only stricter.
    pages.parse::<u64>().expect("a number") * 4
}
