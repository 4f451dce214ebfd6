//! What a run has to tell, as data; `text` shows it to people, serde to programs.

#![forbid(unsafe_code)]

mod text;

use alloc_core::{Scope, Usage};
use serde::Serialize;

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

/// One part of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Commands called in it.
    pub commands: u64,
    /// Blocks taken in it.
    pub allocations: u64,
    /// Bytes taken in it.
    pub bytes: u64,
    /// Bytes live at its end.
    pub live_bytes: u64,
    /// The same, scope by scope.
    pub live_by_scope: ScopeBytes,
    /// The most bytes live at once in it.
    pub peak_bytes: u64,
    /// How far `peak_bytes` may be off.
    pub peak_slack: u64,
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
    pub live_by_scope: ScopeBytes,
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
    pub by_scope: ScopeBytes,
}

/// Bytes, scope by scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScopeBytes {
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
}

impl Phase {
    /// A phase that begins: what was counted before is kept until its end, when the difference is taken.
    pub(crate) fn begin(name: &str, commands: u64, blocks: u64, bytes: u64) -> Self {
        Self { name: name.to_owned(), commands, allocations: blocks, bytes, ..Self::default() }
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
            live_by_scope: ScopeBytes::of(|scope| then.scope(scope).live_bytes),
            peak_bytes: total.peak_bytes,
            peak_slack: total.peak_slack,
            total_blocks: total.total_blocks,
            total_bytes: total.total_bytes,
        }
    }

    /// A row for a context that only groups others.
    pub(crate) fn group(name: &str, depth: usize) -> Self {
        Self { name: name.to_owned(), depth, group: true, ..Self::default() }
    }
}

impl ScopeBytes {
    /// Asks `bytes` for each scope.
    pub fn of(bytes: impl Fn(Scope) -> u64) -> Self {
        Self {
            command: bytes(Scope::Command),
            object: bytes(Scope::Object),
            cache: bytes(Scope::Cache),
            device: bytes(Scope::Device),
            instance: bytes(Scope::Instance),
        }
    }

    /// The bytes of one scope.
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

    pub(crate) fn add(&mut self, more: &Self) {
        *self = Self::of(|scope| self.get(scope) + more.get(scope));
    }
}
