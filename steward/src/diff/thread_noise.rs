//! Recognises differences that depend on when a driver's own threads run.
//!
//! The checker's findings name the owners, blocks and bytes that such threads allocate and free. A larger change has
//! another cause.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Change, Part, Unit, facts};
use vk_report::report::{FindingRow, Report};

/// Timing alone changes at most this share of a number.
const MAX_SHARE: f64 = 0.1;
/// Timing alone may change any number of blocks by this many.
const FEW_BLOCKS: u64 = 16;
/// Timing alone may multiply the findings of one owner by this, and add [`FEW_BLOCKS`].
const MAX_RISE: u64 = 4;
/// A part of the names of findings that depend on when a driver's own thread runs.
const BY_THREAD: &str = "ForeignThread";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadNoise {
    owners: HashMap<String, ThreadWork>,
    all: ThreadWork,
    /// The smaller peak of both runs. A phase's change is a share of it, because a scope may be empty at the phase's
    /// end except for blocks that a thread has not freed yet.
    peak_bytes: u64,
    findings: HashSet<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ThreadWork {
    blocks: u64,
    bytes: u64,
}

impl ThreadWork {
    fn of(rows: &[&FindingRow]) -> Self {
        rows.iter().fold(Self::default(), |sum, row| Self {
            blocks: sum.blocks.saturating_add(row.count),
            bytes: sum.bytes.saturating_add(row.bytes),
        })
    }
}

impl ThreadNoise {
    pub(super) fn of(before: &Report, after: &Report) -> Self {
        let mut noise = Self { peak_bytes: before.peak_bytes.min(after.peak_bytes), ..Self::default() };
        let (before, after) = (by_rule(before), by_rule(after));
        for (key, rows) in &before {
            let Some(later) = after.get(key) else {
                continue;
            };
            let (first, second) = (ThreadWork::of(rows), ThreadWork::of(later));
            let most = ThreadWork { blocks: first.blocks.max(second.blocks), bytes: first.bytes.max(second.bytes) };
            let rise = first.blocks.saturating_mul(MAX_RISE);
            if second.blocks <= rise.saturating_add(FEW_BLOCKS) {
                let both = rows.iter().chain(later);
                noise.findings.extend(both.map(|row| facts::finding(row)));
            }
            let owner = noise.owners.entry(key.owner.to_owned()).or_default();
            for sum in [owner, &mut noise.all] {
                sum.blocks = sum.blocks.saturating_add(most.blocks);
                sum.bytes = sum.bytes.saturating_add(most.bytes);
            }
        }
        noise
    }

    /// A driver's own threads explain what they allocate, and, where they free blocks, what was live of contexts and
    /// phases that allocated the same.
    pub(super) fn judge<'n>(&'n self, changes: &[Change]) -> impl Fn(&Change) -> bool + use<'n> {
        let took: HashSet<_> = changes
            .iter()
            .filter(|change| matches!(&*change.measure, "taken" | "blocks"))
            .map(|change| (change.part, change.name.clone()))
            .collect();
        let took = move |change: &Change| took.contains(&(change.part, change.name.clone()));
        move |change| match change.part {
            Part::CallbackCoverage => change.measure == "own threads" && has_small_share(change),
            Part::Findings => self.findings.contains(&change.name),
            Part::Totals | Part::Phases => !took(change) && self.all.explains(change, Some(self.peak_bytes)),
            Part::Contexts => {
                // The second context of one kind is `VkDevice #2`.
                let kind = change.name.split(" #").next().unwrap_or_default();
                !took(change) && self.owners.get(kind).is_some_and(|work| work.explains(change, None))
            }
            Part::Leftovers | Part::Memory | Part::Alive => false,
        }
    }
}

impl ThreadWork {
    /// The bytes must be a small share of `whole` or of the number before.
    fn explains(self, change: &Change, whole: Option<u64>) -> bool {
        let by = change.by().unsigned_abs();
        let is_of_time = ["live", "peak", "freed"].iter().any(|word| change.measure.starts_with(word));
        let is_small = match change.unit {
            Unit::Bytes => {
                let is_small =
                    whole.map_or_else(|| has_small_share(change), |whole| (by as f64) < whole as f64 * MAX_SHARE);
                by <= self.bytes.into() && is_small
            }
            Unit::Count => by <= self.blocks.into() && (by <= FEW_BLOCKS.into() || has_small_share(change)),
        };
        is_of_time && is_small
    }
}

fn has_small_share(change: &Change) -> bool {
    change.share().is_some_and(|share| share.abs() < MAX_SHARE)
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RuleOfOwner<'r> {
    level: &'r str,
    kind: &'r str,
    owner: &'r str,
}

fn by_rule(report: &Report) -> BTreeMap<RuleOfOwner<'_>, Vec<&FindingRow>> {
    let mut rules: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in report.findings.iter().filter(|row| row.kind.contains(BY_THREAD)) {
        let key = RuleOfOwner { level: &row.level, kind: &row.kind, owner: &row.owner };
        rules.entry(key).or_default().push(row);
    }
    rules
}
