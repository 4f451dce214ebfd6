//! What checker and judge share: everything that is known, and how an observation is added to it.

mod findings;

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use alloc_core::{HostError, Scope};

use super::block::{BlockRecord, ReportedAs};
use super::handle_record::HandleRecord;
use super::kind::FindingKind;
use super::options::CheckOptions;
use super::owner::CallbackOwner;
use super::owner_list::OwnerList;
use super::row::FindingRow;
use super::table::{Cursor, NoRoom, ShardedTable};
use crate::command::{Bracket, BracketCoverage, OwnerId, thread};
use crate::pinned::{Memory, SCOPE};

/// Rows of findings a shard, at most, and from the beginning where frees may take no memory.
const MAX_ROWS: usize = 1024;
const INITIAL_ROWS: usize = 8;

pub(crate) struct Engine<'h, 't> {
    memory: Memory<'h>,
    options: CheckOptions,
    /// The least that a bracket has said of all.
    coverage: AtomicU8,
    pub(crate) blocks: ShardedTable<'h, BlockRecord<'t>>,
    pub(crate) things: ShardedTable<'h, HandleRecord<'t>>,
    rows: ShardedTable<'h, FindingRow<'t>>,
    /// Some shard of them is nearly full.
    rows_tight: AtomicBool,
    /// What a free leads to is put where there is room: freeing takes no memory.
    frugal: bool,
    owners: OwnerList<'h, 't>,
    /// Observations for which there was no room, or which lost events made doubtful.
    lost: AtomicU64,
    /// Events are missing: what needs more than one to be seen proves nothing.
    lossy: AtomicBool,
    /// A handle is not on record for which there was no room.
    handles_lost: AtomicBool,
    /// Handles on record that live: in the low half those below a device, in the high one those below an instance. In one word, since
    /// most objects are below both.
    below: AtomicU64,
    /// Reallocations until now.
    pub(super) moves: AtomicU32,
    /// Commands that run: of a log; else of threads that have no [place](crate::command::thread::Running) for that.
    pub(super) running: AtomicU32,
    /// Internal memory was notified through some callbacks.
    is_notified: AtomicBool,
    /// Callbacks that are compatible were told to be; a log has no word for it.
    pub(super) groups_reported: bool,
    /// A pointer that nobody gave is told apart from a block that was given before.
    pub(super) knows_strangers: bool,
    pub(super) caller_module: Option<CallerModule>,
}

/// Names the file of the program or library that has called a callback of this thread, or an allocator past them; empty where it is not known.
pub(crate) type CallerModule = fn() -> &'static str;

/// Who did something: the running command, the thread.
#[derive(Clone, Copy)]
pub(crate) struct CallerContext<'a, 't> {
    pub(crate) bracket: Option<&'a Bracket<'t>>,
    pub(crate) thread: u64,
    /// The thread has issued a command before.
    pub(crate) issued: bool,
    /// Commands are seen at all; if not, that none runs proves nothing.
    pub(crate) known: bool,
    /// What a finding's `first_serial` is to say.
    pub(crate) at: u64,
}

impl<'t> CallerContext<'_, 't> {
    /// Nothing is known.
    pub(crate) const UNKNOWN_CALLER: Self = Self {
        bracket: None,
        thread: 0,
        issued: false,
        known: false,
        at: 0,
    };

    pub(crate) fn command(&self) -> &'t str {
        self.bracket.map_or("", |bracket| bracket.name)
    }

    pub(crate) fn serial(&self) -> u64 {
        self.bracket.map_or(0, |bracket| bracket.serial)
    }
}

impl<'h, 't> Engine<'h, 't> {
    /// `numbered`: blocks are named by numbers that are never used again, so that gone ones can be kept for ever.
    pub(crate) fn new(memory: Memory<'h>, options: CheckOptions, numbered: bool) -> Self {
        Self {
            memory,
            options,
            coverage: AtomicU8::new(options.coverage as u8),
            blocks: ShardedTable::new(memory, numbered, usize::MAX),
            things: ShardedTable::new(memory, false, usize::MAX),
            rows: ShardedTable::new(memory, false, MAX_ROWS),
            rows_tight: AtomicBool::new(false),
            frugal: false,
            owners: OwnerList::new(memory),
            lost: AtomicU64::new(0),
            lossy: AtomicBool::new(false),
            handles_lost: AtomicBool::new(false),
            below: AtomicU64::new(0),
            moves: AtomicU32::new(0),
            running: AtomicU32::new(0),
            is_notified: AtomicBool::new(false),
            groups_reported: !numbered,
            knows_strangers: true,
            caller_module: None,
        }
    }

    pub(crate) const fn memory(&self) -> Memory<'h> {
        self.memory
    }

    /// Adds the owner that `make` makes, once there is memory for it, to the list.
    pub(crate) fn add_owner(
        &self,
        make: impl FnOnce() -> CallbackOwner<'t>,
    ) -> Result<&CallbackOwner<'t>, HostError> {
        self.owners.add(make)
    }

    /// How many owners of this id there are, at most so many.
    pub(crate) fn owners_of(&self, id: OwnerId, most: usize) -> usize {
        self.owners.count_of_number(id.get(), most)
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.owners.iter()
    }

    pub(crate) fn owner(&self, id: OwnerId) -> Option<&CallbackOwner<'t>> {
        self.numbered(id.get())
    }

    /// The owner of this number, as records keep it.
    pub(crate) fn numbered(&self, number: u32) -> Option<&CallbackOwner<'t>> {
        self.owners.numbered(number)
    }

    /// Some block that came through callbacks of this number may be live.
    pub(crate) fn may_hold_blocks(&self, number: u32) -> bool {
        self.owners
            .of_number(number)
            .any(CallbackOwner::may_hold_blocks)
    }

    /// The oldest owner of the group: it has the sums of all that are compatible.
    pub(crate) fn first_of_group(&self, group: u64) -> Option<&CallbackOwner<'t>> {
        self.owners.first_of_group(group)
    }

    /// All that are compatible.
    pub(crate) fn of_group(&self, group: u64) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.owners.of_group(group)
    }

    /// A handle of this kind came to live: an object below a device, an instance or both.
    pub(crate) fn lives(&self, kind: &str) {
        let one = below(kind);
        if one != 0 {
            self.below.fetch_add(one, Ordering::AcqRel);
        }
    }

    /// It ceased to. Nobody says so before [`Engine::lives`] was told, so that neither half goes below 0.
    pub(crate) fn lives_no_more(&self, kind: &str) {
        let one = below(kind);
        if one != 0 {
            self.below.fetch_sub(one, Ordering::AcqRel);
        }
    }

    /// An object that draws on a device's or an instance's memory may live: what is left may be that one's, which the application forgot.
    pub(crate) fn has_children(&self, parent: &str) -> bool {
        let below = self.below.load(Ordering::Acquire);
        match parent {
            "VkDevice" => below & (BELOW_INSTANCE - 1) != 0,
            "VkInstance" => below >= BELOW_INSTANCE,
            _ => false,
        }
    }

    pub(crate) fn kind_of(&self, id: Option<OwnerId>) -> &'t str {
        id.and_then(|id| self.owner(id))
            .map_or("", |owner| owner.kind)
    }

    /// Adds an observation.
    #[cold]
    pub(crate) fn report(&self, row: FindingRow<'t>) {
        if !self.knows_strangers
            && matches!(
                row.kind,
                FindingKind::FreedUnknown | FindingKind::ReallocatedUnknown
            )
        {
            return;
        }
        if self.lossy.load(Ordering::Relaxed) && !proven_by_one_event(row.kind)
            || self.handles_lost.load(Ordering::Relaxed) && about_handles(row.kind)
            || self.put_row(row).is_err()
        {
            self.lost.fetch_add(row.count, Ordering::Relaxed);
        }
    }

    /// From here on freeing takes no memory; there is room for what it may lead to.
    pub(crate) fn frugal(mut self) -> Result<Self, HostError> {
        let layout = core::alloc::Layout::new::<[Option<FindingRow<'t>>; INITIAL_ROWS]>();
        self.rows
            .reserve(INITIAL_ROWS)
            .map_err(|NoRoom| self.memory.refusal(layout, SCOPE))?;
        self.frugal = true;
        Ok(self)
    }

    fn put_row(&self, row: FindingRow<'t>) -> Result<(), NoRoom> {
        let add = |there: &mut FindingRow<'t>| there.add(&row);
        if !self.frugal || !may_come_of_a_free(row.kind) {
            return self.rows.put(row, add);
        }
        let (put, roomy) = self.rows.put_within(row, add);
        if !roomy {
            self.rows_tight.store(true, Ordering::Relaxed);
        }
        put
    }

    /// The row is there, and its command's name lies where this one's does.
    pub(crate) fn has_row_of_name(&self, row: &FindingRow<'t>) -> bool {
        let is_of_name =
            |there: &mut FindingRow<'t>| there.count > 0 && ptr::eq(there.command, row.command);
        self.rows.with(row, is_of_name) == Some(true)
    }

    /// A call begins that may take memory: there will be room for what the frees after it lead to.
    #[inline]
    pub(crate) fn make_ready(&self) {
        if self.rows_tight.load(Ordering::Relaxed) && self.rows_tight.swap(false, Ordering::Relaxed)
        {
            self.rows.make_ready();
        }
    }

    /// The module that calls now.
    pub(super) fn module(&self) -> &'static str {
        self.caller_module.map_or("", |name| name())
    }

    /// A row about what is happening at an owner's callbacks.
    pub(crate) fn row(
        &self,
        kind: FindingKind,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        scope: Option<Scope>,
    ) -> FindingRow<'t> {
        let (command, first_serial) = (who.command(), who.at);
        FindingRow {
            owner: owner.id,
            owner_kind: owner.kind,
            command,
            scope,
            first_serial,
            ..FindingRow::one(kind)
        }
    }

    /// Changes the rows that lie at a key of theirs, until `want` has said so once.
    pub(crate) fn change_among(&self, key: u64, mut want: impl FnMut(&mut FindingRow<'t>) -> bool) {
        self.rows.among(key, |row| row.count > 0 && want(row));
    }

    /// Where frees take no memory the rows that they lead to are spread over all the room that there is.
    pub(crate) const fn keeps_threads_together(&self) -> bool {
        !self.frugal
    }

    /// Changes the rows that are told of a thread, until `want` has said so once.
    pub(crate) fn change_of_thread(
        &self,
        thread: u64,
        want: impl FnMut(&mut FindingRow<'t>) -> bool,
    ) {
        if self.keeps_threads_together() {
            self.change_among(FindingRow::key_of_thread(thread), want);
        } else {
            let _ = self.change(want);
        }
    }

    /// Changes the rows of a kind for which `want` says so, until it has said so once.
    pub(crate) fn change(
        &self,
        mut want: impl FnMut(&mut FindingRow<'t>) -> bool,
    ) -> Option<FindingRow<'t>> {
        self.rows
            .next(&mut Cursor::default(), |row| row.count > 0 && want(row))
    }

    /// Nobody said which commands ran: what was observed outside of them proves nothing.
    pub(crate) fn forget_commands(&self) {
        use FindingKind::{AskedOnForeignThread, FreedOnForeignThread, NotifiedOnForeignThread};
        let off = [
            AskedOnForeignThread,
            FreedOnForeignThread,
            NotifiedOnForeignThread,
        ];
        while self
            .change(|row| off.contains(&row.kind) && core::mem::take(&mut row.count) > 0)
            .is_some()
        {}
    }

    /// What a bracket says of all.
    #[inline]
    pub(crate) fn cover(&self, coverage: BracketCoverage) {
        if self.coverage.load(Ordering::Relaxed) < coverage as u8 {
            self.coverage.fetch_max(coverage as u8, Ordering::Relaxed);
        }
    }

    /// Internal memory is notified: before it is counted.
    pub(crate) fn note_notified(&self) {
        self.is_notified.store(true, Ordering::Release);
    }

    /// Whether any ever was; without, there is nothing to look for at the end of each object.
    pub(crate) fn was_notified(&self) -> bool {
        self.is_notified.load(Ordering::Acquire)
    }

    /// A command is running, on whatever thread.
    pub(crate) fn some_command_runs(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
            || thread::some_thread_runs(ptr::from_ref(self).cast())
    }

    pub(crate) fn lose_events(&self, events: u64) {
        self.lossy.store(true, Ordering::Relaxed);
        self.lost.fetch_add(events, Ordering::Relaxed);
        // Those that ran may have ended.
        self.running.store(0, Ordering::Relaxed);
    }

    /// There was no room for a handle: its end will look like that of a stranger.
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

    /// Everything that is live is what was left.
    pub(crate) fn finish(&self) {
        for owner in self.owners() {
            self.internal_at_end(
                FindingKind::InternalAtEnd,
                &CallerContext::UNKNOWN_CALLER,
                owner,
                || true,
            );
            self.never_drawn(owner);
        }
        self.leave_behind(FindingKind::LiveAtEnd, ReportedAs::End, "", |_| true);
    }
}

/// One in each half of the count.
const BELOW_INSTANCE: u64 = 1 << 32;
const BELOW_BOTH: u64 = BELOW_INSTANCE | 1;

/// Whether an object of this kind draws on the memory of an instance, or on a device's and so on both.
fn below(kind: &str) -> u64 {
    match kind {
        // They go with others, and nobody need tell.
        "VkQueue" | "VkPhysicalDevice" | "VkCommandBuffer" | "VkDescriptorSet" | "VkDisplayKHR" => {
            0
        }
        "VkInstance" => 0,
        "VkDevice" | "VkSurfaceKHR" | "VkDebugUtilsMessengerEXT" | "VkDebugReportCallbackEXT" => {
            BELOW_INSTANCE
        }
        _ => BELOW_BOTH,
    }
}

/// What one event shows, whatever came before it: a struct, or the arguments of a call. All else may be the doing of an event that is
/// missing.
const fn proven_by_one_event(kind: FindingKind) -> bool {
    use FindingKind::{
        BadAlignment, BadScope, HalfInternal, InternalType, MisalignedAnswer, MissingAllocation,
        MissingFree, MissingReallocation, NullFree, OldStructUsed, SizeZero, UnknownUserData,
    };
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

/// What is judged by the handles that live.
const fn about_handles(kind: FindingKind) -> bool {
    use FindingKind::{
        InternalLeft, LiveAfterDestroy, NoneAtDestroy, OnlyAtDestroy, OtherGroupAtDestroy,
        UnknownHandle,
    };
    matches!(
        kind,
        InternalLeft
            | LiveAfterDestroy
            | NoneAtDestroy
            | OnlyAtDestroy
            | OtherGroupAtDestroy
            | UnknownHandle
    )
}

/// What a free or a notification can be told by, if not by them alone.
const fn may_come_of_a_free(kind: FindingKind) -> bool {
    use FindingKind::{
        BadScope, FreedBetweenCommands, FreedInOtherCommand, FreedInTransit, FreedOnForeignThread,
        FreedThroughOther, FreedTwice, FreedUnknown, InternalNegative, InternalType,
        NotifiedBetweenCommands, NotifiedOnForeignThread, NullFree, OldStructUsed, UnknownUserData,
    };
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
