mod findings;

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use alloc_core::{HostError, Scope};

use super::finding::{CheckFinding, FindingKind};
use super::owner::{CallbackOwner, CheckOptions};
use super::owner_list::OwnerList;
use super::records::{BlockRecord, FindingRow, HandleRecord, ReportedAs};
use super::table::{Cursor, ShardedTable, TableEntry as _};
use crate::command::{Bracket, BracketCoverage, OwnerId, thread};
use crate::pinned::Memory;

/// Rows of a shard. A hash table has room for seven eighths of a power of two.
const MAX_ROWS: usize = 896;
const INITIAL_ROWS: usize = 7;
const INITIAL_OWNERS: usize = 14;

pub(crate) struct Engine<'h, 't> {
    memory: Memory<'h>,
    options: CheckOptions,
    /// The weakest coverage that any bracket declared.
    coverage: AtomicU8,
    pub(crate) blocks: ShardedTable<'h, BlockRecord<'t>>,
    pub(crate) handles: ShardedTable<'h, HandleRecord<'t>>,
    rows: ShardedTable<'h, FindingRow<'t>>,
    rows_tight: AtomicBool,
    /// Rows of findings about frees use existing room: a free allocates nothing.
    rows_reserved: bool,
    owners: OwnerList<'h, 't>,
    /// Observations that had no room, or that lost events made doubtful.
    lost: AtomicU64,
    /// Events were lost: only what one event proves is a finding.
    lossy: AtomicBool,
    handles_lost: AtomicBool,
    /// Live handles: in the low half those below a device, in the high half those below an instance.
    below: AtomicU64,
    pub(super) moves: AtomicU32,
    /// Running commands: of a log, or of threads without a [place](crate::command::thread::Running).
    pub(super) running: AtomicU32,
    pub(super) is_notified: AtomicBool,
    /// The application says which callbacks are compatible; a log does not.
    pub(super) groups_reported: bool,
    pub(super) caller_module: Option<CallerModule>,
}

pub(crate) type CallerModule = fn() -> &'static str;

#[derive(Clone, Copy)]
pub(crate) struct CallerContext<'a, 't> {
    pub(crate) bracket: Option<&'a Bracket<'t>>,
    pub(crate) thread: u64,
    pub(crate) issued: bool,
    /// Brackets are available; without them, a missing bracket proves nothing.
    pub(crate) known: bool,
    pub(crate) at: u64,
}

impl<'t> CallerContext<'_, 't> {
    pub(crate) const UNKNOWN_CALLER: Self = Self { bracket: None, thread: 0, issued: false, known: false, at: 0 };

    pub(crate) fn command(&self) -> &'t str {
        self.bracket.map_or("", |bracket| bracket.name)
    }

    pub(crate) fn serial(&self) -> u64 {
        self.bracket.map_or(0, |bracket| bracket.serial)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct CallbackCall<'a, 't> {
    pub(crate) caller: CallerContext<'a, 't>,
    pub(crate) owner: &'a CallbackOwner<'t>,
    /// A hash of the user data and the functions. 0 if unknown, as in a log.
    pub(crate) callbacks: u32,
}

impl<'a, 't> CallbackCall<'a, 't> {
    pub(crate) const fn unknown(owner: &'a CallbackOwner<'t>) -> Self {
        Self { caller: CallerContext::UNKNOWN_CALLER, owner, callbacks: 0 }
    }

    pub(crate) fn finding(&self, kind: FindingKind, scope: Option<Scope>) -> CheckFinding<'t> {
        CheckFinding {
            owner: self.owner.id,
            owner_kind: self.owner.kind,
            command: self.caller.command(),
            scope,
            first_serial: self.caller.at,
            ..CheckFinding::one(kind)
        }
    }

    pub(super) fn finding_of_block(&self, kind: FindingKind, block: &BlockRecord<'t>) -> CheckFinding<'t> {
        CheckFinding { command: block.command, ..self.finding(kind, block.scope()) }.of_size(block.size)
    }
}

impl<'h, 't> Engine<'h, 't> {
    /// `numbered`: blocks have numbers that are never used again, so records of freed ones can stay.
    pub(crate) fn new(memory: Memory<'h>, options: CheckOptions, numbered: bool) -> Self {
        Self {
            memory,
            options,
            coverage: AtomicU8::new(options.coverage as u8),
            blocks: ShardedTable::new(memory, numbered, usize::MAX),
            handles: ShardedTable::new(memory, false, usize::MAX),
            rows: ShardedTable::new(memory, false, MAX_ROWS),
            rows_tight: AtomicBool::new(false),
            rows_reserved: false,
            owners: OwnerList::new(memory),
            lost: AtomicU64::new(0),
            lossy: AtomicBool::new(false),
            handles_lost: AtomicBool::new(false),
            below: AtomicU64::new(0),
            moves: AtomicU32::new(0),
            running: AtomicU32::new(0),
            is_notified: AtomicBool::new(false),
            groups_reported: !numbered,
            caller_module: None,
        }
    }

    pub(crate) const fn memory(&self) -> Memory<'h> {
        self.memory
    }

    pub(crate) fn add_owner(&self, make: impl FnOnce() -> CallbackOwner<'t>) -> Result<&CallbackOwner<'t>, HostError> {
        self.owners.add(make)
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.owners.iter()
    }

    pub(crate) fn owner(&self, id: OwnerId) -> Option<&CallbackOwner<'t>> {
        self.numbered(id.get())
    }

    pub(crate) fn numbered(&self, number: u32) -> Option<&CallbackOwner<'t>> {
        self.owners.all_of_number(number).next()
    }

    pub(crate) fn may_hold_blocks(&self, number: u32) -> bool {
        self.owners.all_of_number(number).any(CallbackOwner::may_hold_blocks)
    }

    /// The oldest owner of the group, which has the sums of the group.
    pub(crate) fn first_of_group(&self, group: u64) -> Option<&CallbackOwner<'t>> {
        self.owners.first_of_group(group)
    }

    pub(crate) fn group_has_ended(&self, group: u64) -> bool {
        self.owners.all_of_group(group).all(CallbackOwner::has_ended)
    }

    pub(crate) fn declarations(&self, number: u32) -> usize {
        self.owners.all_of_number(number).count()
    }

    pub(crate) fn count_handle(&self, kind: &str) {
        let one = below(kind);
        if one != 0 {
            self.below.fetch_add(one, Ordering::AcqRel);
        }
    }

    pub(crate) fn discount_handle(&self, kind: &str) {
        let one = below(kind);
        if one != 0 {
            self.below.fetch_sub(one, Ordering::AcqRel);
        }
    }

    /// Whether an object may live that uses the parent's memory: leftover blocks may be of that object.
    pub(crate) fn has_children(&self, parent: &str) -> bool {
        let below = self.below.load(Ordering::Acquire);
        match parent {
            "VkDevice" => below & (BELOW_INSTANCE - 1) != 0,
            "VkInstance" => below >= BELOW_INSTANCE,
            _ => false,
        }
    }

    pub(crate) fn kind_of(&self, id: Option<OwnerId>) -> &'t str {
        id.and_then(|id| self.owner(id)).map_or("", |owner| owner.kind)
    }

    #[cold]
    pub(crate) fn report(&self, finding: CheckFinding<'t>) {
        self.report_row(finding.into());
    }

    #[cold]
    pub(crate) fn report_row(&self, row: FindingRow<'t>) {
        let kind = row.finding.kind;
        if self.lossy.load(Ordering::Relaxed) && !proven_by_one_event(kind)
            || self.handles_lost.load(Ordering::Relaxed) && about_handles(kind)
            || !self.put_row(row)
        {
            self.lost.fetch_add(row.finding.count, Ordering::Relaxed);
        }
    }

    /// Reserves room for findings about frees, which allocate nothing from here on.
    pub(crate) fn with_reserved_rows(mut self) -> Result<Self, HostError> {
        self.rows.reserve(INITIAL_ROWS)?;
        self.owners.reserve(INITIAL_OWNERS)?;
        self.rows_reserved = true;
        Ok(self)
    }

    fn put_row(&self, row: FindingRow<'t>) -> bool {
        let add = |there: &mut FindingRow<'t>| there.add(&row);
        let (put, roomy) = self.rows.put_within(row, add);
        if !roomy {
            self.rows_tight.store(true, Ordering::Relaxed);
        }
        let may_allocate = !self.rows_reserved || !may_come_of_a_free(row.finding.kind);
        put || may_allocate && self.rows.put(row, add).is_ok()
    }

    /// Called when a call begins that may allocate.
    #[inline]
    pub(crate) fn make_ready(&self) {
        if self.rows_tight.load(Ordering::Relaxed) && self.rows_tight.swap(false, Ordering::Relaxed) {
            self.rows.make_ready();
        }
    }

    pub(super) fn module(&self) -> &'static str {
        self.caller_module.map_or("", |name| name())
    }

    pub(crate) fn change_among(&self, key: u64, mut want: impl FnMut(&mut FindingRow<'t>) -> bool) {
        self.rows.among(key, |row| !row.gone() && want(row));
    }

    /// It is no foreign thread: its earlier calls came between commands. Its rows become one with those of other such
    /// threads.
    #[cold]
    pub(crate) fn thread_issues(&self, thread: u64) {
        let (mut cursor, mut moves) = (Cursor::default(), self.rows.moves());
        loop {
            let mut instead = None;
            let found = self.rows.next(&mut cursor, |row| {
                let between = row.finding.kind.between_commands();
                let of_thread = between.filter(|_| !row.gone() && row.thread == thread);
                if let Some(kind) = of_thread {
                    instead = Some(CheckFinding { kind, ..row.finding });
                    row.finding.count = 0;
                }
                of_thread.is_some()
            });
            // It was observed before, whatever was lost since.
            if let Some(finding) = instead
                && !self.put_row(finding.into())
            {
                self.lost.fetch_add(finding.count, Ordering::Relaxed);
            }
            // A row that needs room moves others: some may have been passed by.
            let now = self.rows.moves();
            if now != moves {
                (cursor, moves) = (Cursor::default(), now);
            } else if found.is_none() {
                return;
            }
        }
    }

    pub(crate) fn forget_commands(&self) {
        let depends = |row: &mut FindingRow<'t>| {
            if !row.gone() && row.finding.kind.between_commands().is_some() {
                row.finding.count = 0;
            }
            false
        };
        let _ = self.rows.next(&mut Cursor::default(), depends);
    }

    #[inline]
    pub(crate) fn cover(&self, coverage: BracketCoverage) {
        if self.coverage.load(Ordering::Relaxed) < coverage as u8 {
            self.coverage.fetch_max(coverage as u8, Ordering::Relaxed);
        }
    }

    pub(crate) fn some_command_runs(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0 || thread::some_thread_runs(ptr::from_ref(self).cast())
    }

    pub(crate) fn lose_events(&self, events: u64) {
        self.lossy.store(true, Ordering::Relaxed);
        self.lost.fetch_add(events, Ordering::Relaxed);
        // The running commands may have ended.
        self.running.store(0, Ordering::Relaxed);
    }

    /// Its destruction will look like that of an unknown one.
    pub(crate) fn lose_handle(&self) {
        self.handles_lost.store(true, Ordering::Relaxed);
        self.lose_one();
    }

    pub(crate) fn lose_one(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn coverage(&self) -> BracketCoverage {
        const EXCEPT_RECORDING: u8 = BracketCoverage::ExceptRecording as u8;
        match self.coverage.load(Ordering::Relaxed) {
            0 => BracketCoverage::Complete,
            EXCEPT_RECORDING => BracketCoverage::ExceptRecording,
            _ => BracketCoverage::Partial,
        }
    }

    pub(crate) fn finish(&self) {
        for owner in self.owners() {
            self.internal_at_end(FindingKind::InternalAtEnd, &CallbackCall::unknown(owner), || true);
            self.report_never_drawn(owner);
        }
        self.report_leftovers(FindingKind::LiveAtEnd, ReportedAs::End, "", None, |_| true);
    }
}

const BELOW_INSTANCE: u64 = 1 << 32;
const BELOW_BOTH: u64 = BELOW_INSTANCE | 1;

fn below(kind: &str) -> u64 {
    match kind {
        // They end with others, without a command of their own.
        "VkQueue" | "VkPhysicalDevice" | "VkCommandBuffer" | "VkDescriptorSet" | "VkDisplayKHR" | "VkInstance" => 0,
        "VkDevice" | "VkSurfaceKHR" | "VkDebugUtilsMessengerEXT" | "VkDebugReportCallbackEXT" => BELOW_INSTANCE,
        _ => BELOW_BOTH,
    }
}

/// Whether one event proves the finding, whatever came before.
const fn proven_by_one_event(kind: FindingKind) -> bool {
    use FindingKind::*;
    matches!(
        kind,
        BadAlignment
            | BadScope
            | HalfInternal
            | InternalType
            | MisalignedAnswer
            | MissingAllocation
            | MissingFree
            | MissingReallocation
            | NullFree
            | OldStructUsed
            | SizeZero
            | UnknownUserData
    )
}

const fn about_handles(kind: FindingKind) -> bool {
    use FindingKind::*;
    matches!(
        kind,
        InternalLeft | LiveAfterDestroy | NoneAtDestroy | OnlyAtDestroy | OtherGroupAtDestroy | UnknownHandle
    )
}

const fn may_come_of_a_free(kind: FindingKind) -> bool {
    use FindingKind::*;
    matches!(
        kind,
        BadScope
            | FreedBetweenCommands
            | FreedInOtherCommand
            | FreedInTransit
            | FreedOnForeignThread
            | FreedThroughOther
            | FreedTwice
            | FreedUnknown
            | InternalNegative
            | InternalType
            | NotifiedBetweenCommands
            | NotifiedOnForeignThread
            | NullFree
            | OldStructUsed
            | UnknownUserData
    )
}

#[cfg(test)]
mod tests;
