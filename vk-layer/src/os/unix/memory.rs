use std::fs;

/// Of this process, in memory and of no file.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    parse(&fs::read_to_string("/proc/self/status").ok()?)
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_line_is_read() {
        assert_eq!(parse("Name:\tx\nRssAnon:\t    1234 kB\nRssFile:\t 9 kB\n"), Some(1234 * 1024));
        for wrong in ["", "RssAnon:", "RssAnon: 12", "RssAnon: x kB", "RssAnon: 99999999999999999999 kB"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert!(anonymous_bytes() > Some(4096), "of these tests");
    }
}
