//! A tiny repeatable generator (SplitMix64: Steele, Lea, Flood 2014).

/// Pseudo-random numbers; the same seed gives the same ones on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts at `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, over the whole range.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..end`; 0 when `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next().to_le_bytes()).flatten().take(len).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn repeats_and_stays_below() {
        assert_eq!(Rng::new(5).bytes(20), Rng::new(5).bytes(20));
        assert_ne!(Rng::new(5).next(), Rng::new(6).next());
        let mut rng = Rng::new(1);
        let seen: std::collections::BTreeSet<u64> = (0..1_000).map(|_| rng.below(7)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
        assert_eq!(rng.below(0), 0);
    }
}
