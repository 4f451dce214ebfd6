#![forbid(unsafe_code)]

use core::hash::{BuildHasher, Hasher};

/// Bits of the golden ratio and of pi: odd, without structure.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0x2437_54a3_2439_f317;

/// Builds [`FoldHasher`]s, without state or memory.
///
/// A key hashes the same in every process of one build: good for replay, but there is **no protection against keys
/// chosen to collide**. Give [`TryMap::with_hasher_in`](crate::TryMap::with_hasher_in) a seeded hasher for hostile
/// keys. Hashes of `usize` keys differ between 32-bit and 64-bit targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldState;

impl BuildHasher for FoldState {
    type Hasher = FoldHasher;

    #[inline]
    fn build_hasher(&self) -> FoldHasher {
        FoldHasher { state: SEED }
    }
}

/// Multiplies each word into 128 bits and folds the halves together.
#[derive(Clone, Copy, Debug)]
pub struct FoldHasher {
    state: u64,
}

impl FoldHasher {
    #[inline]
    fn fold(&mut self, word: u64) {
        let wide = u128::from(self.state ^ word).wrapping_mul(u128::from(FACTOR));
        // A product of 0 must not forget everything before it.
        self.state = ((wide as u64) ^ ((wide >> 64) as u64)).wrapping_add(self.state.rotate_left(29));
    }
}

impl Hasher for FoldHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            for (to, from) in last.iter_mut().zip(rest) {
                *to = *from;
            }
            self.fold(u64::from_le_bytes(last));
        }
        // The padded words of `[0]` and `[0, 0]` are equal.
        self.fold(bytes.len() as u64);
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.fold(n);
    }
    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.fold(n as u64);
    }

    /// hashbrown uses the low bits for the bucket and the top seven for the tag.
    #[inline]
    fn finish(&self) -> u64 {
        let wide = u128::from(self.state ^ FACTOR).wrapping_mul(u128::from(SEED));
        (wide as u64) ^ ((wide >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_word_moves_about_half_of_the_hash() {
        for base in [0_u64, 1, 0xffff_ffff_ffff_ffff, 0x1000, SEED] {
            let (mut least, mut sum) = (64, 0);
            for bit in 0..64 {
                let distance = (FoldState.hash_one(base) ^ FoldState.hash_one(base ^ (1 << bit))).count_ones();
                least = least.min(distance);
                sum += distance;
            }
            assert!(least >= 12, "one bit of {base:#x} moves only {least} bits");
            assert!((28 * 64..36 * 64).contains(&sum), "average {}", sum / 64);
        }
    }

    #[test]
    fn every_bucket_is_filled_evenly_by_counting_keys_and_addresses() {
        for step in [1_u64, 16, 64, 4096, 65536] {
            let (mut low, mut high) = ([0_u32; 256], [0_u32; 128]);
            for key in 0..16384 {
                let hash = FoldState.hash_one(key * step);
                low[(hash & 255) as usize] += 1;
                high[(hash >> 57) as usize] += 1;
            }
            // Five standard deviations are 40 and 56.
            assert!(low.iter().all(|n| (24..=104).contains(n)), "step {step}: low bits {low:?}");
            assert!(high.iter().all(|n| (72..=184).contains(n)), "step {step}: top bits {high:?}");
        }
    }

    #[test]
    fn length_and_padding_are_told_apart() {
        let zeros = [0_u8; 9];
        for a in 0..=9 {
            for b in 0..a {
                assert_ne!(FoldState.hash_one(&zeros[..a]), FoldState.hash_one(&zeros[..b]), "{a} and {b} zeros");
            }
        }
    }
}
