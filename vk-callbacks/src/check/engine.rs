//! What checker and judge share: everything that is known, and how an observation is added to it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use alloc_core::{HostError, HostSource, Scope, TryVec};

use super::block::{Block, Told};
use super::bracket::Bracket;
use super::found::Found;
use super::kind::FindingKind;
use super::options::CheckOptions;
use super::owner::Owner;
use super::owner_list::OwnerList;
use super::row::Row;
use super::table::{Cursor, NoRoom, Table};
use super::thing::Thing;
use crate::command::{Coverage, OwnerId};
use crate::placed::{Memory, SCOPE};

/// Rows of findings a shard, at most, and from the beginning where frees may take no memory.
const MOST_ROWS: usize = 1024;
const FIRST_ROWS: usize = 8;

pub(crate) struct Engine<'h, 't> {
    memory: Memory<'h>,
    options: CheckOptions,
    /// No bracket has said that it may not be the only one.
    complete: AtomicBool,
    pub(crate) blocks: Table<'h, Block<'t>>,
    pub(crate) things: Table<'h, Thing<'t>>,
    rows: Table<'h, Row<'t>>,
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
    /// Reallocations until now.
    pub(super) moves: AtomicU32,
    /// Commands that run, on all threads.
    pub(super) running: AtomicU32,
    /// Callbacks that are compatible were told to be; a log has no word for it.
    pub(super) groups_told: bool,
    /// A pointer that nobody gave is told apart from a block that was given before.
    pub(super) knows_strangers: bool,
}

/// Who did something: the running command, the thread.
#[derive(Clone, Copy)]
pub(crate) struct Who<'a, 't> {
    pub(crate) bracket: Option<&'a Bracket<'t>>,
    pub(crate) thread: u64,
    /// The thread has issued a command before.
    pub(crate) issued: bool,
    /// Commands are seen at all; if not, that none runs proves nothing.
    pub(crate) known: bool,
    /// What a finding's `first_serial` is to say.
    pub(crate) at: u64,
}

impl<'t> Who<'_, 't> {
    /// Nothing is known.
    pub(crate) const NOBODY: Self = Self { bracket: None, thread: 0, issued: false, known: false, at: 0 };

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
            complete: AtomicBool::new(options.coverage == Coverage::Complete),
            blocks: Table::new(memory, numbered, usize::MAX),
            things: Table::new(memory, false, usize::MAX),
            rows: Table::new(memory, false, MOST_ROWS),
            rows_tight: AtomicBool::new(false),
            frugal: false,
            owners: OwnerList::new(memory),
            lost: AtomicU64::new(0),
            lossy: AtomicBool::new(false),
            handles_lost: AtomicBool::new(false),
            moves: AtomicU32::new(0),
            running: AtomicU32::new(0),
            groups_told: !numbered,
            knows_strangers: true,
        }
    }

    pub(crate) const fn memory(&self) -> Memory<'h> {
        self.memory
    }

    /// Adds an owner to the list.
    pub(crate) fn add_owner(&self, owner: Owner<'t>) -> Result<&Owner<'t>, HostError> {
        self.owners.add(owner)
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = &Owner<'t>> {
        self.owners.iter()
    }

    pub(crate) fn owner(&self, id: OwnerId) -> Option<&Owner<'t>> {
        self.numbered(id.get())
    }

    /// The owner of this number, as records keep it.
    pub(crate) fn numbered(&self, number: u32) -> Option<&Owner<'t>> {
        self.owners.numbered(number)
    }

    /// The oldest owner of the group: it has the sums of all that are compatible.
    pub(crate) fn first_of_group(&self, group: u64) -> Option<&Owner<'t>> {
        self.owners().filter(|owner| owner.group == group).last()
    }

    pub(crate) fn kind_of(&self, id: Option<OwnerId>) -> &'t str {
        id.and_then(|id| self.owner(id)).map_or("", |owner| owner.kind)
    }

    /// Adds an observation.
    #[cold]
    pub(crate) fn report(&self, row: Row<'t>) {
        if !self.knows_strangers && matches!(row.kind, FindingKind::FreedUnknown | FindingKind::ReallocatedUnknown) {
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
        let layout = core::alloc::Layout::new::<[Option<Row<'t>>; FIRST_ROWS]>();
        self.rows.reserve(FIRST_ROWS).map_err(|NoRoom| self.memory.refusal(layout, SCOPE))?;
        self.frugal = true;
        Ok(self)
    }

    fn put_row(&self, row: Row<'t>) -> Result<(), NoRoom> {
        let add = |there: &mut Row<'t>| there.add(&row);
        if !self.frugal || !may_come_of_a_free(row.kind) {
            return self.rows.put(row, add);
        }
        let (put, roomy) = self.rows.put_within(row, add);
        if !roomy {
            self.rows_tight.store(true, Ordering::Relaxed);
        }
        put
    }

    /// A call begins that may take memory: there will be room for what the frees after it lead to.
    #[inline]
    pub(crate) fn make_ready(&self) {
        if self.rows_tight.load(Ordering::Relaxed) && self.rows_tight.swap(false, Ordering::Relaxed) {
            self.rows.make_ready();
        }
    }

    /// A row about what is happening at an owner's callbacks.
    pub(crate) fn row(&self, kind: FindingKind, who: &Who<'_, 't>, owner: &Owner<'t>, scope: Option<Scope>) -> Row<'t> {
        let (command, first_serial) = (who.command(), who.at);
        Row { owner: owner.id, owner_kind: owner.kind, command, scope, first_serial, ..Row::one(kind) }
    }

    /// Changes the rows of a kind for which `want` says so, until it has said so once.
    pub(crate) fn change(&self, mut want: impl FnMut(&mut Row<'t>) -> bool) -> Option<Row<'t>> {
        self.rows.next(&mut Cursor::default(), |row| row.count > 0 && want(row))
    }

    /// Nobody said which commands ran: what was observed outside of them proves nothing.
    pub(crate) fn forget_commands(&self) {
        use FindingKind::{AskedOnForeignThread, FreedOnForeignThread, NotifiedOnForeignThread};
        let off = [AskedOnForeignThread, FreedOnForeignThread, NotifiedOnForeignThread];
        while self.change(|row| off.contains(&row.kind) && core::mem::take(&mut row.count) > 0).is_some() {}
    }

    pub(crate) fn partial(&self) {
        if self.complete.load(Ordering::Relaxed) {
            self.complete.store(false, Ordering::Relaxed);
        }
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

    pub(crate) fn coverage(&self) -> Coverage {
        if self.complete.load(Ordering::Relaxed) { Coverage::Complete } else { Coverage::Partial }
    }

    /// Everything that is live is what was left.
    pub(crate) fn finish(&self) {
        for owner in self.owners() {
            self.internal_left(FindingKind::InternalAtEnd, &Who::NOBODY, owner, || true);
            self.never_drawn(owner);
        }
        self.leave_behind(FindingKind::LiveAtEnd, Told::End, "", |_| true);
    }

    /// What was found, by rule and time, rows that differ in their thread alone added up.
    pub(crate) fn findings<A: HostSource>(&self, memory: A) -> Result<TryVec<Found<'t>, A>, HostError> {
        let mut all = TryVec::<Found<'t>, A>::new_in(memory);
        let mut cursor = Cursor::default();
        while let Some(row) = self.rows.next(&mut cursor, |row| row.count > 0) {
            match all.iter_mut().find(|there| row.is_told_by(there)) {
                Some(there) => row.add_to(there),
                None => all.try_push(self.found(&row)).map_err(|refused| refused.error)?,
            }
        }
        all.sort_unstable_by(|a, b| {
            let order = |found: &Found<'t>| (found.kind, found.first_serial, found.owner);
            order(a).cmp(&order(b)).then_with(|| (a.command, a.against).cmp(&(b.command, b.against)))
        });
        Ok(all)
    }

    fn found(&self, row: &Row<'t>) -> Found<'t> {
        Found {
            kind: row.kind,
            owner: row.owner,
            owner_kind: row.owner_kind,
            command: row.command,
            against: row.against,
            scope: row.scope,
            count: row.count,
            bytes: row.bytes,
            size: row.size,
            first_serial: row.first_serial,
            freed_later: row.freed_later,
            freed_in: row.freed_in,
            during_commands: row.during_commands,
            on_thread: row.on_thread,
            alignments: row.alignments,
            passed: row.passed,
            groups_told: self.groups_told,
            opened: self.options.opened,
            coverage: self.coverage(),
        }
    }
}

/// What one event shows, whatever came before it: a struct, or the arguments of a call. All else may be the doing of an event that is
/// missing.
const fn proven_by_one_event(kind: FindingKind) -> bool {
    use FindingKind::{
        BadAlignment, BadScope, HalfInternal, InternalType, MisalignedAnswer, MissingAllocation, MissingFree,
        MissingReallocation, NullFree, OldStructUsed, SizeZero, UnknownUserData,
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
    use FindingKind::{InternalLeft, LiveAfterDestroy, NoneAtDestroy, OnlyAtDestroy, OtherGroupAtDestroy, UnknownHandle};
    matches!(kind, InternalLeft | LiveAfterDestroy | NoneAtDestroy | OnlyAtDestroy | OtherGroupAtDestroy | UnknownHandle)
}

/// What a free or a notification can be told by, if not by them alone.
const fn may_come_of_a_free(kind: FindingKind) -> bool {
    use FindingKind::{
        BadScope, FreedBetweenCommands, FreedInOtherCommand, FreedInTransit, FreedOnForeignThread, FreedThroughOther, FreedTwice,
        FreedUnknown, InternalNegative, InternalType, NotifiedBetweenCommands, NotifiedOnForeignThread, NullFree, OldStructUsed,
        UnknownUserData,
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
