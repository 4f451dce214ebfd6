#![forbid(unsafe_code)]

use core::fmt::{self, Write as _};

/// A number of bytes that prints in the largest binary unit that leaves at least 1, cut and not rounded up: `999 B`,
/// `1.50 KiB`, `16.4 MiB`, `1023 GiB`. At most 8 characters, right-aligned unless the format says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = ShortText { bytes: [0; 16], len: 0 };
        self.write(&mut text)?;
        f.pad_integral(true, "", text.as_str())
    }
}

impl ByteCount {
    fn write(self, text: &mut ShortText) -> fmt::Result {
        if self.0 < 1024 {
            return write!(text, "{} B", self.0);
        }
        let (mut unit, mut larger) = ("KiB", ["MiB", "GiB", "TiB", "PiB", "EiB"].into_iter());
        let mut hundredths = u128::from(self.0).saturating_mul(100) / 1024;
        while hundredths >= 100 * 1024
            && let Some(next) = larger.next()
        {
            hundredths /= 1024;
            unit = next;
        }
        let (whole, part) = (hundredths / 100, hundredths % 100);
        match whole {
            0..10 => write!(text, "{whole}.{part:02} {unit}"),
            10..100 => write!(text, "{whole}.{} {unit}", part / 10),
            _ => write!(text, "{whole} {unit}"),
        }
    }
}

struct ShortText {
    bytes: [u8; 16],
    len: usize,
}

impl ShortText {
    fn as_str(&self) -> &str {
        let written = self.bytes.get(..self.len).unwrap_or_default();
        core::str::from_utf8(written).unwrap_or_default()
    }
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len.saturating_add(text.len());
        let place = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ByteCount;
    use std::format;
    use std::string::ToString as _;

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
            assert_eq!(ByteCount(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_width_is_kept_to() {
        assert_eq!(format!("{0:>6}|{0:6}|{0:<6}|{0:^6}|{0:2}", ByteCount(5)), "   5 B|   5 B|5 B   | 5 B  |5 B");
    }
}
