//! Which differences are shown: not those that time alone makes, nor what a reader does not want.

#![forbid(unsafe_code)]

use super::{Change, Diff, Part};

/// What of a comparison is left out. The default is what time alone changes.
#[derive(Clone, Debug, Default)]
pub struct DiffFilter {
    /// Changes by less than this share of what was before: 0.01 is 1 %.
    pub threshold: f64,
    /// Of each part all but the first so many.
    pub top: Option<usize>,
    /// Changes whose part, name or measure contains one of these.
    pub ignore: Vec<String>,
    /// Nothing is left out because time alone changes it.
    pub all: bool,
}

impl Diff {
    /// Leaves out what `filter` says, and counts it.
    #[must_use]
    pub fn filtered(mut self, filter: &DiffFilter) -> Self {
        if !filter.all {
            let before = self.changes.len();
            let is_noise = self.thread_noise.judge(&self.changes);
            self.changes.retain(|change| !is_noise(change));
            self.by_time = before - self.changes.len();
        }
        let before = self.changes.len();
        self.changes.retain(|change| !filter.leaves_out(change));
        if let Some(top) = filter.top {
            let mut shown = [0; Part::ALL.len()];
            self.changes.retain(|change| {
                let number = shown.get_mut(change.part as usize);
                number.is_some_and(|number| {
                    *number += 1;
                    *number <= top
                })
            });
        }
        self.left_out = before - self.changes.len();
        self
    }

    /// One sentence that sums up.
    #[must_use]
    pub fn summary(&self) -> String {
        if !self.compared {
            return "nothing to compare".to_owned();
        }
        let Some(first) = self.changes.first() else {
            return match self.by_time + self.left_out {
                0 => "no difference".to_owned(),
                some => format!("no other difference; {some} not shown"),
            };
        };
        let largest = self
            .changes
            .iter()
            .filter(|change| change.unit == first.unit && change.part == first.part)
            .max_by_key(|change| change.by().unsigned_abs())
            .unwrap_or(first);
        format!(
            "{} difference{}; the largest of {}: {}, {} {} {}",
            self.changes.len(),
            if self.changes.len() == 1 { "" } else { "s" },
            largest.part.name(),
            largest.name,
            largest.measure,
            super::text::signed(largest),
            super::text::remark(largest),
        )
        .trim_end()
        .to_owned()
    }
}

impl DiffFilter {
    fn leaves_out(&self, change: &Change) -> bool {
        let is_small = change
            .share()
            .is_some_and(|share| share.abs() < self.threshold);
        let words = [change.part.name(), &change.name, &change.measure];
        let is_ignored = |text: &String| words.iter().any(|word| word.contains(text.as_str()));
        is_small || self.ignore.iter().any(is_ignored)
    }
}
