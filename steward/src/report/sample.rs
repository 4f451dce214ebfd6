//! What was live at one moment, and which of many moments to keep.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::ByScope;

/// What was live at one moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Commands called until then; in a replay lines read.
    pub at: u64,
    /// The place of the running phase in the report's list.
    pub phase: usize,
    /// Bytes live, scope by scope.
    pub live_by_scope: ByScope,
}

/// Keeps a bounded number of samples: of each stretch of time the one with the most live, and all that end a phase. When there
/// are too many the stretches become twice as long.
///
/// ```text
///  at     0   1   2   3 | 4   5   6   7 | 8 ..         stride 4
///  live   1   9   3   3 | 2   2   6   1 | 1
///  kept       9         |         6   1 | 1            the 1 at 7 ended a phase
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    kept: Vec<Kept>,
    ends: usize,
    stride: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    sample: Sample,
    ends_phase: bool,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { kept: Vec::new(), ends: 0, stride: 1 }
    }
}

impl Sampler {
    /// Samples that are kept besides one or two a phase.
    pub(crate) const MOST: usize = 400;

    /// False where a sample would share its stretch with others: a caller to whom samples are dear leaves it out.
    pub(crate) const fn wants(&self, at: u64) -> bool {
        at.is_multiple_of(self.stride)
    }

    /// Adds a sample; `at` never goes back.
    pub(crate) fn add(&mut self, sample: Sample) {
        self.put(Kept { sample, ends_phase: false });
        while self.kept.len() - self.ends > Self::MOST + self.ends && self.stride <= u64::MAX / 2 {
            self.stride *= 2;
            self.ends = 0;
            std::mem::take(&mut self.kept).into_iter().for_each(|kept| self.put(kept));
        }
    }

    /// Adds the last sample of a phase.
    pub(crate) fn end_phase(&mut self, sample: Sample) {
        self.put(Kept { sample, ends_phase: true });
    }

    /// What was kept, in the order of time.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.kept.iter().map(|kept| kept.sample).collect()
    }

    fn put(&mut self, new: Kept) {
        self.ends += usize::from(new.ends_phase);
        let stretch = |kept: &Kept| kept.sample.at / self.stride;
        match self.kept.last_mut() {
            Some(last) if !last.ends_phase && !new.ends_phase && stretch(last) == stretch(&new) => {
                if new.sample.live_by_scope.sum() > last.sample.live_by_scope.sum() {
                    *last = new;
                }
            }
            _ => self.kept.push(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ByScope, Sample, Sampler};

    fn sample(at: u64, phase: usize, object: u64) -> Sample {
        Sample { at, phase, live_by_scope: ByScope { object, ..ByScope::default() } }
    }

    #[test]
    fn few_are_kept_as_they_are() {
        let mut sampler = Sampler::default();
        let all: Vec<_> = (0..Sampler::MOST as u64).map(|at| sample(at, 0, at * 7 % 5)).collect();
        all.iter().for_each(|one| sampler.add(*one));
        assert_eq!(sampler.samples(), all);
    }

    #[test]
    fn of_many_the_highest_stay_and_the_ends_of_phases() {
        for count in [1_000u64, 33_333, 1_000_000] {
            let mut sampler = Sampler::default();
            let live = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let mut ends = Vec::new();
            for at in 0..count {
                let phase = (at * 10 / count) as usize;
                sampler.add(sample(at, phase, live(at)));
                if (at + 1) * 10 / count != at * 10 / count {
                    ends.push(sample(at, phase, live(at)));
                    sampler.end_phase(sample(at, phase, live(at)));
                }
            }
            let kept = sampler.samples();
            assert!(kept.len() <= Sampler::MOST + 30 && kept.len() >= Sampler::MOST / 2, "{} of {count}", kept.len());
            assert!(kept.windows(2).all(|pair| pair[0].at <= pair[1].at && pair[0].phase <= pair[1].phase));
            assert_eq!(ends.len(), 10);
            assert!(ends.iter().all(|end| kept.contains(end)));
            let most = (0..count).map(live).max();
            assert_eq!(kept.iter().map(|one| one.live_by_scope.object).max(), most);
        }
    }

    #[test]
    fn many_phases_end_no_loop() {
        let mut sampler = Sampler::default();
        for phase in 0..5_000 {
            sampler.add(sample(phase as u64 * 3, phase, 1));
            sampler.end_phase(sample(phase as u64 * 3 + 2, phase, 0));
        }
        assert!(sampler.samples().len() <= 10_000 && sampler.samples().len() >= 5_000);
    }
}
