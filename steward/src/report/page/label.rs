#![forbid(unsafe_code)]

/// Digits in groups of three, with narrow no-break spaces: `2 742 759`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

pub(super) fn capitalised(line: &str) -> String {
    let mut rest = line.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + rest.as_str()
}

pub(super) fn counted(number: u64, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {noun}{s}", grouped(number))
}

pub(super) fn cell(number: u64) -> String {
    if number == 0 { "\u{2013}".to_owned() } else { grouped(number) }
}

/// Bytes on an axis, in few digits: `512 KiB`, `1.5 MiB`.
pub(super) fn tick(bytes: u64) -> String {
    if bytes == 0 {
        return "0".to_owned();
    }
    let text = vk_report::units::bytes(bytes);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

pub(super) fn unit(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[expect(unreachable_pub, reason = "the macro makes its functions so")]
pub(super) mod filters {
    use askama::{Result, Values, filter_fn};

    #[filter_fn]
    pub(crate) fn grouped(number: &u64, _: &dyn Values) -> Result<String> {
        Ok(super::grouped(*number))
    }

    #[filter_fn]
    pub(crate) fn cell(number: &u64, _: &dyn Values) -> Result<String> {
        Ok(super::cell(*number))
    }

    #[filter_fn]
    pub(crate) fn bytes(number: &u64, _: &dyn Values) -> Result<String> {
        Ok(vk_report::units::bytes(*number))
    }

    #[filter_fn]
    pub(crate) fn percent(share: &f64, _: &dyn Values) -> Result<String> {
        Ok(vk_report::units::percent(*share))
    }

    #[filter_fn]
    pub(crate) fn unit(number: &f64, _: &dyn Values) -> Result<String> {
        Ok(super::unit(*number))
    }

    #[filter_fn]
    pub(crate) fn counted(number: &u64, _: &dyn Values, noun: &str) -> Result<String> {
        Ok(super::counted(*number, noun))
    }
}

#[cfg(test)]
mod tests {
    use super::{cell, grouped, tick};

    #[test]
    fn digits_come_in_threes() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1 000"),
            (2_742_759, "2 742 759"),
            (u64::MAX, "18 446 744 073 709 551 615"),
        ];
        for (number, text) in cases {
            assert_eq!(grouped(number).replace('\u{202f}', " "), text);
        }
        assert_eq!((cell(0), cell(10)), ("\u{2013}".into(), "10".into()));
    }

    #[test]
    fn ticks_are_short() {
        let cases = [
            (0, "0"),
            (512, "512 B"),
            (1 << 20, "1 MiB"),
            (3 << 19, "1.5 MiB"),
            (512 << 10, "512 KiB"),
            (10 << 20, "10 MiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(tick(bytes), text);
        }
    }
}
