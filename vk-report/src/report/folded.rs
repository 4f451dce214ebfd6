#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::phase::titles;
use super::{Phase, Sample};

/// Phases of one name that are shown one by one.
const SHOWN: usize = 3;

/// Phases as they are listed, each by its title: those of later rounds are one row.
#[derive(Clone, Debug, Default)]
pub struct FoldedPhases {
    /// The rows, in order.
    pub rows: Vec<Phase>,
    /// Phases without a row of their own.
    pub hidden: usize,
    /// How often the same name came again.
    pub rounds: usize,
    /// The row of each phase.
    places: Vec<usize>,
}

impl FoldedPhases {
    /// With `all` each phase has a row.
    #[must_use]
    pub fn of(phases: &[Phase], all: bool) -> Self {
        let mut done = Self::default();
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let mut open: Option<(usize, usize)> = None;
        for (phase, title) in phases.iter().zip(titles(phases)) {
            let nth = seen.entry(phase.name.as_str()).or_default();
            *nth += 1;
            if all || *nth <= SHOWN {
                open = None;
                done.rows.push(Phase { name: title, ..phase.clone() });
            } else {
                let (first, last) = open.map_or((*nth, *nth), |(first, last)| (first.min(*nth), last.max(*nth)));
                done.fold(phase, (first, last), open.is_none());
                open = Some((first, last));
            }
            done.places.push(done.rows.len().saturating_sub(1));
        }
        done
    }

    fn fold(&mut self, phase: &Phase, (first, last): (usize, usize), is_new: bool) {
        self.hidden += 1;
        self.rounds = self.rounds.max(last - first + 1);
        let mut sum = if is_new { Phase::default() } else { self.rows.pop().unwrap_or_default() };
        sum.append(phase);
        sum.name = if last == first { format!("#{first}") } else { format!("#{first} to #{last}") };
        self.rows.push(sum);
    }

    /// Samples by the rows instead of by the phases.
    #[must_use]
    pub fn samples(&self, samples: &[Sample]) -> Vec<Sample> {
        let last = self.rows.len().saturating_sub(1);
        let moved =
            |sample: &Sample| Sample { phase: self.places.get(sample.phase).copied().unwrap_or(last), ..*sample };
        samples.iter().map(moved).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(rounds: u64) -> Vec<Phase> {
        let phase = |name: &str, live_bytes, peak_bytes| Phase {
            name: name.into(),
            commands: 2,
            blocks: 3,
            freed: 1,
            bytes: 100,
            live_bytes,
            peak_bytes,
            ..Phase::default()
        };
        let mut all = vec![phase("device", 5, 9)];
        for round in 1..=rounds {
            all.extend([phase("load", round, 5000 - round), phase("draw", 10 * round, 1)]);
        }
        all.push(phase("end", 0, 3));
        all
    }

    #[test]
    fn the_fourth_round_and_those_after_it_are_one_row() {
        let whole = phases(2000);
        let done = FoldedPhases::of(&whole, false);
        assert_eq!((done.rows.len(), done.hidden, done.rounds), (9, 3994, 1997));
        let titles: Vec<_> = done.rows.iter().map(|row| row.name.as_str()).collect();
        let expected = ["device", "load", "draw", "load #2", "draw #2", "load #3", "draw #3", "#4 to #2000", "end"];
        assert_eq!(titles, expected);
        let sum = &done.rows[7];
        assert_eq!((sum.commands, sum.blocks, sum.freed), (2 * 3994, 3 * 3994, 3994));
        assert_eq!((sum.live_bytes, sum.peak_bytes), (20_000, 4996), "at its end; the highest");
        assert_eq!(FoldedPhases::of(&whole, true).rows.len(), whole.len());
        let three = FoldedPhases::of(&phases(3), false);
        assert_eq!((three.rows.len(), three.hidden), (8, 0));
        assert_eq!(FoldedPhases::of(&phases(4), false).rows[7].name, "#4");
        let samples: Vec<_> = [0, 7, 9, 4001, 9999].map(|phase| Sample { phase, ..Sample::default() }).into();
        let places: Vec<_> = done.samples(&samples).iter().map(|sample| sample.phase).collect();
        assert_eq!(places, [0, 7, 7, 8, 8], "a sample lies in its phase's row");
    }
}
