#![forbid(unsafe_code)]

use super::{Change, Diff, Part};

/// The filter of a comparison. The default removes changes that only depend on timing.
#[derive(Clone, Debug, Default)]
pub struct DiffFilter {
    /// Remove changes below this share of the number before: 0.01 is 1 %.
    pub threshold: f64,
    /// Keep only this number of changes of each part.
    pub top: Option<usize>,
    /// Remove changes whose part, name or measure contains one of these.
    pub ignore: Vec<String>,
    /// Keep changes that only depend on timing.
    pub all: bool,
}

impl Diff {
    /// Removes changes as `filter` says, and counts them.
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

    /// The summary in one sentence.
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
        let is_small = change.share().is_some_and(|share| share.abs() < self.threshold);
        let words = [change.part.name(), &change.name, &change.measure];
        let is_ignored = |text: &String| words.iter().any(|word| word.contains(text.as_str()));
        is_small || self.ignore.iter().any(is_ignored)
    }
}
