#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use super::Part;
use super::facts::{Key, Measure};

/// Kinds that are also created outside of rounds, or in a phase that runs once: only a part of their figures grows with
/// rounds.
const ALSO_ONCE: [&str; 6] = ["VkInstance", "VkDevice", "VkDeviceMemory", "VkBuffer", "VkCommandPool", "VkFence"];

type Side<'f> = (&'f mut BTreeMap<Key, u64>, u32);

/// Sums become means of one round if they differ and all sums of that name are multiples of the rounds. Other sums are
/// unchanged: they occur once a run, or change from round to round.
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
            figures.iter().for_each(|figure| divide(before, rounds, figure));
            figures.iter().for_each(|figure| divide(after, other_rounds, figure));
        }
    }
}

fn is_multiple(sum: Option<&u64>, rounds: u32) -> bool {
    rounds > 0 && sum.is_none_or(|sum| sum.is_multiple_of(rounds.into()))
}

fn divide(facts: &mut BTreeMap<Key, u64>, rounds: u32, (key, measure): &(Key, Measure)) {
    let mean = facts.remove(key).and_then(|sum| sum.checked_div(rounds.into()));
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
