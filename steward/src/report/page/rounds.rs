#![forbid(unsafe_code)]

use std::borrow::Cow;

use vk_report::report::{Phase, Sample};

pub(super) struct Folded<'r> {
    /// The phases before the rounds, the rounds, and the phases after; all phases if nothing repeats.
    pub(super) phases: Cow<'r, [Phase]>,
    /// The places of rounds; empty if nothing repeats.
    pub(super) rounds: std::ops::Range<usize>,
    places: Vec<usize>,
}

pub(super) fn folded(phases: &[Phase]) -> Folded<'_> {
    let Some((first, length, count)) = cycle(phases) else {
        return Folded { phases: Cow::Borrowed(phases), rounds: 0..0, places: (0..phases.len()).collect() };
    };
    let end = first + length * count;
    let rounds = phases[first..end].chunks(length).enumerate();
    let mut folded = phases[..first].to_vec();
    folded.extend(rounds.map(|(index, round)| sum(format!("round {}", index + 1), round)));
    folded.extend_from_slice(&phases[end..]);
    let place = |index: usize| match index {
        before if before < first => before,
        within if within < end => first + (within - first) / length,
        behind => behind - end + first + count,
    };
    Folded { phases: Cow::Owned(folded), rounds: first..first + count, places: (0..phases.len()).map(place).collect() }
}

impl Folded<'_> {
    pub(super) fn samples(&self, samples: &[Sample]) -> Vec<Sample> {
        let last = self.phases.len().saturating_sub(1);
        let moved =
            |sample: &Sample| Sample { phase: self.places.get(sample.phase).copied().unwrap_or(last), ..*sample };
        samples.iter().map(moved).collect()
    }
}

/// The start of the first round, its number of phases, and the number of rounds: at least two.
fn cycle(phases: &[Phase]) -> Option<(usize, usize, usize)> {
    let name = |index: usize| phases.get(index).map(|phase| phase.name.as_str());
    let (first, second) = (0..phases.len()).find_map(|first| {
        let rest = first + 1..phases.len();
        rest.into_iter().take(64).find(|second| name(*second) == name(first)).map(|second| (first, second))
    })?;
    let length = second - first;
    let whole = |round: &usize| {
        let begin = first + round * length;
        begin + length <= phases.len() && (0..length).all(|step| name(begin + step) == name(first + step))
    };
    let count = (0..phases.len()).take_while(whole).count();
    (count >= 2).then_some((first, length, count))
}

fn sum(name: String, round: &[Phase]) -> Phase {
    let mut sum = Phase { name, ..Phase::default() };
    round.iter().for_each(|phase| sum.append(phase));
    sum
}

#[cfg(test)]
mod tests {
    use super::{Phase, Sample, folded};

    fn phase(name: &str, live_bytes: u64, peak_bytes: u64) -> Phase {
        Phase { name: name.into(), commands: 1, live_bytes, peak_bytes, ..Phase::default() }
    }

    #[test]
    fn rounds_are_sums_that_end_as_their_last_phase_does() {
        let mut phases = vec![phase("device", 9, 9)];
        for round in 1..=3 {
            phases.push(phase("use", 50, 60));
            phases.push(phase("teardown", 10 * round, 55));
        }
        phases.push(phase("end", 0, 40));
        let folded = folded(&phases);
        let shown: Vec<_> =
            folded.phases.iter().map(|p| (p.name.as_str(), p.commands, p.live_bytes, p.peak_bytes)).collect();
        assert_eq!(
            shown,
            [
                ("device", 1, 9, 9),
                ("round 1", 2, 10, 60),
                ("round 2", 2, 20, 60),
                ("round 3", 2, 30, 60),
                ("end", 1, 0, 40)
            ]
        );
        assert_eq!(folded.rounds, 1..4);
        let samples: Vec<_> = (0..8).map(|phase| Sample { phase, ..Sample::default() }).collect();
        let places: Vec<_> = folded.samples(&samples).iter().map(|s| s.phase).collect();
        assert_eq!(places, [0, 1, 1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn what_does_not_repeat_stays() {
        for names in [&["a", "b", "c"][..], &[], &["a", "b", "a", "c"]] {
            let phases: Vec<_> = names.iter().map(|name| phase(name, 1, 1)).collect();
            let folded = folded(&phases);
            assert_eq!((folded.phases.len(), folded.rounds.len()), (names.len(), 0));
        }
    }
}
