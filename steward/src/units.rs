//! Bytes for people.

#![forbid(unsafe_code)]

/// `bytes` in the largest binary unit that leaves at least 1, with two digits behind the point: `999 B`, `1.50 KiB`, `2.00 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    let mut whole = u128::from(bytes) * 100 / 1024;
    while whole >= 100 * 1024 && unit + 1 < UNITS.len() {
        whole /= 1024;
        unit += 1;
    }
    format!("{}.{:02} {}", whole / 100, whole % 100, UNITS[unit])
}

#[cfg(test)]
mod tests {
    #[test]
    fn units_change_at_powers_of_1024() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (1 << 20, "1.00 MiB"),
            ((1 << 20) - 1, "1023.99 KiB"),
            (u64::MAX, "15.99 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(super::bytes(bytes), text);
        }
    }
}
