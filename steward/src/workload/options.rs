#![forbid(unsafe_code)]

use super::expect::Inputs;

/// The options of a run. The default is one round with seed 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Every value the device computes depends on it.
    pub seed: u32,
    /// Rounds: each creates, uses and destroys every object below the device. 0 creates instance and device only.
    pub rounds: u32,
    /// The seed of the expected values; `None` is [`Options::seed`]. Another seed proves that a wrong result is
    /// detected.
    pub expected_seed: Option<u32>,
}

impl Options {
    pub(super) fn inputs(&self, round: u32) -> (Inputs, Inputs) {
        let expected = self.expected_seed.unwrap_or(self.seed);
        (Inputs::new(self.seed, round), Inputs::new(expected, round))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 0, rounds: 1, expected_seed: None }
    }
}
