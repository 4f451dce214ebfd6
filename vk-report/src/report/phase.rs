#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use alloc_core::{Scope, ScopeUsage, Usage};
use serde::{Deserialize, Serialize};

use super::ByScope;

/// One part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Commands called in it.
    pub commands: u64,
    /// Blocks allocated in it.
    pub blocks: u64,
    /// The same, scope by scope.
    pub blocks_by_scope: ByScope,
    /// Blocks freed in it.
    pub freed: u64,
    /// The same, scope by scope.
    pub freed_by_scope: ByScope,
    /// Bytes allocated in it; a block that grows adds the difference.
    pub bytes: u64,
    /// The same, scope by scope.
    pub bytes_by_scope: ByScope,
    /// Bytes live at its end.
    pub live_bytes: u64,
    /// The same, scope by scope.
    pub live_by_scope: ByScope,
    /// Blocks live at its end.
    pub live_blocks: u64,
    /// The same, scope by scope.
    pub live_blocks_by_scope: ByScope,
    /// The most bytes live at once in it.
    pub peak_bytes: u64,
    /// How far `peak_bytes` may be off.
    pub peak_slack: u64,
}

/// A running phase, with the accounts at its beginning.
#[derive(Clone, Debug)]
pub struct PhaseStart {
    /// Its name.
    pub name: String,
    /// Commands called before it.
    pub commands: u64,
    /// The accounts as it began.
    pub counts: Counts,
}

/// An account at one moment, scope by scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Blocks ever allocated.
    pub blocks: ByScope,
    /// Bytes ever allocated.
    pub bytes: ByScope,
    /// Blocks live.
    pub live_blocks: ByScope,
    /// Bytes live.
    pub live_bytes: ByScope,
}

impl Counts {
    /// The account that has this usage of each scope.
    #[must_use]
    pub fn of(usage: impl Fn(Scope) -> ScopeUsage) -> Self {
        Self {
            blocks: ByScope::of(|scope| usage(scope).total_blocks),
            bytes: ByScope::of(|scope| usage(scope).total_bytes),
            live_blocks: ByScope::of(|scope| usage(scope).live_blocks),
            live_bytes: ByScope::of(|scope| usage(scope).live_bytes),
        }
    }

    /// Adds `more`; saturates.
    pub fn add(&mut self, more: &Self) {
        *self = self.combined(more, u64::saturating_add);
    }

    fn combined(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            blocks: self.blocks.combined(&other.blocks, combine),
            bytes: self.bytes.combined(&other.bytes, combine),
            live_blocks: self.live_blocks.combined(&other.live_blocks, combine),
            live_bytes: self.live_bytes.combined(&other.live_bytes, combine),
        }
    }
}

impl From<&Usage> for Counts {
    fn from(usage: &Usage) -> Self {
        Self::of(|scope| usage.scope(scope))
    }
}

impl Phase {
    /// Adds the phase that came next: what is live is live at its end, and the peak is the higher one.
    pub fn append(&mut self, next: &Self) {
        self.commands = self.commands.saturating_add(next.commands);
        self.blocks = self.blocks.saturating_add(next.blocks);
        self.freed = self.freed.saturating_add(next.freed);
        self.bytes = self.bytes.saturating_add(next.bytes);
        self.blocks_by_scope.add(&next.blocks_by_scope);
        self.freed_by_scope.add(&next.freed_by_scope);
        self.bytes_by_scope.add(&next.bytes_by_scope);
        (self.live_bytes, self.live_by_scope) = (next.live_bytes, next.live_by_scope);
        self.live_blocks = next.live_blocks;
        self.live_blocks_by_scope = next.live_blocks_by_scope;
        if next.peak_bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_slack) = (next.peak_bytes, next.peak_slack);
        }
    }
}

impl PhaseStart {
    /// The phase, from the commands and the accounts at its end, and its peak with what that may be off.
    #[must_use]
    pub fn end(self, commands: u64, end: &Counts, (peak_bytes, peak_slack): (u64, u64)) -> Phase {
        let start = &self.counts;
        let blocks_by_scope = end.blocks.combined(&start.blocks, u64::saturating_sub);
        let bytes_by_scope = end.bytes.combined(&start.bytes, u64::saturating_sub);
        let freed_by_scope = start
            .live_blocks
            .combined(&blocks_by_scope, u64::saturating_add)
            .combined(&end.live_blocks, u64::saturating_sub);
        Phase {
            name: self.name,
            commands: commands.saturating_sub(self.commands),
            blocks: blocks_by_scope.sum(),
            blocks_by_scope,
            freed: freed_by_scope.sum(),
            freed_by_scope,
            bytes: bytes_by_scope.sum(),
            bytes_by_scope,
            live_bytes: end.live_bytes.sum(),
            live_by_scope: end.live_bytes,
            live_blocks: end.live_blocks.sum(),
            live_blocks_by_scope: end.live_blocks,
            peak_bytes,
            peak_slack,
        }
    }
}

pub(super) fn titles(phases: &[Phase]) -> Vec<String> {
    numbered(phases.iter().map(|phase| &*phase.name))
}

/// Of a repeated name, as in several rounds, all but the first have a number: `frames`, `frames #2`.
#[must_use]
pub fn numbered<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let names = names.map(|name| {
        let nth = seen.entry(name).or_default();
        *nth += 1;
        if *nth == 1 { name.to_owned() } else { format!("{name} #{nth}") }
    });
    names.collect()
}

/// The title of that phase of several of one name which has most of something; of several the first.
#[must_use]
pub fn title_of(phases: &[Phase], name: &str, most: fn(&Phase) -> u64) -> String {
    let called = || phases.iter().zip(titles(phases)).filter(|(phase, _)| phase.name == name);
    let highest = called().map(|(phase, _)| most(phase)).max();
    called().find(|(phase, _)| Some(most(phase)) == highest).map_or_else(|| name.to_owned(), |(_, title)| title)
}

pub(super) fn fullest(phases: &[Phase]) -> String {
    let highest = phases.iter().map(|phase| phase.peak_bytes).max();
    phases.iter().find(|phase| Some(phase.peak_bytes) == highest).map(|phase| phase.name.clone()).unwrap_or_default()
}
