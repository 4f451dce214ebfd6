//! Which of many samples are kept.

#![forbid(unsafe_code)]

use alloc_core::{HostError, TryVec};
use vk_report::report::Sample;

use crate::record::{Own, own};

/// Samples of a run, thinned as there come more: of two neighbours of one phase the one with more live bytes is kept, and from then on half
/// as many commands are sampled.
pub(super) struct Samples {
    kept: TryVec<Sample, Own>,
    /// One command in `stride` is sampled. A power of two.
    stride: u64,
}

impl Samples {
    /// The most samples kept, if there are fewer than half as many phases: each keeps one at least.
    pub(super) const MAX: usize = 256;

    pub(super) fn new() -> Result<Self, HostError> {
        Ok(Self {
            kept: TryVec::try_with_capacity_in(Self::MAX, own())?,
            stride: 1,
        })
    }

    pub(super) const fn stride(&self) -> u64 {
        self.stride
    }

    /// Neither `at` nor `phase` of a sample is below that of the one before.
    pub(super) fn add(&mut self, sample: Sample) {
        if self.kept.last().is_some_and(|last| {
            (last.at, last.phase) == (sample.at, sample.phase) || last.at > sample.at
        }) {
            return;
        }
        if self.kept.len() >= Self::MAX.max(sample.phase.saturating_mul(4)) {
            self.thin();
        }
        // There is room: thinning has shortened the list.
        let _ = self.kept.try_push(sample);
    }

    fn thin(&mut self) {
        let mut kept = 0_usize;
        // Whether the last sample kept stands for a pair already.
        let mut is_pair = true;
        for index in 0..self.kept.len() {
            let Some(next) = self.kept.get(index).copied() else {
                break;
            };
            let last = kept.checked_sub(1).and_then(|last| self.kept.get_mut(last));
            match last {
                Some(last) if !is_pair && last.phase == next.phase => {
                    if next.live_by_scope.sum() > last.live_by_scope.sum() {
                        *last = next;
                    }
                    is_pair = true;
                }
                _ => {
                    if let Some(place) = self.kept.get_mut(kept) {
                        *place = next;
                    }
                    kept = kept.saturating_add(1);
                    is_pair = false;
                }
            }
        }
        self.kept.truncate(kept);
        self.stride = self.stride.saturating_mul(2);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.kept.iter()
    }
}

#[cfg(test)]
mod tests {
    use vk_report::report::{ByScope, Sample};

    use super::Samples;

    fn sample(at: u64, phase: usize, bytes: u64) -> Sample {
        Sample {
            at,
            phase,
            live_by_scope: ByScope {
                object: bytes,
                ..ByScope::default()
            },
        }
    }

    #[test]
    fn ly23_samples_are_thinned_and_the_highest_and_each_phase_stay() {
        let mut samples = Samples::new().expect("memory");
        let mut at = 0_u64;
        // 64 phases of 3, 6, 9 .. commands, and one very long one.
        for phase in 0..65 {
            let commands = if phase == 64 {
                100_000
            } else {
                3 * phase as u64
            };
            for number in 0..=commands {
                at += 1;
                if number == 0 || at.is_multiple_of(samples.stride()) {
                    let bytes = if at == 81_920 { 1_000_000 } else { at % 1000 };
                    samples.add(sample(at, phase, bytes));
                }
            }
        }
        let kept: Vec<_> = samples.iter().collect();
        assert!(kept.len() <= Samples::MAX && kept.len() > Samples::MAX / 4);
        assert!(kept.is_sorted_by(|a, b| a.at < b.at && a.phase <= b.phase));
        for phase in 0..65 {
            assert!(kept.iter().any(|one| one.phase == phase), "{phase}");
        }
        assert!(kept.iter().any(|one| one.live_by_scope.object == 1_000_000));
        assert!(samples.stride() >= 128 && samples.stride().is_power_of_two());
    }

    #[test]
    fn ly23_a_sample_of_the_past_is_left_out() {
        let mut samples = Samples::new().expect("memory");
        for (at, phase) in [(1, 0), (5, 0), (4, 0), (5, 0), (5, 1)] {
            samples.add(sample(at, phase, 7));
        }
        let kept: Vec<_> = samples.iter().map(|one| (one.at, one.phase)).collect();
        assert_eq!(kept, [(1, 0), (5, 0), (5, 1)]);
    }
}
