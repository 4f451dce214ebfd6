//! How many requests pass before one is chosen: drawn once for each that is, instead of once for each request. Pure arithmetic.

#![forbid(unsafe_code)]

/// How many fractional bits logarithms here have.
const FRACTION: u32 = 32;

/// How often a thing that succeeds with `chance` of 2^32 fails before it does, by the number `random`: what as many draws would come to.
pub(super) fn failures(chance: u32, random: u64) -> u32 {
    // One of 2^64 in the open interval; its logarithm is negative, as is that of the chance to fail.
    let (drawn, each) = (64_u64 << FRACTION, minus_log2_of_failing(chance));
    let drawn = drawn.saturating_sub(log2(random.max(1)));
    u32::try_from(drawn.checked_div(each).unwrap_or(0)).unwrap_or(u32::MAX)
}

/// The logarithm to base 2, to [`FRACTION`] bits, of a number that is not 0.
fn log2(number: u64) -> u64 {
    let whole = number.checked_ilog2().unwrap_or(0);
    // From 1 up to 2, in units of 2^-63.
    let mut rest = number << (63 - whole);
    let mut log = u64::from(whole);
    for _ in 0..FRACTION {
        // The square is from 1 up to 4: a bit of the logarithm is whether it is 2 or more.
        let square = (u128::from(rest) * u128::from(rest)) >> 63;
        let bit = square >> 64;
        rest = (square >> bit) as u64;
        log = log << 1 | bit as u64;
    }
    log
}

/// Of 1 less `chance` of 2^32.
fn minus_log2_of_failing(chance: u32) -> u64 {
    if chance >= 1 << 20 {
        let fails = (1_u64 << 32) - u64::from(chance);
        return (32 << FRACTION) - log2(fails);
    }
    // Of chances this small the logarithm has too few digits; its series' first two terms have them all.
    let chance = u64::from(chance.max(1));
    let natural = chance + ((chance * chance) >> 33);
    // Divided by the natural logarithm of 2.
    ((u128::from(natural) * 0x1_7154_7652) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right_to_nine_digits() {
        for number in [1, 2, 3, 10, 1000, 0x1234_5678_9ABC, u64::MAX] {
            let (ours, right) = (log2(number) as f64 / 2_f64.powi(32), (number as f64).log2());
            assert!((ours - right).abs() < 1e-9, "{number}: {ours} {right}");
        }
        for one_in in [2_u32, 3, 10, 1000, 4095, 4097, 1_000_000, u32::MAX] {
            let chance = u32::MAX / one_in;
            let chance = chance.max(1);
            let right =
                -(-f64::from(chance) / 2_f64.powi(32)).ln_1p() / 2_f64.ln() * 2_f64.powi(32);
            let ours = minus_log2_of_failing(chance) as f64;
            assert!(
                (ours - right).abs() < 1.0 + right * 1e-6,
                "one in {one_in}: {ours} {right}"
            );
        }
    }

    /// Half of all draws are below the median, and the mean is what it is to be.
    #[test]
    fn failures_are_spread_as_draws_one_by_one_would_be() {
        let draws = if cfg!(miri) { 1000 } else { 200_000_u64 };
        for one_in in [2_u32, 7, 1000] {
            let chance = u32::MAX / one_in;
            let all: std::vec::Vec<u64> = (0..draws)
                .map(|n| {
                    u64::from(failures(
                        chance,
                        (n * 2 + 1).wrapping_mul((1 << 63) / draws),
                    ))
                })
                .collect();
            let mean = all.iter().sum::<u64>() as f64 / draws as f64;
            let right = f64::from(one_in) - 1.0;
            assert!(
                (mean - right).abs() < right * 0.03 + 0.02,
                "one in {one_in}: {mean}"
            );
            let none = all.iter().filter(|failures| **failures == 0).count() as f64 / draws as f64;
            assert!(
                (none - 1.0 / f64::from(one_in)).abs() < 0.005,
                "one in {one_in}: {none} at once"
            );
        }
    }
}
