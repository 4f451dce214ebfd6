//! Findings while they are being added up: one row for what is the same but for its size and its place in time.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::kind::FindingKind;
use super::table::TableEntry;
use crate::command::OwnerId;

/// An observation, or many that were alike.
#[derive(Clone, Copy)]
pub(crate) struct FindingRow<'t> {
    pub(crate) kind: FindingKind,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) owner_kind: &'t str,
    pub(crate) command: &'t str,
    pub(crate) against: &'t str,
    pub(crate) scope: Option<Scope>,
    /// The thread, where it matters whether it will issue a command later; else 0.
    pub(crate) thread: u64,
    /// All rows of that thread lie at one place, and not each where there may be room for it: a log may have very many threads, each of
    /// which issues a command at some time.
    pub(crate) together: bool,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// The size of each, while all are the same.
    pub(crate) size: Option<u64>,
    pub(crate) first_serial: u64,
    pub(crate) freed_later: u64,
    pub(crate) freed_in: &'t str,
    /// How many came while another thread was in a command.
    pub(crate) during_commands: u64,
    /// The thread that each came on, outside of any command, while all came on one.
    pub(crate) on_thread: Option<u64>,
    /// The alignment each block was made with and the one asked for, while all are the same.
    pub(crate) alignments: Option<(u64, u64)>,
    /// The owner of what was passed at the end of an object, while all are the same.
    pub(crate) passed: Option<OwnerId>,
    /// The module that called, while all are the same.
    pub(crate) module: &'t str,
}

impl<'t> FindingRow<'t> {
    /// One observation.
    pub(crate) const fn one(kind: FindingKind) -> Self {
        Self {
            kind,
            owner: None,
            owner_kind: "",
            command: "",
            against: "",
            scope: None,
            thread: 0,
            together: false,
            count: 1,
            bytes: 0,
            size: Some(0),
            first_serial: 0,
            freed_later: 0,
            freed_in: "",
            during_commands: 0,
            on_thread: None,
            alignments: None,
            passed: None,
            module: "",
        }
    }

    pub(crate) const fn of_size(self, size: u64) -> Self {
        Self {
            bytes: size,
            size: Some(size),
            ..self
        }
    }

    /// Those of `more`, too.
    pub(crate) fn add(&mut self, more: &FindingRow<'t>) {
        if self.count == 0 {
            *self = *more;
            return;
        }
        self.size = self.size.filter(|size| more.size == Some(*size));
        self.first_serial = self.first_serial.min(more.first_serial);
        self.count = self.count.saturating_add(more.count);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.during_commands = self.during_commands.saturating_add(more.during_commands);
        self.on_thread = common(self.on_thread, more.on_thread);
        self.alignments = common(self.alignments, more.alignments);
        self.passed = common(self.passed, more.passed);
        if self.module != more.module {
            self.module = "";
        }
    }
}

impl FindingRow<'_> {
    /// Where rows of a thread lie [together](FindingRow::together).
    pub(crate) const fn key_of_thread(thread: u64) -> u64 {
        !thread
    }

    /// Where rows of blocks that were left lie, against whatever: they are looked for when such a block comes back.
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

/// What both say, if it is the same.
pub(super) fn common<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.filter(|one| other.as_ref() == Some(one))
}

impl TableEntry for FindingRow<'_> {
    fn key(&self) -> u64 {
        let owner = self.owner.map_or(0, OwnerId::get);
        match self.kind {
            _ if self.together => Self::key_of_thread(self.thread),
            FindingKind::CommandBlockLeft
            | FindingKind::LiveAfterDestroy
            | FindingKind::LiveAtEnd => {
                Self::key_of_left(self.kind, owner, self.command, self.scope)
            }
            _ => {
                let mut key = Fnv(Self::key_of_left(
                    self.kind,
                    owner,
                    self.command,
                    self.scope,
                ));
                key.bytes(&self.thread.to_le_bytes());
                key.bytes(self.owner_kind.as_bytes());
                key.bytes(self.against.as_bytes());
                key.0
            }
        }
    }

    fn same(&self, other: &Self) -> bool {
        (self.kind, self.owner, self.scope, self.thread)
            == (other.kind, other.owner, other.scope, other.thread)
            && (self.owner_kind, self.command, self.against)
                == (other.owner_kind, other.command, other.against)
    }

    fn gone(&self) -> bool {
        self.count == 0
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
