//! A context for every owner that a trace declares.

use std::collections::BTreeMap;

use alloc_core::{Context, ContextOptions, Handle, HostError, Scope, Snapshot};
use vk_callbacks::{Finding, ReplayTarget, Totals};

use crate::report::{ContextRow, Leftover, Phase, ScopeBytes};

/// How many findings are listed in full; the rest is counted.
const LISTED: usize = 100;

/// Contexts by owner, and everything the replay tells.
pub(super) struct OwnerContexts<'r> {
    contexts: BTreeMap<u64, Context>,
    unnamed: Context,
    top: Context,
    records: &'r Context,
    phases: Vec<Phase>,
    fullest: Option<(u64, String, Snapshot<&'r Context>)>,
    findings: Vec<String>,
    unlisted: u64,
    leftovers: BTreeMap<u64, Leftover>,
}

impl<'r> OwnerContexts<'r> {
    pub(super) fn new(top: Context, records: &'r Context) -> Result<Self, HostError> {
        Ok(Self {
            unnamed: top.child("requests without an owner")?,
            contexts: BTreeMap::new(),
            top,
            records,
            phases: Vec::new(),
            fullest: None,
            findings: Vec::new(),
            unlisted: 0,
            leftovers: BTreeMap::new(),
        })
    }

    /// The contexts as rows, and the phase in which they held most.
    pub(super) fn rows(&self, records: &Context) -> Result<(Vec<ContextRow>, String), HostError> {
        let last = Snapshot::take(&self.top, records)?;
        let fullest = self.fullest.as_ref();
        let rows = last.nodes().iter().map(|node| {
            let then = fullest.and_then(|(_, _, f)| f.nodes().iter().find(|then| then.id == node.id)).map(|then| then.usage);
            let name = last.label(node).unwrap_or(node.name);
            if node.depth == 0 { ContextRow::group(name, 0) } else { ContextRow::new(name, node.depth, &node.usage, then) }
        });
        Ok((rows.collect(), fullest.map(|(_, phase, _)| phase.clone()).unwrap_or_default()))
    }

    pub(super) fn phases(&self) -> Vec<Phase> {
        self.phases.clone()
    }

    pub(super) fn leftovers(&self) -> Vec<Leftover> {
        self.leftovers.values().cloned().collect()
    }

    pub(super) fn findings(&self) -> Vec<String> {
        let mut all = self.findings.clone();
        if self.unlisted > 0 {
            all.push(format!("and {} findings more", self.unlisted));
        }
        all
    }

    fn context(&self, owner: u64) -> &Context {
        self.contexts.get(&owner).unwrap_or(&self.unnamed)
    }
}

impl ReplayTarget for OwnerContexts<'_> {
    type Sink = Handle;

    fn sink(&mut self, owner: u64) -> Handle {
        self.context(owner).handle()
    }

    fn owner(&mut self, owner: u64, _: u64, kind: &str) {
        // Owners lie side by side: a context's own record would otherwise be counted with its parent's requests.
        match self.top.child_with(ContextOptions::new("owner").label(kind)) {
            Ok(context) => {
                self.contexts.insert(owner, context);
            }
            Err(error) => self.findings.push(format!("{kind} has no account of its own: {error}")),
        }
    }

    fn phase_begin(&mut self, phase: &str, totals: &Totals) {
        let (blocks, bytes) = (totals.allocations, totals.allocate_bytes + totals.reallocate_bytes);
        self.phases.push(Phase::begin(phase, totals.commands, blocks, bytes));
    }

    fn phase_end(&mut self, name: &str, totals: &Totals) {
        let Some(phase) = self.phases.last_mut() else { return };
        phase.commands = totals.commands - phase.commands;
        phase.allocations = totals.allocations - phase.allocations;
        phase.bytes = totals.allocate_bytes + totals.reallocate_bytes - phase.bytes;
        phase.live_bytes = totals.all().live_bytes;
        phase.live_by_scope = ScopeBytes::of(|scope| totals.scope(scope).live_bytes);
        phase.peak_bytes = totals.phase_peak_bytes;
        let live = totals.all().live_bytes;
        if self.fullest.as_ref().is_none_or(|(most, ..)| live > *most)
            && let Ok(snapshot) = Snapshot::take(&self.top, self.records)
        {
            self.fullest = Some((live, name.to_owned(), snapshot));
        }
    }

    fn finding(&mut self, line: u64, finding: Finding) {
        if let Finding::StillLive { owner, asked, .. } = finding {
            let name = self.context(owner).label().unwrap_or_else(|| self.context(owner).name()).to_owned();
            let left = self.leftovers.entry(owner).or_insert_with(|| Leftover { context: name, ..Leftover::default() });
            left.blocks += 1;
            left.bytes = left.bytes.saturating_add(asked.size);
            let asked_scope = u32::try_from(asked.scope).ok().and_then(Scope::from_raw);
            left.by_scope.add(&ScopeBytes::of(|scope| if Some(scope) == asked_scope { asked.size } else { 0 }));
        }
        if self.findings.len() < LISTED {
            self.findings.push(format!("line {line}: {finding}"));
        } else {
            self.unlisted += 1;
        }
    }
}
