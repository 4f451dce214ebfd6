//! What happened between two moments of a run.

#![forbid(unsafe_code)]

use alloc_core::{Scope, Usage};
use serde::Serialize;

use super::ByScope;

/// One part of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Commands called in it.
    pub commands: u64,
    /// Blocks taken in it.
    pub blocks: u64,
    /// The same, scope by scope.
    pub blocks_by_scope: ByScope,
    /// Blocks given back in it.
    pub freed: u64,
    /// The same, scope by scope.
    pub freed_by_scope: ByScope,
    /// Bytes taken in it; a block that grows takes the difference.
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

/// A phase that runs, and how things stood when it began.
#[derive(Clone, Debug)]
pub struct PhaseStart {
    /// Its name.
    pub name: String,
    /// Commands called before it.
    pub commands: u64,
    /// The accounts as it began.
    pub usage: Usage,
}

impl PhaseStart {
    /// The phase, from the commands and the accounts at its end, and its peak with what that may be off.
    #[must_use]
    pub fn end(self, commands: u64, usage: &Usage, (peak_bytes, peak_slack): (u64, u64)) -> Phase {
        let before = self.usage;
        let taken = |scope: Scope| usage.scope(scope).total_blocks.saturating_sub(before.scope(scope).total_blocks);
        let freed = |scope: Scope| {
            let live_then = before.scope(scope).live_blocks.saturating_add(taken(scope));
            live_then.saturating_sub(usage.scope(scope).live_blocks)
        };
        let bytes = |scope: Scope| usage.scope(scope).total_bytes.saturating_sub(before.scope(scope).total_bytes);
        let (blocks_by_scope, freed_by_scope, bytes_by_scope) = (ByScope::of(taken), ByScope::of(freed), ByScope::of(bytes));
        Phase {
            name: self.name,
            commands: commands.saturating_sub(self.commands),
            blocks: blocks_by_scope.sum(),
            blocks_by_scope,
            freed: freed_by_scope.sum(),
            freed_by_scope,
            bytes: bytes_by_scope.sum(),
            bytes_by_scope,
            live_bytes: usage.total().live_bytes,
            live_by_scope: ByScope::of(|scope| usage.scope(scope).live_bytes),
            live_blocks: usage.total().live_blocks,
            live_blocks_by_scope: ByScope::of(|scope| usage.scope(scope).live_blocks),
            peak_bytes,
            peak_slack,
        }
    }
}

/// The name of the phase with the highest peak; of several the first.
pub(super) fn fullest(phases: &[Phase]) -> String {
    let highest = phases.iter().map(|phase| phase.peak_bytes).max();
    phases.iter().find(|phase| Some(phase.peak_bytes) == highest).map(|phase| phase.name.clone()).unwrap_or_default()
}
