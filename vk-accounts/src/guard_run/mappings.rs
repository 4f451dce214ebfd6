//! How many mappings the process has: what guards of the old kind run out of.

#![forbid(unsafe_code)]

/// Lines of the process's own map; `None` where the system has no such list.
pub(super) fn count() -> Option<u64> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    Some(maps.iter().filter(|byte| **byte == b'\n').count() as u64)
}
