//! Bytes for people.

#![forbid(unsafe_code)]

/// `bytes` in the largest binary unit that leaves at least 1, with three digits or more, cut and not rounded up: `999 B`,
/// `1.50 KiB`, `16.4 MiB`, `1023 GiB`. At most 8 characters.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut unit, mut larger) = ("KiB", ["MiB", "GiB", "TiB", "PiB", "EiB"].into_iter());
    let mut hundredths = u128::from(bytes) * 100 / 1024;
    while hundredths >= 100 * 1024
        && let Some(next) = larger.next()
    {
        hundredths /= 1024;
        unit = next;
    }
    let (whole, part) = (hundredths / 100, hundredths % 100);
    match whole {
        0..10 => format!("{whole}.{part:02} {unit}"),
        10..100 => format!("{whole}.{} {unit}", part / 10),
        _ => format!("{whole} {unit}"),
    }
}

/// A share from 0 to 1 in percent, with one digit behind the point, two below 1 %: `0.41 %`, `99.9 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
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
            (10 * 1024 - 1, "9.99 KiB"),
            (16_845, "16.4 KiB"),
            (100 * 1024, "100 KiB"),
            (1 << 20, "1.00 MiB"),
            ((1 << 20) - 1, "1023 KiB"),
            (u64::MAX, "15.9 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(super::bytes(bytes), text);
        }
    }

    #[test]
    fn small_shares_have_more_digits() {
        let cases = [
            (0.0, "0.0 %"),
            (0.004_12, "0.41 %"),
            (0.5, "50.0 %"),
            (1.0, "100.0 %"),
        ];
        for (share, text) in cases {
            assert_eq!(super::percent(share), text);
        }
    }
}
