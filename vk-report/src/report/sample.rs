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

/// Keeps a bounded number of samples: of each stretch of time the one with the most live, and the last one of each
/// phase. When there are too many, the phase with the most has its stretches made twice as long: a short phase stays as
/// fine as it was.
///
/// ```text
///  at     0   1   2   3 | 4   5   6   7 ends    stride 4
///  live   1   9   3   3 | 2   2   6   1
///  kept       9         |         6   1
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    phases: Vec<Stretches>,
    several: Vec<usize>,
    kept: usize,
}

#[derive(Clone, Debug)]
struct Stretches {
    phase: usize,
    stride: u64,
    highest: Vec<Sample>,
    end: Option<Sample>,
}

impl Sampler {
    /// Samples that are kept, besides one or two for each phase.
    pub const MAX_SAMPLES: usize = 400;

    /// A caller may leave out samples at other moments than multiples of this power of two: not every stretch wants a
    /// further one, nor each of very many phases.
    #[must_use]
    pub fn stride(&self) -> u64 {
        let crowded = (self.phases.len() / 64 + 1).next_power_of_two() as u64;
        self.phases.last().map_or(1, |last| last.stride.max(crowded))
    }

    /// Adds a sample; `at` and `phase` never go back. Without memory it is left out.
    pub fn add(&mut self, sample: Sample) {
        if self.several.try_reserve(1).is_err() {
            return;
        }
        let Some(running) = self.running(sample.phase) else {
            return;
        };
        if !running.put(sample) {
            return;
        }
        let is_second = running.highest.len() == 2;
        self.kept += 1;
        if is_second {
            self.several.push(self.phases.len() - 1);
        }
        while self.kept > Self::MAX_SAMPLES + self.phases.len() {
            let gone = self.coarsen_largest();
            if gone == 0 {
                return;
            }
            self.kept -= gone;
        }
    }

    fn coarsen_largest(&mut self) -> usize {
        let phases = &mut self.phases;
        let samples = |(_, phase): &(usize, &usize)| phases.get(**phase).map_or(0, |phase| phase.highest.len());
        let largest = self.several.iter().enumerate().max_by_key(samples);
        let Some((nth, largest)) = largest.and_then(|(nth, at)| Some((nth, phases.get_mut(*at)?))) else {
            return 0;
        };
        let before = largest.highest.len();
        largest.coarsen();
        let after = largest.highest.len();
        if after == 1 {
            self.several.swap_remove(nth);
        }
        before - after
    }

    /// Adds the last sample of its phase.
    pub fn end_phase(&mut self, sample: Sample) {
        if let Some(running) = self.running(sample.phase) {
            running.end = Some(sample);
        }
    }

    /// What was kept, in the order of time.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        let of_phase = |phase: &Stretches| {
            let end = phase.end.filter(|end| phase.highest.last() != Some(end));
            phase.highest.iter().copied().chain(end).collect::<Vec<_>>()
        };
        self.phases.iter().flat_map(of_phase).collect()
    }

    fn running(&mut self, phase: usize) -> Option<&mut Stretches> {
        if self.phases.last().is_none_or(|last| last.phase != phase) {
            self.phases.try_reserve(1).ok()?;
            self.phases.push(Stretches { phase, stride: 1, highest: Vec::new(), end: None });
        }
        self.phases.last_mut()
    }
}

impl Stretches {
    fn put(&mut self, new: Sample) -> bool {
        match self.highest.last_mut() {
            Some(last) if last.at / self.stride == new.at / self.stride => {
                if new.live_by_scope.sum() > last.live_by_scope.sum() {
                    *last = new;
                }
                false
            }
            _ => {
                let has_room = self.highest.try_reserve(1).is_ok();
                if has_room {
                    self.highest.push(new);
                }
                has_room
            }
        }
    }

    fn coarsen(&mut self) {
        let before = self.highest.len();
        while self.highest.len() == before && before > 1 && self.stride <= u64::MAX / 2 {
            self.stride *= 2;
            let stride = self.stride;
            self.highest.dedup_by(|next, last| {
                let is_one = last.at / stride == next.at / stride;
                if is_one && next.live_by_scope.sum() > last.live_by_scope.sum() {
                    *last = *next;
                }
                is_one
            });
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
        let all: Vec<_> = (0..Sampler::MAX_SAMPLES as u64).map(|at| sample(at, 0, at * 7 % 5)).collect();
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
            let bound = Sampler::MAX_SAMPLES + 2 * 10;
            assert!(kept.len() <= bound && kept.len() >= Sampler::MAX_SAMPLES / 2, "{} of {count}", kept.len());
            assert!(kept.windows(2).all(|pair| pair[0].at <= pair[1].at && pair[0].phase <= pair[1].phase));
            assert_eq!(ends.len(), 10);
            assert!(ends.iter().all(|end| kept.contains(end)));
            let most = (0..count).map(live).max();
            assert_eq!(kept.iter().map(|one| one.live_by_scope.object).max(), most);
        }
    }

    #[test]
    fn a_short_phase_beside_a_long_one_stays_fine() {
        let mut sampler = Sampler::default();
        (0..50).for_each(|at| sampler.add(sample(at, 0, at)));
        (50..100_000).for_each(|at| sampler.add(sample(at, 1, 1)));
        (100_000..100_050).for_each(|at| sampler.add(sample(at, 2, at)));
        let of = |phase: usize| sampler.samples().iter().filter(|one| one.phase == phase).count();
        assert_eq!((of(0), of(2)), (50, 50));
        assert!(of(1) > 100, "{}", of(1));
    }

    #[test]
    fn many_phases_are_bounded_by_their_number() {
        let mut sampler = Sampler::default();
        for phase in 0..5_000 {
            (0..10).for_each(|step| sampler.add(sample(phase as u64 * 10 + step, phase, step)));
            sampler.end_phase(sample(phase as u64 * 10 + 9, phase, 0));
        }
        let kept = sampler.samples();
        assert!(kept.len() <= Sampler::MAX_SAMPLES + 5_000 * 2, "{}", kept.len());
        assert_eq!(kept.iter().map(|one| one.phase).collect::<std::collections::BTreeSet<_>>().len(), 5_000);
    }

    #[test]
    fn those_who_ask_are_asked_less_and_less() {
        let (mut sampler, mut looked) = (Sampler::default(), 0);
        for phase in 0..6_000 {
            for step in 0..20 {
                let at = phase as u64 * 20 + step;
                if at.is_multiple_of(sampler.stride()) {
                    sampler.add(sample(at, phase, step));
                    looked += 1;
                }
            }
            sampler.end_phase(sample(phase as u64 * 20 + 19, phase, 0));
        }
        assert!((1_000..12_000).contains(&looked), "{looked} of 120000");
    }
}
