//! What a run has to tell, as data; `text` shows it to people, serde to programs.

#![forbid(unsafe_code)]

mod phase;
mod text;

use alloc_core::{Scope, Usage};
use serde::Serialize;

use crate::accounts::Accounted;
use crate::workload::{self, ObjectKind};
pub use phase::{Counts, Phase, PhaseStart};

/// The result of one run or one replay. `--json` writes it as it is.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `steward report 1`.
    pub format: &'static str,
    /// Where the requests came from.
    pub source: Source,
    /// The phases in the order they ran.
    pub phases: Vec<Phase>,
    /// The contexts, parents before children.
    pub contexts: Vec<ContextRow>,
    /// The phase at whose end the contexts held most; their `live` columns are of that moment.
    pub fullest_phase: String,
    /// The most bytes live at once.
    pub peak_bytes: u64,
    /// How far `peak_bytes` may be off.
    pub peak_slack: u64,
    /// The phase in which the most was live.
    pub peak_phase: String,
    /// What was not given back.
    pub leftovers: Vec<Leftover>,
    /// What was wrong, in sentences.
    pub findings: Vec<String>,
    /// What the source cannot tell.
    pub limits: Vec<String>,
}

/// Where the requests came from.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Source {
    /// A driver that ran the workload.
    Driver {
        /// The driver's name.
        name: String,
        /// The driver's own words on its version.
        version: String,
        /// The device's name.
        device: String,
        /// The seed of the workload.
        seed: u32,
        /// Rounds that ran.
        rounds: u32,
        /// Commands called.
        commands: u64,
        /// Values that were read back and compared.
        comparisons: u64,
        /// Kinds of object that were made, with how many.
        objects: Vec<(&'static str, u32)>,
    },
    /// A recorded trace.
    Trace {
        /// The file, or the name of a bundled one.
        file: String,
        /// The driver that was recorded.
        driver: String,
        /// Why no driver was run instead, when one was looked for.
        no_driver: Option<String>,
        /// Lines read.
        lines: u64,
    },
}

/// One context.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ContextRow {
    /// Its name.
    pub name: String,
    /// How far below the top.
    pub depth: usize,
    /// True for one that only groups others.
    pub group: bool,
    /// Bytes live at the fullest moment.
    pub live_bytes: u64,
    /// The same, scope by scope.
    pub live_by_scope: ByScope,
    /// The most bytes live at once in it, at any time.
    pub peak_bytes: u64,
    /// How far `peak_bytes` may be off.
    pub peak_slack: u64,
    /// Blocks ever taken.
    pub total_blocks: u64,
    /// Bytes ever taken.
    pub total_bytes: u64,
}

/// What one context was still owed at the end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Leftover {
    /// The context's name.
    pub context: String,
    /// Blocks.
    pub blocks: u64,
    /// Bytes.
    pub bytes: u64,
    /// The same, scope by scope.
    pub by_scope: ByScope,
}

/// A number for each scope: bytes, or blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByScope {
    /// `VK_SYSTEM_ALLOCATION_SCOPE_COMMAND`.
    pub command: u64,
    /// `VK_SYSTEM_ALLOCATION_SCOPE_OBJECT`.
    pub object: u64,
    /// `VK_SYSTEM_ALLOCATION_SCOPE_CACHE`.
    pub cache: u64,
    /// `VK_SYSTEM_ALLOCATION_SCOPE_DEVICE`.
    pub device: u64,
    /// `VK_SYSTEM_ALLOCATION_SCOPE_INSTANCE`.
    pub instance: u64,
}

impl Report {
    /// The name of this form of report, in its `format` field.
    pub const FORMAT: &'static str = "steward report 1";

    /// The report of a live run.
    #[must_use]
    pub fn of_run(ran: workload::Report, seed: u32, done: Accounted) -> Self {
        let objects = ran.exercised().map(|kind: ObjectKind| (kind.name(), ran.made(kind))).collect();
        Self {
            format: Self::FORMAT,
            source: Source::Driver {
                objects,
                name: ran.driver_name,
                version: ran.driver_version,
                device: ran.device_name,
                seed,
                rounds: ran.rounds,
                commands: ran.commands,
                comparisons: ran.comparisons,
            },
            peak_bytes: done.phases.iter().map(|phase| phase.peak_bytes).max().unwrap_or(0),
            peak_slack: done.phases.iter().map(|phase| phase.peak_slack).max().unwrap_or(0),
            peak_phase: phase::fullest(&done.phases),
            phases: done.phases,
            contexts: done.contexts,
            fullest_phase: done.fullest_phase,
            leftovers: done.leftovers,
            findings: done.notes,
            limits: Vec::new(),
        }
    }

    /// The report of a replay, whose requests have one exact peak.
    #[must_use]
    pub(crate) fn of_trace(source: Source, phases: Vec<Phase>, peak_bytes: u64) -> Self {
        Self {
            format: Self::FORMAT,
            source,
            peak_bytes,
            peak_slack: 0,
            peak_phase: phase::fullest(&phases),
            phases,
            contexts: Vec::new(),
            fullest_phase: String::new(),
            leftovers: Vec::new(),
            findings: Vec::new(),
            limits: Vec::new(),
        }
    }
}

impl ContextRow {
    /// A row from the account at the end, and the one at the fullest moment.
    pub(crate) fn new(name: &str, depth: usize, end: &Usage, fullest: Option<Usage>) -> Self {
        let (total, then) = (end.total(), fullest.unwrap_or_default());
        Self {
            name: name.to_owned(),
            depth,
            group: false,
            live_bytes: then.total().live_bytes,
            live_by_scope: ByScope::of(|scope| then.scope(scope).live_bytes),
            peak_bytes: total.peak_bytes,
            peak_slack: total.peak_slack,
            total_blocks: total.total_blocks,
            total_bytes: total.total_bytes,
        }
    }

    /// A row for a context that only groups others; [`ContextRow::sum_groups`] fills it.
    pub(crate) fn group(name: &str, depth: usize) -> Self {
        Self { name: name.to_owned(), depth, group: true, ..Self::default() }
    }

    /// With the exact peak of all scopes together, where something knows it.
    pub(crate) fn with_peak(mut self, exact: Option<u64>) -> Self {
        if let Some(bytes) = exact {
            (self.peak_bytes, self.peak_slack) = (bytes, 0);
        }
        self
    }

    /// With blocks that the account does not know.
    pub(crate) fn with_blocks(mut self, more: u64) -> Self {
        self.total_blocks = self.total_blocks.saturating_add(more);
        self
    }

    /// Puts into the row of each group the sums of what is below it; its peak is no sum.
    pub(crate) fn sum_groups(rows: &mut [Self]) {
        for index in 0..rows.len() {
            let Some((row, below)) = rows.get_mut(index..).and_then(<[Self]>::split_first_mut) else { return };
            let below = below.iter().take_while(|part| part.depth > row.depth);
            for part in below.filter(|part| row.group && !part.group) {
                row.live_bytes = row.live_bytes.saturating_add(part.live_bytes);
                row.live_by_scope.add(&part.live_by_scope);
                row.total_blocks = row.total_blocks.saturating_add(part.total_blocks);
                row.total_bytes = row.total_bytes.saturating_add(part.total_bytes);
            }
        }
    }
}

impl ByScope {
    /// Asks `number` for each scope.
    pub fn of(number: impl Fn(Scope) -> u64) -> Self {
        Self {
            command: number(Scope::Command),
            object: number(Scope::Object),
            cache: number(Scope::Cache),
            device: number(Scope::Device),
            instance: number(Scope::Instance),
        }
    }

    /// The number of one scope.
    #[must_use]
    pub const fn get(&self, scope: Scope) -> u64 {
        match scope {
            Scope::Command => self.command,
            Scope::Object => self.object,
            Scope::Cache => self.cache,
            Scope::Device => self.device,
            Scope::Instance => self.instance,
        }
    }

    /// This with one number changed.
    pub(crate) fn with(mut self, scope: Scope, change: impl FnOnce(u64) -> u64) -> Self {
        let number = match scope {
            Scope::Command => &mut self.command,
            Scope::Object => &mut self.object,
            Scope::Cache => &mut self.cache,
            Scope::Device => &mut self.device,
            Scope::Instance => &mut self.instance,
        };
        *number = change(*number);
        self
    }

    /// The numbers of all scopes together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        Scope::ALL.into_iter().fold(0, |sum, scope| sum.saturating_add(self.get(scope)))
    }

    pub(crate) fn add(&mut self, more: &Self) {
        *self = Self::of(|scope| self.get(scope).saturating_add(more.get(scope)));
    }
}
