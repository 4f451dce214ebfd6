//! The memory of this process: the machine's, or the limit of its control group.

use core::ffi::CStr;

use super::memory::File;

/// The smallest of what the machine has and what the control group allows, in bytes. In a container its own group is the root.
pub(crate) fn total_memory() -> Option<u64> {
    let machine = number(c"/proc/meminfo", b"MemTotal:").and_then(|kib| kib.checked_mul(1024));
    let groups = [
        c"/sys/fs/cgroup/memory.max",
        c"/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let group = groups
        .into_iter()
        .filter_map(|file| number(file, b""))
        .min();
    machine.into_iter().chain(group).min()
}

/// The number at the beginning of a file, behind `key`.
pub(super) fn number(path: &CStr, key: &[u8]) -> Option<u64> {
    let mut text = [0_u8; 64];
    let read = File::open(path)?.read(&mut text);
    let text = text.get(..read)?.strip_prefix(key)?.trim_ascii_start();
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    let digits = text.get(..end.unwrap_or(text.len()))?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory_and_a_group_no_more() {
        let machine = number(c"/proc/meminfo", b"MemTotal:").expect("it says so") * 1024;
        assert!(machine > 1 << 24, "{machine}");
        assert!(total_memory().expect("at least the machine's") <= machine);
    }

    #[test]
    fn what_is_no_number_is_no_limit() {
        assert_eq!(number(c"/proc/meminfo", b"MemFree:"), None, "another line");
        assert_eq!(number(c"/proc/version", b""), None, "words");
        assert_eq!(number(c"/nowhere", b""), None);
    }
}
