//! Differences of two reports: bytes and counts, by context, phase, finding and scope, heap and call stack.
//!
//! ```text
//!  report --facts--> (part, name, measure) -> number   \
//!                                                        those that differ, the largest change first
//!  report --facts--> (part, name, measure) -> number   /
//! ```

#![forbid(unsafe_code)]

mod facts;
mod filter;
mod pairing;
mod rounds;
mod text;
mod thread_noise;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;

use crate::report::ReportOrList;
use facts::facts;
pub use filter::DiffFilter;
use rounds::by_round;
use thread_noise::ThreadNoise;
use vk_report::report::{Report, Source};

/// The differences of one driver's reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// [`Diff::FORMAT`].
    pub format: &'static str,
    /// The subject of the first report; none if only the second file has one.
    pub before: Option<String>,
    /// The subject of the second report; none if only the first file has one.
    pub after: Option<String>,
    /// False if a report is missing, or its driver could not be run: no numbers were compared.
    pub compared: bool,
    /// The numbers of rounds differ: phases are those of the last round, and `a round` in a measure marks a mean.
    pub unlike_rounds: bool,
    /// Differences that only depend on timing, and are not in `changes`.
    pub by_time: usize,
    /// Differences that the filter removed.
    pub left_out: usize,
    #[serde(skip)]
    thread_noise: ThreadNoise,
    /// Numbers that differ: by part, then bytes before counts, then the largest change first.
    pub changes: Vec<Change>,
}

/// A number that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The part of the report.
    pub part: Part,
    /// The name of a context or a phase, or a rule with its place.
    pub name: String,
    /// The quantity.
    pub measure: String,
    /// The unit.
    pub unit: Unit,
    /// In the first report; none if it has no such number.
    pub before: Option<u64>,
    /// In the second report; none if it has no such number.
    pub after: Option<u64>,
}

/// A part of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The run as a whole.
    Totals,
    /// A context.
    Contexts,
    /// A phase.
    Phases,
    /// Observations of one rule at one place.
    Findings,
    /// Callback coverage's terms.
    #[serde(rename = "callback_coverage")]
    CallbackCoverage,
    /// Memory that was not freed.
    Leftovers,
    /// Device memory that a program allocated.
    Memory,
    /// Live objects and blocks, by the call that created them.
    Alive,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Blocks, calls, commands, observations.
    Count,
}

impl Part {
    /// All, in the order of a report.
    pub const ALL: [Self; 8] = [
        Self::Totals,
        Self::Contexts,
        Self::Phases,
        Self::Findings,
        Self::CallbackCoverage,
        Self::Leftovers,
        Self::Memory,
        Self::Alive,
    ];

    /// Its heading.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Totals => "totals",
            Self::Contexts => "contexts",
            Self::Phases => "phases",
            Self::Findings => "findings",
            Self::CallbackCoverage => "callback coverage",
            Self::Leftovers => "leftovers",
            Self::Memory => "device memory",
            Self::Alive => "alive",
        }
    }
}

impl Change {
    /// The difference: positive if the number grew.
    #[must_use]
    pub fn by(&self) -> i128 {
        i128::from(self.after.unwrap_or(0)) - i128::from(self.before.unwrap_or(0))
    }

    /// The difference as a share of the number before; none if that is 0.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let before = self.before.unwrap_or(0);
        (before > 0).then(|| self.by() as f64 / before as f64)
    }
}

impl Diff {
    /// The name of this data format.
    pub const FORMAT: &str = "steward diff 2";

    /// Compares two files. Single reports are always compared; of several, those of the same driver.
    #[must_use]
    pub fn all(before: &[ReportOrList], after: &[ReportOrList]) -> Vec<Self> {
        if let ([before], [after]) = (before, after) {
            return vec![Self::of(Some(before), Some(after))];
        }
        let (first, second) = (numbered(before), numbered(after));
        let by_key: HashMap<_, _> = second.iter().map(|(key, entry)| (key, *entry)).collect();
        let both = first.iter().map(|(key, entry)| Self::of(Some(entry), by_key.get(key).copied()));
        let known: HashSet<_> = first.iter().map(|(key, _)| key).collect();
        let new = second.iter().filter(|(key, _)| !known.contains(key));
        both.chain(new.map(|(_, entry)| Self::of(None, Some(entry)))).collect()
    }

    /// Compares two reports. If one is missing, or its driver could not be run, no numbers are compared.
    #[must_use]
    pub fn of(before: Option<&ReportOrList>, after: Option<&ReportOrList>) -> Self {
        let mut diff = Self {
            format: Self::FORMAT,
            before: before.map(title),
            after: after.map(title),
            compared: false,
            unlike_rounds: false,
            by_time: 0,
            left_out: 0,
            thread_noise: ThreadNoise::default(),
            changes: Vec::new(),
        };
        if let (Some(ReportOrList::Report(before)), Some(ReportOrList::Report(after))) = (before, after) {
            diff.compare(before, after);
        }
        diff
    }

    fn compare(&mut self, before: &Report, after: &Report) {
        let rounds = rounds(before).zip(rounds(after));
        let unlike_rounds = rounds.filter(|(before, after)| before != after);
        self.compared = true;
        self.unlike_rounds = unlike_rounds.is_some();
        self.thread_noise = ThreadNoise::of(before, after);
        let [first_names, second_names] = match pairing::names(before, after) {
            Some(names) => names.map(Some),
            None => [None, None],
        };
        let mut before = facts(before, first_names, self.unlike_rounds);
        let mut after = facts(after, second_names, self.unlike_rounds);
        if let Some((first, second)) = unlike_rounds {
            by_round((&mut before, first), (&mut after, second));
        }
        let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let changes = keys.into_iter().map(|key| Change {
            part: key.part,
            unit: key.unit,
            name: key.name.clone(),
            measure: key.measure.to_string(),
            before: before.get(key).copied(),
            after: after.get(key).copied(),
        });
        self.changes = changes.filter(|change| change.by() != 0).collect();
        self.changes.sort_by_key(|change| {
            let size = change.by().unsigned_abs();
            (change.part, change.unit, std::cmp::Reverse(size))
        });
    }

    /// Whether the reports were compared and no difference is left. Differences that [`filtered`](Self::filtered)
    /// removed are counted in `by_time` and `left_out`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.compared
    }
}

fn rounds(report: &Report) -> Option<u32> {
    match report.source {
        Source::Driver { rounds, .. } => Some(rounds),
        _ => None,
    }
}

fn numbered(entries: &[ReportOrList]) -> Vec<((String, usize), &ReportOrList)> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let numbered = entries.iter().map(|entry| {
        let name = driver(entry);
        let nth = seen.entry(name.clone()).or_default();
        *nth += 1;
        ((name, *nth), entry)
    });
    numbered.collect()
}

fn driver(entry: &ReportOrList) -> String {
    match entry {
        ReportOrList::Report(report) => match &report.source {
            Source::Driver { name, .. } => name.clone(),
            Source::Trace { file, .. } => file.clone(),
            Source::Program { executable, .. } => executable.clone(),
        },
        ReportOrList::Failed(failed) => failed.driver.clone(),
    }
}

fn title(entry: &ReportOrList) -> String {
    match entry {
        ReportOrList::Report(report) => match &report.source {
            Source::Driver { name, version, seed, rounds, .. } => {
                format!("{name} {version}, {rounds} round{} with seed {seed}", if *rounds == 1 { "" } else { "s" })
            }
            Source::Trace { file, driver, lines, .. } => format!("{file}, {lines} lines recorded on {driver}"),
            Source::Program { executable, commands, .. } => format!("{executable}, {commands} commands"),
        },
        ReportOrList::Failed(failed) => format!("{}, which could not be run: {}", failed.driver, failed.error),
    }
}
