//! Reports of unlike many rounds: what comes with each round is compared by the round.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use super::Part;
use super::facts::{Key, Measure};

/// What is created outside of the rounds, too, or in a phase that comes once: only a part of its figures comes with them.
const ALSO_ONCE: [&str; 7] = [
    "VkInstance",
    "VkDevice",
    "VkDebugUtilsMessengerEXT",
    "VkDeviceMemory",
    "VkBuffer",
    "VkCommandPool",
    "VkFence",
];

/// The numbers of one report, and its rounds.
type Side<'f> = (&'f mut BTreeMap<Key, u64>, u32);

/// Turns sums over all rounds into means of one, of contexts and findings: where the sums differ, and all of that name are whole multiples
/// of the rounds. What is none comes once a run, or changes from round to round, and stays as it is.
pub(super) fn by_round((before, rounds): Side<'_>, (after, other_rounds): Side<'_>) {
    let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    for key in keys {
        if let Some(measure) = measured_a_round(&key) {
            let name = (key.part, key.name.clone());
            names.entry(name).or_default().push((key, measure));
        }
    }
    for figures in names.values() {
        let differ = |(key, _): &(Key, Measure)| before.get(key) != after.get(key);
        let come_evenly = |(key, _): &(Key, Measure)| {
            is_multiple(before.get(key), rounds) && is_multiple(after.get(key), other_rounds)
        };
        if figures.iter().any(differ) && figures.iter().all(come_evenly) {
            figures
                .iter()
                .for_each(|figure| divide(before, rounds, figure));
            figures
                .iter()
                .for_each(|figure| divide(after, other_rounds, figure));
        }
    }
}

fn is_multiple(sum: Option<&u64>, rounds: u32) -> bool {
    rounds > 0 && sum.is_none_or(|sum| sum.is_multiple_of(rounds.into()))
}

fn divide(facts: &mut BTreeMap<Key, u64>, rounds: u32, (key, measure): &(Key, Measure)) {
    let mean = facts
        .remove(key)
        .and_then(|sum| sum.checked_div(rounds.into()));
    if let Some(mean) = mean {
        let (measure, key) = (*measure, key.clone());
        facts.insert(Key { measure, ..key }, mean);
    }
}

fn measured_a_round(key: &Key) -> Option<Measure> {
    let comes_with_rounds = match key.part {
        Part::Contexts => !ALSO_ONCE.contains(&&*key.name),
        Part::Findings => true,
        _ => false,
    };
    comes_with_rounds.then(|| key.measure.a_round()).flatten()
}
