//! A context for every owner that a trace declares.

use std::collections::BTreeMap;
use std::rc::Rc;

use alloc_core::{Budget, Context, ContextOptions, HostError, Scope, Snapshot, SnapshotNode};
use vk_callbacks::{Finding, ReplayTarget, Totals};

use super::sink::{Empty, Sink};
use crate::report::{ByScope, ContextRow, Counts, FindingRow, Leftover, Phase, PhaseStart, Sample, Sampler};

/// How many findings are listed in full; the rest is counted.
const LISTED: usize = 100;
/// No practical limit: the high-water mark is the exact peak of all scopes together.
const EXACT: Budget = Budget::exact(u64::MAX - 1);

/// Contexts by owner, and everything the replay tells.
pub(super) struct OwnerContexts<'r> {
    accounts: BTreeMap<u64, Account>,
    unnamed: Account,
    top: Context,
    records: &'r Context,
    phases: Vec<Phase>,
    running: Option<PhaseStart>,
    timeline: Sampler,
    line: u64,
    fullest: Option<(u64, String, Snapshot<&'r Context>)>,
    findings: Vec<FindingRow>,
    unlisted: u64,
    leftovers: BTreeMap<u64, Leftover>,
}

/// One owner's.
struct Account {
    context: Context,
    empty: Rc<Empty>,
}

impl<'r> OwnerContexts<'r> {
    pub(super) fn new(top: Context, records: &'r Context) -> Result<Self, HostError> {
        Ok(Self {
            unnamed: Account::new(top.child_with(ContextOptions::new("requests without an owner").budget(EXACT))?),
            accounts: BTreeMap::new(),
            top,
            records,
            phases: Vec::new(),
            running: None,
            timeline: Sampler::default(),
            line: 0,
            fullest: None,
            findings: Vec::new(),
            unlisted: 0,
            leftovers: BTreeMap::new(),
        })
    }

    /// The contexts as rows, and the phase in which they held most. `peak_bytes` is that of all together.
    pub(super) fn rows(&self, records: &Context, peak_bytes: u64) -> Result<(Vec<ContextRow>, String), HostError> {
        let last = Snapshot::take(&self.top, records)?;
        let fullest = self.fullest.as_ref();
        let row = |node: &SnapshotNode| {
            let name = last.label(node).unwrap_or(node.name);
            if node.depth == 0 {
                return ContextRow::group(name, 0).with_peak(Some(peak_bytes));
            }
            let then = fullest.and_then(|(_, _, f)| f.nodes().iter().find(|then| then.id == node.id)).map(|then| then.usage);
            let empty = self.accounts().find(|account| account.context.id() == node.id).map(|account| account.empty.blocks().0);
            ContextRow::new(name, node.depth, &node.usage, then)
                .with_peak(node.budget.map(|budget| budget.high))
                .with_blocks(empty.map_or(0, |empty| empty.sum()))
        };
        let mut rows: Vec<_> = last.nodes().iter().map(row).collect();
        ContextRow::sum_groups(&mut rows);
        Ok((rows, fullest.map(|(_, phase, _)| phase.clone()).unwrap_or_default()))
    }

    pub(super) fn phases(&self) -> Vec<Phase> {
        self.phases.clone()
    }

    /// Looks at what is live, after a line.
    pub(super) fn look(&mut self, line: u64, totals: &Totals) {
        self.line = line;
        self.timeline.add(self.sample(totals));
    }

    pub(super) fn timeline(&self) -> Vec<Sample> {
        self.timeline.samples()
    }

    fn sample(&self, totals: &Totals) -> Sample {
        let live_by_scope = ByScope::of(|scope| totals.scope(scope).live_bytes);
        Sample { at: self.line, phase: self.phases.len(), live_by_scope }
    }

    pub(super) fn leftovers(&self) -> Vec<Leftover> {
        self.leftovers.values().cloned().collect()
    }

    pub(super) fn findings(&self) -> Vec<FindingRow> {
        let mut all = self.findings.clone();
        if self.unlisted > 0 {
            all.push(FindingRow { count: self.unlisted, ..note(format!("and {} findings more", self.unlisted)) });
        }
        all
    }

    /// What the replay alone can tell; the rest the judge has said.
    fn row(line: u64, finding: Finding) -> Option<FindingRow> {
        let own = matches!(finding, Finding::ImpossibleSize { .. } | Finding::SinkRefused { .. } | Finding::Lost { .. });
        own.then(|| FindingRow { first_serial: line, ..note(format!("line {line}: {finding}")) })
    }

    /// What all owners were given.
    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for account in self.accounts() {
            let one = Counts::from(&account.context.usage());
            let (taken, live) = account.empty.blocks();
            for (sum, more) in [
                (&mut sum.blocks, [one.blocks, taken]),
                (&mut sum.bytes, [one.bytes, ByScope::default()]),
                (&mut sum.live_blocks, [one.live_blocks, live]),
                (&mut sum.live_bytes, [one.live_bytes, ByScope::default()]),
            ] {
                more.iter().for_each(|more| sum.add(more));
            }
        }
        sum
    }

    fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values().chain([&self.unnamed])
    }

    fn account(&self, owner: u64) -> &Account {
        self.accounts.get(&owner).unwrap_or(&self.unnamed)
    }
}

impl Account {
    fn new(context: Context) -> Self {
        Self { context, empty: Rc::default() }
    }

    fn name(&self) -> &str {
        self.context.label().unwrap_or(self.context.name())
    }
}

impl ReplayTarget for OwnerContexts<'_> {
    type Sink = Sink;

    fn sink(&mut self, owner: u64) -> Sink {
        let account = self.account(owner);
        Sink::new(account.context.handle(), Rc::clone(&account.empty))
    }

    fn owner(&mut self, owner: u64, _: u64, kind: &str) {
        if let Some(first) = self.accounts.get(&owner) {
            let first = first.name();
            let sentence = format!("owner {owner} was declared again, as {kind}: it stays with the account of {first}");
            self.findings.push(note(sentence));
            return;
        }
        // Owners lie side by side: a context's own record would otherwise be counted with its parent's requests.
        match self.top.child_with(ContextOptions::new("owner").label(kind).budget(EXACT)) {
            Ok(context) => {
                self.accounts.insert(owner, Account::new(context));
            }
            Err(error) => self.findings.push(note(format!("{kind} has no account of its own: {error}"))),
        }
    }

    fn phase_begin(&mut self, phase: &str, totals: &Totals) {
        self.running = Some(PhaseStart { name: phase.to_owned(), commands: totals.commands, counts: self.counts() });
    }

    fn phase_end(&mut self, name: &str, totals: &Totals) {
        let Some(start) = self.running.take() else { return };
        self.timeline.end_phase(self.sample(totals));
        self.phases.push(start.end(totals.commands, &self.counts(), (totals.phase_peak_bytes, 0)));
        let live = totals.all().live_bytes;
        if self.fullest.as_ref().is_none_or(|(most, ..)| live > *most)
            && let Ok(snapshot) = Snapshot::take(&self.top, self.records)
        {
            self.fullest = Some((live, name.to_owned(), snapshot));
        }
    }

    fn finding(&mut self, line: u64, finding: Finding) {
        if let Finding::StillLive { owner, asked, .. } = finding {
            let name = self.account(owner).name().to_owned();
            let left = self.leftovers.entry(owner).or_insert_with(|| Leftover { context: name, ..Leftover::default() });
            left.blocks += 1;
            left.bytes = left.bytes.saturating_add(asked.size);
            let asked_scope = scope(asked.scope);
            left.by_scope.add(&ByScope::of(|scope| if Some(scope) == asked_scope { asked.size } else { 0 }));
        }
        match Self::row(line, finding) {
            Some(row) if self.findings.len() < LISTED => self.findings.push(row),
            Some(_) => self.unlisted += 1,
            None => {}
        }
    }
}

fn scope(raw: i32) -> Option<Scope> {
    u32::try_from(raw).ok().and_then(Scope::from_raw)
}

/// What no rule is about.
fn note(sentence: String) -> FindingRow {
    FindingRow { level: FindingRow::NOTE.to_owned(), sentence, count: 1, ..FindingRow::default() }
}
