//! What programs met, counted by name, so that a long run can show that it looked everywhere.

use std::collections::BTreeMap;

/// How often each alignment, size and kind of event came up.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    alignments: BTreeMap<u32, u64>,
    sizes: BTreeMap<u32, u64>,
    events: BTreeMap<&'static str, u64>,
}

impl Tried {
    /// A granted request's alignment, a power of two.
    pub fn alignment(&mut self, alignment: u64) {
        *self.alignments.entry(alignment.trailing_zeros()).or_default() += 1;
    }

    /// A granted request's size, at least 1.
    pub fn size(&mut self, size: u64) {
        *self.sizes.entry(size.max(1).ilog2()).or_default() += 1;
    }

    /// An event of this name.
    pub fn note(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    /// How often an event of this name came up.
    #[must_use]
    pub fn times(&self, event: &str) -> u64 {
        self.events.get(event).copied().unwrap_or(0)
    }

    /// Adds another program's counts.
    pub fn add(&mut self, other: &Self) {
        let logs = [(&mut self.alignments, &other.alignments), (&mut self.sizes, &other.sizes)];
        for (mine, theirs) in logs {
            theirs.iter().for_each(|(power, times)| *mine.entry(*power).or_default() += times);
        }
        other.events.iter().for_each(|(event, times)| *self.events.entry(event).or_default() += times);
    }

    /// Checks that each of the events, and each alignment of `1 << powers`, came up at least `times` times; prints all
    /// counts.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn assert_at_least(&self, times: u64, powers: std::ops::Range<u32>, events: &[&str]) {
        println!(
            "alignments (log2): {:?}\nsizes (log2): {:?}\nevents: {:#?}",
            self.alignments, self.sizes, self.events
        );
        for power in powers {
            let seen = self.alignments.get(&power).copied().unwrap_or(0);
            assert!(seen >= times, "alignment 2^{power} came up {seen} times");
        }
        for event in events {
            assert!(self.times(event) >= times, "{event:?} came up {} times", self.times(event));
        }
    }
}
