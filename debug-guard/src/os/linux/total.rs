//! The memory of this process: the machine's, or the limit of its control group.

use super::memory::File;

/// The smallest of what the machine has and what the control groups allow, in bytes.
pub(crate) fn total_memory() -> Option<u64> {
    [machine(), group()].into_iter().flatten().min()
}

fn machine() -> Option<u64> {
    let mut text = [0_u8; 256];
    let text = contents(File::open(c"/proc/meminfo"), &mut text)?;
    let line = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"MemTotal:"))?;
    number(line.trim_ascii_start())?.checked_mul(1024)
}

/// The tightest limit of the process's control group and of those above it: version 2, or version 1's controller of memory.
fn group() -> Option<u64> {
    let mut text = [0_u8; 2048];
    let text = contents(File::open(c"/proc/self/cgroup"), &mut text)?;
    let lines = text.split(|&byte| byte == b'\n');
    lines
        .filter_map(|line| {
            let mut parts = line.splitn(3, |&byte| byte == b':').skip(1);
            let (controllers, group) = (parts.next()?, parts.next()?);
            let (root, file): (&[u8], &[u8]) = match controllers {
                b"" => (b"/sys/fs/cgroup", b"/memory.max"),
                _ if controllers
                    .split(|&byte| byte == b',')
                    .any(|name| name == b"memory") =>
                {
                    (b"/sys/fs/cgroup/memory", b"/memory.limit_in_bytes")
                }
                _ => return None,
            };
            ancestors(group)
                .filter_map(|group| limit([root, group, file]))
                .min()
        })
        .min()
}

/// `/a/b`, `/a` and nothing.
fn ancestors(group: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::successors(Some(group.strip_suffix(b"/").unwrap_or(group)), |group| {
        let end = group.iter().rposition(|&byte| byte == b'/')?;
        group.get(..end)
    })
}

/// The number in the file with this joined path. `max` and a missing file are no limit.
fn limit(parts: [&[u8]; 3]) -> Option<u64> {
    number(contents(File::open_joined(parts), &mut [0_u8; 32])?)
}

fn contents(file: Option<File>, text: &mut [u8]) -> Option<&[u8]> {
    let read = file?.read(text);
    text.get(..read)
}

/// The digits at the beginning.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    core::str::from_utf8(text.get(..digits)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory_and_groups_have_ancestors() {
        let machine = machine().expect("/proc/meminfo says it");
        assert!(machine > 1 << 24, "{machine}");
        assert!(total_memory().expect("at least the machine's") <= machine);
        let all: std::vec::Vec<&[u8]> = ancestors(b"/a/bc").collect();
        assert_eq!(all, [&b"/a/bc"[..], b"/a", b""]);
        assert_eq!(ancestors(b"/").count(), 1);
    }

    #[test]
    fn numbers_end_where_digits_do() {
        assert_eq!(number(b"123 kB\n"), Some(123));
        assert_eq!([number(b"max\n"), number(b"")], [None, None]);
    }
}
