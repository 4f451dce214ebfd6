//! The number of mappings of the process, which guards with two mappings a block exhaust.

#![forbid(unsafe_code)]

/// Lines of the process's own map; `None` where the system has no such list.
pub(super) fn count() -> Option<u64> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    Some(maps.iter().filter(|byte| **byte == b'\n').count() as u64)
}
