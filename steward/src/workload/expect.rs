//! The expected results of the device, computed on the processor as the shaders and the fill and clear commands do.

#![forbid(unsafe_code)]

pub(super) const WORDS: u32 = 1024;
pub(super) const SIDE: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inputs {
    pub(super) seed: u32,
    pub(super) fill: u32,
    pub(super) scale: u32,
    pub(super) clear: u32,
}

impl Inputs {
    pub(super) fn new(run_seed: u32, round: u32) -> Self {
        let seed = hash(run_seed ^ hash(round));
        Self { seed, fill: hash(seed ^ 0x0f11), scale: hash(seed ^ 0x5ca1e), clear: hash(seed ^ 0xc1ea5) }
    }

    /// `index` is in `0..2 * WORDS`.
    pub(super) fn hashed(self, index: u32) -> u32 {
        let (half, index) = (index / WORDS, index % WORDS);
        hash(index ^ self.seed).wrapping_add(self.fill.wrapping_mul(self.scale.wrapping_add(half)))
    }

    /// `index` is in `0..WORDS`.
    pub(super) fn uploaded(self, index: u32) -> u32 {
        hash(index ^ hash(self.seed ^ 0x0b10c))
    }

    /// `index` goes row by row, in `0..SIDE * SIDE`.
    pub(super) fn drawn(self, index: u32) -> u32 {
        hash(index ^ self.seed) ^ self.clear
    }
}

/// The finaliser of MurmurHash3, as in the shaders.
fn hash(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    let x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_depends_on_the_seed_and_on_the_round() {
        let base = Inputs::new(1, 0);
        for other in [Inputs::new(2, 0), Inputs::new(1, 1)] {
            assert_ne!(base.seed, other.seed);
            assert_ne!(base.fill, other.fill);
            assert_ne!(base.scale, other.scale);
            assert_ne!(base.clear, other.clear);
            assert!((0..2 * WORDS).all(|i| base.hashed(i) != other.hashed(i)));
            assert!((0..WORDS).all(|i| base.uploaded(i) != other.uploaded(i)));
            assert!((0..SIDE * SIDE).all(|i| base.drawn(i) != other.drawn(i)));
        }
    }

    /// From the published implementation: 0 is a fixed point, 1 maps to 0x514e28b7.
    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(hash(0), 0);
        assert_eq!(hash(1), 0x514e_28b7);
    }
}
