//! A context for each owner that a trace declares.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::rc::Rc;

use alloc_core::{Budget, Context, ContextOptions, HostError, Scope, Snapshot, SnapshotNode};
use vk_callbacks::replay::{ReplayFinding, ReplayTarget, Totals};

use super::sink::{Requested, Sink, Tally};
use vk_report::report::{
    ByScope, ContextRow, Counts, FindingRow, Leftover, Phase, PhaseStart, Sample, Sampler,
};

/// The most findings that are listed; the rest is counted.
const LISTED: usize = 100;
/// No limit in practice: the high-water mark is the exact peak of all scopes together.
const EXACT: Budget = Budget::exact(u64::MAX - 1);

/// Contexts by owner, and the replay's results.
///
/// A trace may have as many phases as owners, so the end of a phase visits only accounts with requests since the last one.
pub(super) struct OwnerContexts {
    accounts: BTreeMap<u64, Account>,
    unnamed: Account,
    /// The accounts with requests since the last visit.
    requested: Rc<Requested>,
    /// All accounts at the last visit.
    sum: Counts,
    top: Context,
    phases: Vec<Phase>,
    running: Option<PhaseStart>,
    timeline: Sampler,
    line: u64,
    /// The phase that ended with the most live bytes, and these bytes.
    fullest: Option<(u64, String)>,
    /// How often that changed.
    fullest_number: u64,
    findings: Vec<FindingRow>,
    unlisted: u64,
    leftovers: BTreeMap<u64, Leftover>,
}

/// One owner's account.
struct Account {
    context: Context,
    tally: Rc<Tally>,
    /// Its state at the last visit.
    last: Counts,
    /// What was live at the `full_number`th maximum; `last` if a later maximum came.
    full: ByScope,
    full_number: u64,
}

impl OwnerContexts {
    pub(super) fn new(top: Context) -> Result<Self, HostError> {
        let requested = Rc::default();
        let unnamed =
            top.child_with(ContextOptions::new("requests without an owner").budget(EXACT))?;
        Ok(Self {
            unnamed: Account::new(unnamed, None, &requested),
            accounts: BTreeMap::new(),
            requested,
            sum: Counts::default(),
            top,
            phases: Vec::new(),
            running: None,
            timeline: Sampler::default(),
            line: 0,
            fullest: None,
            fullest_number: 0,
            findings: Vec::new(),
            unlisted: 0,
            leftovers: BTreeMap::new(),
        })
    }

    /// The contexts as rows, and the phase of their maximum. `peak_bytes` is the peak of all together.
    pub(super) fn rows(
        &self,
        records: &Context,
        peak_bytes: u64,
    ) -> Result<(Vec<ContextRow>, String), HostError> {
        let last = Snapshot::capture(&self.top, records)?;
        let accounts: HashMap<_, _> = self
            .accounts()
            .map(|account| (account.context.id(), account))
            .collect();
        let row = |node: &SnapshotNode| {
            let name = last.label(node).unwrap_or(node.name);
            if node.depth == 0 {
                return ContextRow::group(name, 0).with_peak(Some(peak_bytes));
            }
            let account = accounts.get(&node.id);
            let then = account
                .map(|account| account.live_when_fullest(self.fullest_number))
                .unwrap_or_default();
            ContextRow::new(name, node.depth, &node.usage, then)
                .with_peak(node.budget.map(|budget| budget.high))
                .with_blocks(account.map_or(0, |account| account.tally.empty_blocks().0.sum()))
        };
        let mut rows: Vec<_> = last.nodes().iter().map(row).collect();
        ContextRow::sum_groups(&mut rows);
        Ok((
            rows,
            self.fullest
                .as_ref()
                .map(|(_, phase)| phase.clone())
                .unwrap_or_default(),
        ))
    }

    pub(super) fn phases(&self) -> Vec<Phase> {
        self.phases.clone()
    }

    /// How many phases ended, and how many of them set a new maximum.
    pub(super) fn ended_phases(&self) -> (usize, u64) {
        (self.phases.len(), self.fullest_number)
    }

    /// Visits what is live after a line.
    pub(super) fn look(&mut self, line: u64, totals: &Totals) {
        self.line = line;
        self.timeline.add(self.sample(totals));
    }

    pub(super) fn timeline(&self) -> Vec<Sample> {
        self.timeline.samples()
    }

    fn sample(&self, totals: &Totals) -> Sample {
        let live_by_scope = ByScope::of(|scope| totals.scope(scope).live_bytes);
        Sample {
            at: self.line,
            phase: self.phases.len(),
            live_by_scope,
        }
    }

    pub(super) fn leftovers(&self) -> Vec<Leftover> {
        self.leftovers.values().cloned().collect()
    }

    pub(super) fn findings(&self) -> Vec<FindingRow> {
        let mut all = self.findings.clone();
        if self.unlisted > 0 {
            all.push(FindingRow {
                count: self.unlisted,
                ..note(format!("and {} findings more", self.unlisted))
            });
        }
        all
    }

    fn list(&mut self, row: FindingRow) {
        if self.findings.len() < LISTED {
            self.findings.push(row);
        } else {
            self.unlisted += 1;
        }
    }

    /// Findings that need the replay; the judge has the others.
    fn row(line: u64, finding: ReplayFinding) -> Option<FindingRow> {
        let own = matches!(
            finding,
            ReplayFinding::ImpossibleSize { .. }
                | ReplayFinding::SinkRefused { .. }
                | ReplayFinding::Lost { .. }
        );
        own.then(|| FindingRow {
            first_serial: line,
            ..note(format!("line {line}: {finding}"))
        })
    }

    /// What all owners were given.
    fn counts(&mut self) -> Counts {
        for owner in self.requested.drain() {
            let account = owner.map_or(Some(&mut self.unnamed), |owner| {
                self.accounts.get_mut(&owner)
            });
            if let Some(account) = account {
                let (before, now) = account.look(self.fullest_number);
                self.sum = self.sum.changed(&before, &now);
            }
        }
        self.sum
    }

    fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values().chain([&self.unnamed])
    }

    fn account(&self, owner: u64) -> &Account {
        self.accounts.get(&owner).unwrap_or(&self.unnamed)
    }
}

impl Account {
    fn new(context: Context, owner: Option<u64>, requested: &Rc<Requested>) -> Self {
        let tally = Rc::new(Tally::new(owner, Rc::clone(requested)));
        Self {
            context,
            tally,
            last: Counts::default(),
            full: ByScope::default(),
            full_number: 0,
        }
    }

    /// What it held at the last visit and holds now. Keeps what it held at the `fullest`th maximum.
    fn look(&mut self, fullest: u64) -> (Counts, Counts) {
        self.full = self.live_when_fullest(fullest);
        self.full_number = fullest;
        self.tally.looked_at();
        let mut now = Counts::from(&self.context.usage());
        let (taken, live) = self.tally.empty_blocks();
        now.blocks.add(&taken);
        now.live_blocks.add(&live);
        (mem::replace(&mut self.last, now), now)
    }

    /// What was live at the `fullest`th and last maximum.
    fn live_when_fullest(&self, fullest: u64) -> ByScope {
        if self.full_number == fullest {
            self.full
        } else {
            self.last.live_bytes
        }
    }

    fn name(&self) -> &str {
        self.context.label().unwrap_or(self.context.name())
    }
}

impl ReplayTarget for OwnerContexts {
    type Sink = Sink;

    fn sink(&mut self, owner: u64) -> Sink {
        let account = self.account(owner);
        Sink::new(account.context.handle(), Rc::clone(&account.tally))
    }

    fn owner(&mut self, owner: u64, _: u64, kind: &str) {
        if let Some(first) = self.accounts.get(&owner) {
            let first = first.name();
            let sentence = format!(
                "owner {owner} was declared again, as {kind}: it stays with the account of {first}"
            );
            self.list(note(sentence));
            return;
        }
        // Owners are siblings: as a child, a context's record would count among its parent's requests.
        match self
            .top
            .child_with(ContextOptions::new("owner").label(kind).budget(EXACT))
        {
            Ok(context) => {
                self.accounts
                    .insert(owner, Account::new(context, Some(owner), &self.requested));
            }
            Err(error) => self.list(note(format!("{kind} has no account of its own: {error}"))),
        }
    }

    fn phase_begin(&mut self, phase: &str, totals: &Totals) {
        let counts = self.counts();
        self.running = Some(PhaseStart {
            name: phase.to_owned(),
            commands: totals.commands,
            counts,
        });
    }

    fn phase_end(&mut self, name: &str, totals: &Totals) {
        let Some(start) = self.running.take() else {
            return;
        };
        self.timeline.end_phase(self.sample(totals));
        let counts = self.counts();
        self.phases
            .push(start.end(totals.commands, &counts, (totals.phase_peak_bytes, 0)));
        let live = totals.all().live_bytes;
        if self.fullest.as_ref().is_none_or(|(most, _)| live > *most) {
            self.fullest = Some((live, name.to_owned()));
            self.fullest_number += 1;
        }
    }

    fn finding(&mut self, line: u64, finding: ReplayFinding) {
        if let ReplayFinding::StillLive { owner, asked, .. } = finding {
            let name = self.account(owner).name().to_owned();
            let left = self.leftovers.entry(owner).or_insert_with(|| Leftover {
                context: name,
                ..Leftover::default()
            });
            left.blocks += 1;
            left.bytes = left.bytes.saturating_add(asked.size);
            let asked_scope = scope(asked.scope);
            left.by_scope.add(&ByScope::of(|scope| {
                if Some(scope) == asked_scope {
                    asked.size
                } else {
                    0
                }
            }));
        }
        if let Some(row) = Self::row(line, finding) {
            self.list(row);
        }
    }
}

fn scope(raw: i32) -> Option<Scope> {
    u32::try_from(raw).ok().and_then(Scope::from_raw)
}

/// A finding without a rule.
fn note(sentence: String) -> FindingRow {
    FindingRow {
        level: FindingRow::NOTE.to_owned(),
        sentence,
        count: 1,
        ..FindingRow::default()
    }
}
