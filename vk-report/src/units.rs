//! Bytes for people.

#![forbid(unsafe_code)]

/// `bytes` in the largest binary unit that leaves at least 1, with three digits or more, cut off: `999 B`, `1.50 KiB`,
/// `1023 GiB`. At most 8 characters.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    alloc_core::ByteCount(bytes).to_string()
}

/// A share from 0 to 1 in percent, with one digit behind the point, two below 1 %: `0.41 %`, `99.9 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests {
    #[test]
    fn small_shares_have_more_digits() {
        let cases = [(0.0, "0.0 %"), (0.004_12, "0.41 %"), (0.5, "50.0 %"), (1.0, "100.0 %")];
        for (share, text) in cases {
            assert_eq!(super::percent(share), text);
        }
    }
}
