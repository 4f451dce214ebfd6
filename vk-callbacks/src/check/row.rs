//! A row of the engine's table of findings.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::finding::CheckFinding;
use super::kind::FindingKind;
use super::table::TableEntry;
use crate::command::OwnerId;

/// A finding, and the thread that it depends on.
#[derive(Clone, Copy)]
pub(crate) struct FindingRow<'t> {
    pub(crate) finding: CheckFinding<'t>,
    /// The thread, if a later command of that thread changes the finding; else 0.
    pub(crate) thread: u64,
    /// Whether all rows of the thread have the same key. A log may have very many threads; the first command of each looks for its rows.
    pub(crate) together: bool,
}

impl<'t> From<CheckFinding<'t>> for FindingRow<'t> {
    fn from(finding: CheckFinding<'t>) -> Self {
        Self {
            finding,
            thread: 0,
            together: false,
        }
    }
}

impl FindingRow<'_> {
    pub(crate) fn add(&mut self, more: &Self) {
        if self.gone() {
            *self = *more;
        } else {
            self.finding.add(&more.finding);
        }
    }

    /// The key of rows whose thread's rows lie [together](FindingRow::together).
    pub(crate) const fn key_of_thread(thread: u64) -> u64 {
        !thread
    }

    /// The key of findings about leftover blocks, whatever they are against: a later free of such a block looks for its row.
    pub(crate) fn key_of_left(
        kind: FindingKind,
        owner: u32,
        command: &str,
        scope: Option<Scope>,
    ) -> u64 {
        let mut key = Fnv(0xcbf2_9ce4_8422_2325);
        key.bytes(&[kind as u8, scope.map_or(7, |scope| scope as u8)]);
        key.bytes(&owner.to_le_bytes());
        key.bytes(command.as_bytes());
        key.0
    }
}

impl TableEntry for FindingRow<'_> {
    fn key(&self) -> u64 {
        use FindingKind::{CommandBlockLeft, LiveAfterDestroy, LiveAtEnd};
        if self.together {
            return Self::key_of_thread(self.thread);
        }
        let found = &self.finding;
        let owner = found.owner.map_or(0, OwnerId::get);
        let mut key = Fnv(Self::key_of_left(
            found.kind,
            owner,
            found.command,
            found.scope,
        ));
        if !matches!(found.kind, CommandBlockLeft | LiveAfterDestroy | LiveAtEnd) {
            key.bytes(&self.thread.to_le_bytes());
            key.bytes(found.owner_kind.as_bytes());
            key.bytes(found.against.as_bytes());
        }
        key.0
    }

    fn same(&self, other: &Self) -> bool {
        self.thread == other.thread && self.finding.identity() == other.finding.identity()
    }

    fn gone(&self) -> bool {
        self.finding.count == 0
    }
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
