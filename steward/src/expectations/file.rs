#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use vk_callbacks::Rule;

use super::by_place::{KeyedFinding as _, alike};
use vk_report::pattern::matches;
use vk_report::report::FindingRow;

/// The known findings of one driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// The driver's name and version; `*` stands for any text.
    pub driver: String,
    /// Its known findings.
    #[serde(default, rename = "finding", skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Expected>,
}

/// A finding that is expected: of one kind, owner, command and scope, as in [`FindingRow`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The rule, such as `V29`.
    pub rule: String,
    /// How the rule is broken, such as `CacheAsObject`.
    pub kind: String,
    /// The owner of the callbacks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// The running command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// The scope of the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// The exact number in each round, in addition to [`per_run`](Self::per_run). Without both the number is not
    /// compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_round: Option<u64>,
    /// The exact number in a run, in addition to those of each round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_run: Option<u64>,
    /// The first round with the finding; runs with fewer rounds need not show it. 0: also runs without rounds.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub from_round: u32,
    /// It depends on timing: a run need not show it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sometimes: bool,
    /// The loader causes it, not the driver: not expected of a driver that is opened without a loader.
    #[serde(default, skip_serializing_if = "is_false")]
    pub loader: bool,
    /// The cause in the driver: file and function, or evidence from a trace.
    pub cause: String,
}

/// An error in a file, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// From 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

impl Expectations {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FileFault`]: not TOML, an unknown or missing field, an unknown rule, or a repeated entry.
    pub fn parse(text: &str) -> Result<Self, FileFault> {
        let read: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            FileFault {
                line: before.matches('\n').count() + 1,
                what: error.message().lines().collect::<Vec<_>>().join(" "),
            }
        })?;
        let mut known = HashSet::new();
        for (at, one) in read.findings.iter().enumerate() {
            // The line of an entry is that of its head.
            let fault = |what| {
                let heads = text.lines().enumerate().filter(|(_, line)| line.trim() == "[[finding]]");
                Err(FileFault { line: heads.map(|(line, _)| line + 1).nth(at).unwrap_or(1), what })
            };
            if !known.insert(one.key()) {
                return fault(format!("{one} stands there a second time"));
            }
            if let Some(unknown) =
                one.rule.split('/').find(|rule| Rule::ALL.iter().all(|known| known.to_string() != **rule))
            {
                return fault(format!("there is no rule {unknown:?}: `steward rules` lists them"));
            }
        }
        Ok(read)
    }

    /// Whether the file is about the driver of that name and version.
    #[must_use]
    pub fn is_about(&self, driver: &str) -> bool {
        matches(&self.driver, driver)
    }

    /// The expectations without those that the loader causes, for a driver that is opened without a loader.
    #[must_use]
    pub fn without_loader(mut self) -> Self {
        self.findings.retain(|one| !one.loader);
        self
    }

    /// The file, for [`Expectations::parse`].
    ///
    /// # Errors
    /// A number that TOML cannot express.
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

impl Expected {
    /// Whether `row` is this finding, in any number.
    #[must_use]
    pub fn is_about(&self, row: &FindingRow) -> bool {
        alike(self, row)
    }

    /// The expected number in `rounds` rounds; `None` if any number is accepted.
    #[must_use]
    pub fn count(&self, rounds: u32) -> Option<u64> {
        let in_rounds = rounds.saturating_add(1).saturating_sub(self.from_round.max(1));
        let in_all = self.per_round.map(|each| each.saturating_mul(in_rounds.into()));
        let once = self.per_run.map(|count| if rounds < self.from_round { 0 } else { count });
        match (in_all, once) {
            (Some(in_all), Some(once)) => Some(in_all.saturating_add(once)),
            (one, other) => one.or(other),
        }
    }

    /// Whether a run of `rounds` rounds must show it.
    #[must_use]
    pub fn is_due(&self, rounds: u32) -> bool {
        !self.sometimes && rounds >= self.from_round
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, kind, owner, command, scope, .. } = self;
        let words = [(owner, ", callbacks of "), (command, ", in "), (scope, ", scope ")];
        write!(f, "{rule} {kind}")?;
        words.iter().filter(|(word, _)| !word.is_empty()).try_for_each(|(word, before)| write!(f, "{before}{word}"))
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

fn first() -> u32 {
    1
}

fn is_first(round: &u32) -> bool {
    *round == first()
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_wrong_has_a_line() {
        let text = "driver = \"d *\"\n\n[[finding]]\nrule = \"V22\"\nkind = \"K\"\nowner = \"VkDevice\"\nper_round = 2\nfrom_round = 2\ncause = 'a \"reason\"'\n";
        let read = Expectations::parse(text).expect("right");
        assert_eq!(read.findings.len(), 1);
        assert_eq!(read.to_text().as_deref(), Ok(text));
        let fault = |text: &str| Expectations::parse(text).expect_err("wrong").to_string();
        assert!(fault("").contains("driver"), "{}", fault(""));
        let unknown = text.replace("per_round", "per_moon");
        assert!(fault(&unknown).starts_with("line 7: ") && fault(&unknown).contains("per_moon"), "{}", fault(&unknown));
        let twice = format!("{text}\n{}", text.split_once("\n\n").expect("a gap").1);
        assert_eq!(fault(&twice), "line 11: V22 K, callbacks of VkDevice stands there a second time");
        assert!(fault("driver = \"d\"\n[[finding]\n").starts_with("line 2: "));
        for unknown in ["V99", "V0", "v22", "", "V22/V99", "V22/"] {
            let rule = fault(&text.replace("V22", unknown));
            assert!(
                rule.starts_with("line 3: there is no rule \"") && rule.ends_with("`steward rules` lists them"),
                "{rule}"
            );
        }
        assert!(Expectations::parse(&text.replace("V22", "V22/V23")).is_ok());
        assert!(fault("driver = \"d\"\n[[finding]]\nrule = \"V1\"\nkind = \"K\"\n").contains("cause"));
    }

    #[test]
    fn counts_follow_the_rounds() {
        let one = |text: &str| -> Expected {
            toml::from_str(&format!("rule = \"V1\"\nkind = \"K\"\ncause = \"\"\n{text}")).expect("right")
        };
        assert_eq!(one("per_round = 3").count(4), Some(12));
        assert_eq!(one("per_round = 3\nfrom_round = 2").count(4), Some(9));
        assert_eq!(one("per_round = 3\nfrom_round = 5").count(4), Some(0));
        assert_eq!(one("per_run = 3").count(4), Some(3));
        let both = one("per_round = 3\nper_run = 5\nfrom_round = 2");
        assert_eq!([1, 2, 4].map(|rounds| both.count(rounds)), [0, 8, 14].map(Some));
        assert_eq!((one("per_run = 3").count(0), one("per_run = 3\nfrom_round = 0").count(0)), (Some(0), Some(3)));
        assert_eq!(one("").count(4), None);
        assert!(
            one("from_round = 4").is_due(4) && !one("from_round = 5").is_due(4) && !one("sometimes = true").is_due(4)
        );
    }
}
