//! When a thread's counts are folded into the shared row: arithmetic only.

#![forbid(unsafe_code)]

/// The most bytes that one thread hides from a peak.
pub(crate) const FOLD_MAX: i64 = 64 * 1024;
/// Below this, folding would cost more than the peak gains.
pub(crate) const FOLD_MIN: i64 = 512;

/// Bytes that one thread may allocate or free before it folds: a sixteenth of the live bytes, so that the peak of a small context stays
/// meaningful, within [`FOLD_MIN`]..=[`FOLD_MAX`].
pub(crate) const fn fold_threshold(live: i64) -> i64 {
    let part = live / 16;
    if part < FOLD_MIN {
        FOLD_MIN
    } else if part > FOLD_MAX {
        FOLD_MAX
    } else {
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_is_clamped() {
        for live in [
            i64::MIN,
            -1,
            0,
            1,
            8191,
            8192,
            8193,
            1 << 20,
            (1 << 20) + 16,
            i64::MAX,
        ] {
            let t = fold_threshold(live);
            assert!((FOLD_MIN..=FOLD_MAX).contains(&t), "{live} -> {t}");
        }
        assert_eq!(fold_threshold(16 * 1000), 1000);
    }
}
