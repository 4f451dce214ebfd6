#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use super::{LiveBlock, SiteRecorder};
use crate::report::{Growth, LeakCount, LeakObject, LeakStack, Leaks, Phase};

const MAX_BLOCKS: usize = 4;
/// Rounds before growth is counted: the first one fills caches.
const WARM_UP: u64 = 1;

impl SiteRecorder {
    /// What was never freed, by command, context and stack. `phases` are those that ran: a name that repeats says where
    /// rounds begin.
    #[must_use]
    pub fn leaks(&self, phases: &[Phase]) -> Leaks {
        self.leaks_named(phases, &|_| String::new())
    }

    /// As [`leaks`](Self::leaks), with the name of a block from the moment of its allocation, such as the line of a
    /// trace.
    #[must_use]
    pub fn leaks_named(&self, phases: &[Phase], name: &dyn Fn(u64) -> String) -> Leaks {
        let (rounds, number) = rounds(phases);
        let intervals = number.saturating_sub(WARM_UP);
        let mut blocks: Vec<_> = self.live.values().collect();
        blocks.sort_by_key(|block| block.born);
        let mut groups: BTreeMap<_, Vec<&LiveBlock>> = BTreeMap::new();
        for block in blocks {
            if let Some(site) = self.sites.get(block.site) {
                let key = (site.key.command, site.key.context, site.key.stack);
                groups.entry(key).or_default().push(block);
            }
        }
        let mut totals: HashMap<_, u64> = HashMap::new();
        for site in &self.sites {
            let key = (site.key.command, site.key.context, site.key.stack);
            let total = totals.entry(key).or_default();
            *total = total.saturating_add(site.total.blocks);
        }
        let stack = |(key, blocks): (_, Vec<&LiveBlock>)| {
            let (command, context, stack) = key;
            let round = |block: &LiveBlock| rounds.get(block.phase as usize).copied().flatten();
            LeakStack {
                command: self.names.name(command),
                kind: self.names.name(context),
                blocks: LeakCount {
                    live: blocks.len() as u64,
                    bytes: sum(&blocks),
                    total: totals.get(&key).copied().unwrap_or(0),
                    growth: growth(&blocks, round),
                },
                oldest: blocks.iter().take(MAX_BLOCKS).map(|block| listed(block, name(block.at))).collect(),
                frames: stack
                    .and_then(|stack| self.stacks.get(stack))
                    .into_iter()
                    .flatten()
                    .filter_map(|frame| self.frame_list.get(*frame).cloned())
                    .collect(),
                ..LeakStack::default()
            }
        };
        let mut leaks = Leaks {
            mark: if intervals > 0 { "round" } else { "none" }.to_owned(),
            frames_a_mark: 1,
            intervals,
            warm_up: if intervals > 0 { WARM_UP } else { 0 },
            lost: self.lost,
            stacks: groups.into_iter().map(stack).collect(),
            peaks: Vec::new(),
        };
        leaks.sort();
        leaks
    }
}

fn listed(block: &LiveBlock, name: String) -> LeakObject {
    LeakObject {
        handle: match block.handle {
            0 => String::new(),
            handle => format!("{handle:#x}"),
        },
        bytes: block.bytes,
        name,
    }
}

fn sum(blocks: &[&LiveBlock]) -> u64 {
    blocks.iter().fold(0, |sum, block| sum.saturating_add(block.bytes))
}

fn growth(blocks: &[&LiveBlock], round: impl Fn(&LiveBlock) -> Option<u64>) -> Growth {
    let mut grew: HashMap<u64, u64> = HashMap::new();
    let later: Vec<_> =
        blocks.iter().filter(|block| round(block).is_some_and(|round| round > WARM_UP)).copied().collect();
    for block in &later {
        *grew.entry(round(block).unwrap_or(0)).or_default() += 1;
    }
    Growth {
        count: i64::try_from(later.len()).unwrap_or(i64::MAX),
        bytes: i64::try_from(sum(&later)).unwrap_or(i64::MAX),
        grew: grew.len() as u64,
        shrank: 0,
    }
}

/// Rounds count from 1; `None` for a phase whose name does not repeat. A single round cannot be recognised, so the
/// number of rounds is then 0.
fn rounds(phases: &[Phase]) -> (Vec<Option<u64>>, u64) {
    let mut seen: HashMap<&str, u64> = HashMap::new();
    let nth: Vec<_> = phases
        .iter()
        .map(|phase| {
            let nth = seen.entry(&phase.name).or_default();
            *nth += 1;
            (&*phase.name, *nth)
        })
        .collect();
    let number = seen.values().copied().max().filter(|most| *most > 1);
    let round = |(name, nth): (&str, u64)| (seen.get(name) > Some(&1)).then_some(nth);
    (nth.into_iter().map(round).collect(), number.unwrap_or(0))
}
