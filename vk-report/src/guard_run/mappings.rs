#![forbid(unsafe_code)]

pub(super) fn count() -> Option<u64> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    Some(maps.iter().filter(|byte| **byte == b'\n').count() as u64)
}
