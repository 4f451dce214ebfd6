//! How a run is to be done.

#![forbid(unsafe_code)]

use super::expect::Inputs;

/// How a run is to be done. The default is one round with seed 0 and without validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Every value the device computes depends on it.
    pub seed: u32,
    /// Rounds: each makes, uses and destroys every object below the device. 0 makes instance and device alone.
    pub rounds: u32,
    /// The seed that the expected values come from; `None` is [`Options::seed`]. Another one proves that a wrong result is found.
    pub expected_seed: Option<u32>,
    /// Whether the validation layer watches.
    pub validation: Validation,
}

impl Options {
    /// What a round puts in, and what it expects.
    pub(super) fn inputs(&self, round: u32) -> (Inputs, Inputs) {
        let expected = self.expected_seed.unwrap_or(self.seed);
        (Inputs::new(self.seed, round), Inputs::new(expected, round))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            rounds: 1,
            expected_seed: None,
            validation: Validation::Off,
        }
    }
}

/// Whether the validation layer watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Validation {
    /// No layer.
    Off,
    /// `VK_LAYER_KHRONOS_validation` with synchronization validation; without it the run fails with `ERROR_LAYER_NOT_PRESENT`.
    On,
    /// As `On`, and two harmless errors are made on purpose first, a wrong flag and a missing barrier, so that silence afterwards means something.
    OnAfterIntendedError,
}
