#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Violations and suspects of a report, compared with what is known of its driver. Notes are legal, and not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFindings {
    /// What is known, as `--expect` names it: `lavapipe-22.3`.
    pub expectations: String,
    /// Findings that it lists.
    pub known: u64,
    /// Findings that it does not list.
    pub unknown: u64,
}

impl KnownFindings {
    /// `all known of lavapipe 22.3`; empty without findings.
    #[must_use]
    pub fn words(&self) -> String {
        let driver = self.expectations.replace('-', " ");
        let all = self.known.saturating_add(self.unknown);
        match (all, self.unknown) {
            (0, _) => String::new(),
            (1, 0) => format!("known of {driver}"),
            (_, 0) => format!("all known of {driver}"),
            (1, 1) => format!("not known of {driver}"),
            (_, unknown) => format!("{unknown} of them not known of {driver}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_name_the_driver_and_how_many_are_new() {
        let words = |known, unknown| {
            let expectations = "lavapipe-22.3".to_owned();
            KnownFindings { expectations, known, unknown }.words()
        };
        assert_eq!(words(9, 0), "all known of lavapipe 22.3");
        assert_eq!(words(1, 0), "known of lavapipe 22.3");
        assert_eq!(words(0, 1), "not known of lavapipe 22.3");
        assert_eq!(words(7, 2), "2 of them not known of lavapipe 22.3");
        assert_eq!(words(0, 0), "");
    }
}
