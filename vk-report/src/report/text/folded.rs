#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::report::Phase;
use crate::report::phase::titles;

/// Phases of one name that are shown one by one.
const SHOWN: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) rows: Vec<(String, Phase)>,
    pub(super) hidden: usize,
    /// How often the same name came again.
    pub(super) rounds: usize,
}

/// With `all` each phase has a row.
pub(super) fn folded(phases: &[Phase], all: bool) -> Folded {
    let mut done = Folded::default();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut open: Option<(usize, usize, Phase)> = None;
    for (phase, title) in phases.iter().zip(titles(phases)) {
        let nth = seen.entry(phase.name.as_str()).or_default();
        *nth += 1;
        if all || *nth <= SHOWN {
            done.close(open.take());
            done.rows.push((title, phase.clone()));
            continue;
        }
        done.hidden += 1;
        open = Some(match open {
            None => (*nth, *nth, phase.clone()),
            Some((first, last, mut sum)) => {
                sum.append(phase);
                (first.min(*nth), last.max(*nth), sum)
            }
        });
    }
    done.close(open);
    done
}

impl Folded {
    fn close(&mut self, open: Option<(usize, usize, Phase)>) {
        let Some((first, last, sum)) = open else {
            return;
        };
        self.rounds = self.rounds.max(last - first + 1);
        let title = match last == first {
            true => format!("#{first}"),
            false => format!("#{first} to #{last}"),
        };
        self.rows.push((title, sum));
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
        let done = folded(&whole, false);
        assert_eq!((done.rows.len(), done.hidden, done.rounds), (9, 3994, 1997));
        let titles: Vec<_> = done.rows.iter().map(|(title, _)| title.as_str()).collect();
        let expected = ["device", "load", "draw", "load #2", "draw #2", "load #3", "draw #3", "#4 to #2000", "end"];
        assert_eq!(titles, expected);
        let (_, sum) = &done.rows[7];
        assert_eq!((sum.commands, sum.blocks, sum.freed), (2 * 3994, 3 * 3994, 3994));
        assert_eq!((sum.live_bytes, sum.peak_bytes), (20_000, 4996), "at its end; the highest");
        assert_eq!(folded(&whole, true).rows.len(), whole.len());
        let three = folded(&phases(3), false);
        assert_eq!((three.rows.len(), three.hidden), (8, 0));
        assert_eq!(folded(&phases(4), false).rows[7].0, "#4");
    }
}
