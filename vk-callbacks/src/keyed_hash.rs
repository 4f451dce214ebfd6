//! A keyed hash: keys come from drivers and files, which must not be able to choose keys that collide.
//!
//! One wide multiplication by a secret factor. No cryptography, but collisions cannot be constructed without measuring
//! the secret.

#![forbid(unsafe_code)]

use core::hash::{BuildHasher, Hasher};

use crate::command::thread::random_seed;

/// A secret, different for each table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashKey {
    mask: u64,
    /// Odd.
    factor: u64,
}

impl HashKey {
    /// No secret: the bits of the golden ratio and of pi.
    pub(crate) const FIXED: Self = Self { mask: 0x9e37_79b9_7f4a_7c15, factor: 0x2437_54a3_2439_f317 };

    pub(crate) fn fresh() -> Self {
        Self { mask: random_seed(), factor: random_seed() | 1 }
    }

    /// Every bit of the hash depends on every bit of `key`.
    #[inline]
    pub(crate) const fn hash(self, key: u64) -> u64 {
        let wide = ((key ^ self.mask) as u128).wrapping_mul(self.factor as u128);
        (wide as u64) ^ ((wide >> 64) as u64)
    }
}

impl BuildHasher for HashKey {
    type Hasher = KeyedHasher;

    #[inline]
    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { key: *self, state: 0 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedHasher {
    key: HashKey,
    state: u64,
}

impl Hasher for KeyedHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().rev().fold(0, |word: u64, byte| word << 8 | u64::from(*byte));
            self.write_u64(word);
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.state = self.key.hash(self.state.rotate_left(29) ^ word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keys_hash_differently_and_one_key_hashes_alike() {
        let (one, other) = (HashKey::fresh(), HashKey::fresh());
        assert!((1..100).all(|word| one.hash(word) == one.hash(word)));
        // The chance that any of a hundred words has the same hash is one in 2^57.
        assert!(!(1..100).any(|word| one.hash(word) == other.hash(word)));
        assert_eq!(one.hash_one(7_u64), one.hash_one(7_u64));
        assert_ne!(one.hash_one(7_u64), one.hash_one(8_u64));
    }

    #[test]
    fn every_bit_of_a_word_moves_both_ends_of_the_hash() {
        for bit in 0..64 {
            let moved = (0..64).filter(|_| {
                let key = HashKey::fresh();
                let change = key.hash(0x1234_5678) ^ key.hash(0x1234_5678 ^ 1 << bit);
                change >> 60 != 0 && change >> 20 & 0xffff != 0
            });
            assert!(moved.count() > 32, "bit {bit}");
        }
    }
}
