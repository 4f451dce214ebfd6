//! The secret keys of a guard, and the sums made with them. Pure arithmetic.
//!
//! Every sum depends on the address it stands at, so that a header or tail that was copied elsewhere is found (T37, T38).

#![forbid(unsafe_code)]

use super::header_words::HeaderWords;
use crate::fold::fold;

/// A guard's keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys(pub(super) [u64; Keys::COUNT]);

/// The stage of a header's block; part of its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Live,
    /// Freed, in quarantine.
    Freed,
    /// Returned to the allocator behind, which may overwrite the header.
    Gone,
}

impl Keys {
    pub(super) const COUNT: usize = 6;

    /// The fourth word of the header in front of an object at `start`.
    #[inline(always)]
    pub(super) const fn sum(&self, start: usize, words: HeaderWords, stage: Stage) -> u64 {
        let ([a, b, ..], [zero, one, two]) = (self.0, words.0);
        self.turned(
            fold(start as u64 ^ one ^ a, zero ^ two.rotate_left(24) ^ b),
            stage,
        )
    }

    /// The stage that `sum` proves.
    #[inline(always)]
    pub(super) const fn stage(&self, start: usize, words: HeaderWords, sum: u64) -> Option<Stage> {
        let [.., freed, gone] = self.0;
        let difference = self.sum(start, words, Stage::Live) ^ sum;
        if difference == 0 {
            Some(Stage::Live)
        } else if difference == freed {
            Some(Stage::Freed)
        } else if difference == gone {
            Some(Stage::Gone)
        } else {
            None
        }
    }

    /// Converts `sum` of a live block to that of another stage, or back.
    #[inline(always)]
    pub(super) const fn turned(&self, sum: u64, stage: Stage) -> u64 {
        let [.., freed, gone] = self.0;
        match stage {
            Stage::Live => sum,
            Stage::Freed => sum ^ freed,
            Stage::Gone => sum ^ gone,
        }
    }

    /// The word of a pad at `address`.
    #[inline(always)]
    pub(super) const fn pad(&self, address: usize) -> u64 {
        let [.., c, d, _, _] = self.0;
        fold(address as u64 ^ c, d)
    }
}

/// Eight bytes of the tail of the live block with this sum, indexed by the last three bits of an address. None of them is a letter or a
/// byte that ends strings, fills or poison (00, FF, CD, DD).
#[inline(always)]
pub(super) const fn tail(sum: u64) -> u64 {
    sum & 0x3F3F_3F3F_3F3F_3F3F | 0x8080_8080_8080_8080
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: Keys = Keys([
        0x9E37_79B9_7F4A_7C15,
        0xD1B5_4A32_D192_ED03,
        0x8CB9_2BA7_2F3D_8DD7,
        0xABC9_8388_FB8F_AC03,
        0x1357_9BDF_0246_8ACE,
        0xFDB9_7531_ECA8_6420,
    ]);

    #[test]
    fn a_sum_holds_for_its_words_address_and_stage_alone() {
        let words = HeaderWords([64 | 4 << 48, 5 | 6 << 32, 7]);
        let sum = KEYS.sum(0x1000, words, Stage::Live);
        for bit in 0..64 {
            assert_eq!(KEYS.stage(0x1000, words, sum ^ 1 << bit), None);
            for word in 0..3 {
                let mut other = words;
                other.0[word] ^= 1 << bit;
                assert_eq!(
                    KEYS.stage(0x1000, other, sum),
                    None,
                    "bit {bit} of word {word}"
                );
            }
            assert_eq!(
                KEYS.stage(0x1000 ^ (1_u64 << bit) as usize, words, sum)
                    .is_some(),
                1_u64 << bit > usize::MAX as u64
            );
        }
        for stage in [Stage::Live, Stage::Freed, Stage::Gone] {
            assert_eq!(
                KEYS.stage(0x1000, words, KEYS.sum(0x1000, words, stage)),
                Some(stage)
            );
        }
    }

    #[test]
    fn t09_no_tail_begins_with_a_byte_that_strings_and_fills_end_with() {
        let mut seen = [0_u32; 256];
        let stop = if cfg!(miri) { 0x4000 } else { 0x50_000 };
        for start in (0x1000..stop).step_by(16) {
            for byte in tail(KEYS.sum(start, HeaderWords([3, 5, 7]), Stage::Live)).to_le_bytes() {
                seen[usize::from(byte)] += 1;
            }
        }
        for byte in [0x00, 0xFF, 0xCD, 0xDD] {
            assert_eq!(seen[byte], 0, "{byte:#x}");
        }
        assert_eq!(seen.iter().filter(|n| **n > 0).count(), 64);
    }
}
