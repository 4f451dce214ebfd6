#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use alloc_core::Scope;
use vk_report::report::{ByScope, ContextRow, Counts, FindingRow, Leftover, Phase, PhaseStart, Sample, Sampler};

const UNNAMED_PHASE: &str = "(no phase)";
const UNNAMED_OWNER: &str = "requests without an owner";

/// A trace may have as many phases as owners, so the end of a phase visits no account.
pub(super) struct TraceAccounts {
    /// The first one is of requests without an owner; then in the order of declaration.
    accounts: Vec<Account>,
    places: HashMap<u64, usize>,
    blocks: HashMap<u64, CountedBlock>,
    all: Counts,
    peak_bytes: u64,
    phase_peak: u64,
    commands: u64,
    pub(super) phases: Vec<Phase>,
    running: Option<PhaseStart>,
    timeline: Sampler,
    line: u64,
    /// Live bytes at the end of the phase that ended with the most, and its name.
    fullest: Option<(u64, String)>,
    /// How often that changed.
    fullest_number: u64,
    /// Blocks with more bytes than can be had, and the line of the first.
    impossible: (u64, u64),
    /// Declarations of an owner as another kind than before, and the line of the first.
    redeclared: (u64, u64),
}

#[derive(Default)]
struct Account {
    name: String,
    counts: Counts,
    peak_bytes: u64,
    /// What was live at the `full_number`th maximum; what is live now if a later maximum came.
    full: ByScope,
    full_number: u64,
}

#[derive(Clone, Copy)]
pub(super) struct CountedBlock {
    account: usize,
    scope: Option<Scope>,
    requested: u64,
    /// The requested bytes; 0 if no address space has so many.
    bytes: u64,
}

impl Default for TraceAccounts {
    fn default() -> Self {
        let unnamed = Account { name: UNNAMED_OWNER.to_owned(), ..Account::default() };
        Self {
            accounts: vec![unnamed],
            places: HashMap::new(),
            blocks: HashMap::new(),
            all: Counts::default(),
            peak_bytes: 0,
            phase_peak: 0,
            commands: 0,
            phases: Vec::new(),
            running: None,
            timeline: Sampler::default(),
            line: 0,
            fullest: None,
            fullest_number: 0,
            impossible: (0, 0),
            redeclared: (0, 0),
        }
    }
}

impl TraceAccounts {
    /// An owner that is declared again stays with its account.
    pub(super) fn declare(&mut self, owner: u64, kind: &str, line: u64) {
        if self.places.contains_key(&owner) {
            if self.name(owner) != kind {
                count(&mut self.redeclared, line);
            }
            return;
        }
        self.places.insert(owner, self.accounts.len());
        self.accounts.push(Account { name: kind.to_owned(), full_number: self.fullest_number, ..Account::default() });
    }

    pub(super) fn name(&self, owner: u64) -> &str {
        self.accounts.get(self.place(owner)).map_or(UNNAMED_OWNER, |account| &account.name)
    }

    pub(super) fn begin_command(&mut self) {
        self.commands = self.commands.saturating_add(1);
    }

    pub(super) fn begin_phase(&mut self, name: &str) {
        self.phase_peak = self.all.live_bytes.sum();
        self.running = Some(PhaseStart { name: name.to_owned(), commands: self.commands, counts: self.all });
    }

    /// Returns whether more is live than at the end of every phase before.
    pub(super) fn end_phase(&mut self) -> Option<bool> {
        let start = self.running.take()?;
        self.timeline.end_phase(self.sample());
        let name = start.name.clone();
        let peak = (self.phase_peak, 0);
        self.phases.push(start.end(self.commands, &self.all, peak));
        let live = self.all.live_bytes.sum();
        let is_fullest = self.fullest.as_ref().is_none_or(|(most, _)| live > *most);
        if is_fullest {
            self.fullest = Some((live, name));
            self.fullest_number += 1;
        }
        Some(is_fullest)
    }

    /// What comes before the first phase has a phase of its own.
    pub(super) fn begin_line(&mut self, line: u64) {
        self.line = line;
        if self.running.is_none() {
            self.begin_phase(UNNAMED_PHASE);
        }
    }

    pub(super) fn end_line(&mut self, line: u64) {
        self.line = line;
        if self.running.is_some() {
            self.timeline.add(self.sample());
        }
    }

    /// If another block has the number, the trace does not say where that was freed.
    pub(super) fn allocate(&mut self, block: u64, owner: u64, scope: Option<Scope>, size: u64) {
        if let Some(former) = self.blocks.remove(&block) {
            self.free(former);
        }
        let held = CountedBlock { account: self.place(owner), scope, requested: size, bytes: self.countable(size) };
        self.change(held, |counts, scope| {
            counts.blocks = plus(counts.blocks, scope, 1);
            counts.bytes = plus(counts.bytes, scope, held.bytes);
            counts.live_blocks = plus(counts.live_blocks, scope, 1);
            counts.live_bytes = plus(counts.live_bytes, scope, held.bytes);
        });
        self.blocks.insert(block, held);
    }

    /// The block loses its number, and is counted until [`free`](Self::free) or [`resize`](Self::resize).
    pub(super) fn remove(&mut self, block: u64) -> Option<CountedBlock> {
        self.blocks.remove(&block)
    }

    pub(super) fn has(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    /// The block has its number again, which another one may have had meanwhile.
    pub(super) fn put_back(&mut self, block: u64, held: CountedBlock) {
        if let Some(former) = self.blocks.insert(block, held) {
            self.free(former);
        }
    }

    pub(super) fn free(&mut self, held: CountedBlock) {
        self.change(held, |counts, scope| {
            counts.live_blocks = minus(counts.live_blocks, scope, 1);
            counts.live_bytes = minus(counts.live_bytes, scope, held.bytes);
        });
    }

    /// The block has this number and size now. A block that grows adds the difference.
    pub(super) fn resize(&mut self, block: u64, held: CountedBlock, size: u64) {
        let bytes = self.countable(size);
        self.change(held, |counts, scope| {
            let grown = bytes.saturating_sub(held.bytes);
            counts.bytes = plus(counts.bytes, scope, grown);
            counts.live_bytes = minus(counts.live_bytes, scope, held.bytes);
            counts.live_bytes = plus(counts.live_bytes, scope, bytes);
        });
        let resized = CountedBlock { requested: size, bytes, ..held };
        self.put_back(block, resized);
    }

    pub(super) fn rows(&self) -> (Vec<ContextRow>, String) {
        let top = ContextRow::group("trace", 0).with_peak(Some(self.peak_bytes));
        let row = |account: &Account| {
            let live_by_scope = account.live_when_fullest(self.fullest_number);
            ContextRow {
                name: account.name.clone(),
                depth: 1,
                group: false,
                live_bytes: live_by_scope.sum(),
                live_by_scope,
                peak_bytes: account.peak_bytes,
                peak_slack: 0,
                total_blocks: account.counts.blocks.sum(),
                total_bytes: account.counts.bytes.sum(),
            }
        };
        let mut rows: Vec<_> = std::iter::once(top).chain(self.accounts.iter().map(row)).collect();
        ContextRow::sum_groups(&mut rows);
        let fullest = self.fullest.as_ref();
        (rows, fullest.map(|(_, phase)| phase.clone()).unwrap_or_default())
    }

    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    pub(super) fn timeline(&self) -> Vec<Sample> {
        self.timeline.samples()
    }

    pub(super) fn leftovers(&self) -> Vec<Leftover> {
        let mut leftovers: BTreeMap<usize, Leftover> = BTreeMap::new();
        for held in self.blocks.values() {
            let left = leftovers.entry(held.account).or_default();
            left.blocks += 1;
            left.bytes = left.bytes.saturating_add(held.requested);
            if let Some(scope) = held.scope {
                left.by_scope = plus(left.by_scope, scope, held.requested);
            }
        }
        let named = |(place, left): (usize, Leftover)| Leftover {
            context: self.accounts.get(place).map_or(String::new(), |account| account.name.clone()),
            ..left
        };
        leftovers.into_iter().map(named).collect()
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = FindingRow> {
        let odd = [
            (self.impossible, "sizes are more than can be had, and count as 0 bytes"),
            (self.redeclared, "owners are declared again as another kind, and stay with their first account"),
        ];
        let odd = odd.into_iter().filter(|((count, _), _)| *count > 0);
        odd.map(|((count, line), what)| FindingRow {
            level: FindingRow::NOTE.to_owned(),
            sentence: format!("{count} of the {what}; first in line {line}"),
            count,
            first_serial: line,
            ..FindingRow::default()
        })
    }

    fn place(&self, owner: u64) -> usize {
        self.places.get(&owner).copied().unwrap_or(0)
    }

    fn countable(&mut self, size: u64) -> u64 {
        let live = self.all.live_bytes.sum();
        if isize::try_from(size).is_ok() && live.checked_add(size).is_some() {
            return size;
        }
        count(&mut self.impossible, self.line);
        0
    }

    /// A block of no scope is in neither its account nor the sum of all.
    fn change(&mut self, held: CountedBlock, change: impl Fn(&mut Counts, Scope)) {
        let (Some(account), Some(scope)) = (self.accounts.get_mut(held.account), held.scope) else {
            return;
        };
        account.full = account.live_when_fullest(self.fullest_number);
        account.full_number = self.fullest_number;
        change(&mut account.counts, scope);
        account.peak_bytes = account.peak_bytes.max(account.counts.live_bytes.sum());
        change(&mut self.all, scope);
        let live = self.all.live_bytes.sum();
        self.peak_bytes = self.peak_bytes.max(live);
        self.phase_peak = self.phase_peak.max(live);
    }

    fn sample(&self) -> Sample {
        Sample { at: self.line, phase: self.phases.len(), live_by_scope: self.all.live_bytes }
    }
}

impl Account {
    fn live_when_fullest(&self, fullest: u64) -> ByScope {
        if self.full_number == fullest { self.full } else { self.counts.live_bytes }
    }
}

/// The first line is kept.
fn count((number, first): &mut (u64, u64), line: u64) {
    if *number == 0 {
        *first = line;
    }
    *number = number.saturating_add(1);
}

fn plus(sum: ByScope, scope: Scope, more: u64) -> ByScope {
    sum.with(scope, |sum| sum.saturating_add(more))
}

fn minus(sum: ByScope, scope: Scope, less: u64) -> ByScope {
    sum.with(scope, |sum| sum.saturating_sub(less))
}
