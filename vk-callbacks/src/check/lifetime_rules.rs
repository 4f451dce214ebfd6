//! The rules about commands that end, objects that come and go, and blocks that are left.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::sync::atomic::Ordering;

use alloc_core::Scope;

use super::block::{BlockRecord, BlockState, ReportedAs};
use super::engine::{CallerContext, Engine};
use super::handle_record::HandleRecord;
use super::kind::FindingKind;
use super::owner::CallbackOwner;
use super::row::FindingRow;
use super::table::Cursor;
use crate::command::{Bracket, Making, OwnerId};
use crate::error::VK_ERROR_OUT_OF_HOST_MEMORY;
use crate::raw::RawCallbacks;
use crate::trace::Sighting;

/// Blocks, by their addresses.
pub(crate) type Blocks<'a> = &'a mut dyn Iterator<Item = NonZeroU64>;

impl<'t> Engine<'_, 't> {
    /// Callbacks were handed over: V1 to V4.
    pub(crate) fn registered(&self, owner: &CallbackOwner<'t>, raw: &RawCallbacks) {
        for what in Sighting::missing_fact(raw) {
            self.seen(&CallerContext::UNKNOWN_CALLER, owner, what);
        }
    }

    /// What only those can see who have the struct or the address before them.
    #[cold]
    pub(crate) fn seen(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        what: Sighting,
    ) {
        let kind = match what {
            Sighting::NoAllocation => FindingKind::MissingAllocation,
            Sighting::NoReallocation => FindingKind::MissingReallocation,
            Sighting::NoFree => FindingKind::MissingFree,
            Sighting::HalfInternal => FindingKind::HalfInternal,
            Sighting::UnknownUserData => FindingKind::UnknownUserData,
            Sighting::OldStruct => FindingKind::OldStructUsed,
            Sighting::Misaligned => FindingKind::MisalignedAnswer,
        };
        self.report(self.row(kind, who, owner, None));
    }

    /// A command begins on a thread that is inside a callback, or not (V25).
    #[inline]
    pub(crate) fn entered(&self, bracket: &Bracket<'t>, at: u64, in_callback: bool) {
        self.cover(bracket.coverage);
        if in_callback {
            self.report(FindingRow {
                command: bracket.name,
                first_serial: at,
                ..FindingRow::one(FindingKind::CommandInCallback)
            });
        }
    }

    /// The thread that some calls came from issues a command: it is no foreign thread, they came before its first command.
    #[cold]
    pub(crate) fn thread_issues(&self, thread: u64) {
        let own = |kind| match kind {
            FindingKind::AskedOnForeignThread => Some(FindingKind::AskedBetweenCommands),
            FindingKind::FreedOnForeignThread => Some(FindingKind::FreedBetweenCommands),
            FindingKind::NotifiedOnForeignThread => Some(FindingKind::NotifiedBetweenCommands),
            _ => None,
        };
        loop {
            let mut taken = None;
            self.change_of_thread(thread, |row| {
                let Some(kind) = own(row.kind).filter(|_| row.thread == thread) else {
                    return false;
                };
                taken = Some(FindingRow {
                    kind,
                    thread: 0,
                    together: false,
                    ..*row
                });
                row.count = 0;
                true
            });
            match taken {
                Some(row) => self.report(row),
                None => return,
            }
        }
    }

    /// A command has returned: V9, V28. `taken` are the blocks of scope command that it may have left; without, all blocks are looked at.
    #[inline]
    pub(crate) fn command_left(&self, bracket: &Bracket<'t>, at: u64, taken: Option<Blocks<'_>>) {
        if bracket.command_live.get() > 0 {
            let serial = bracket.serial;
            let of_it = |block: &BlockRecord<'t>| {
                block.serial == serial && block.scope() == Some(Scope::Command)
            };
            match taken {
                None => self.leave_behind(
                    FindingKind::CommandBlockLeft,
                    ReportedAs::Command,
                    "",
                    of_it,
                ),
                Some(taken) => self.leave_these_behind(
                    FindingKind::CommandBlockLeft,
                    ReportedAs::Command,
                    "",
                    taken,
                    of_it,
                ),
            }
        }
        let (result, nulls) = (bracket.result.get(), bracket.nulls.get());
        if result >= 0 && bracket.allocates() {
            self.filled(bracket);
        }
        if result < 0 {
            let kind = match (result == VK_ERROR_OUT_OF_HOST_MEMORY, nulls) {
                (true, 0) => FindingKind::OutOfMemoryWithoutNull,
                (false, 1..) => FindingKind::OtherErrorAfterNull,
                _ => return,
            };
            self.report(FindingRow {
                command: bracket.name,
                first_serial: at,
                ..FindingRow::one(kind)
            });
        }
    }

    /// A command has made objects from a pool.
    fn filled(&self, bracket: &Bracket<'t>) {
        if let Some(pool) = bracket.owners.object.and_then(|id| self.owner(id)) {
            pool.filled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The end, for a pool: what was made from it asked for nothing, of nobody (V34).
    pub(crate) fn never_drawn(&self, owner: &CallbackOwner<'t>) {
        if let Some(row) = Self::row_never_drawn(owner) {
            owner.filled.store(0, Ordering::Relaxed);
            self.report(row);
        }
    }

    pub(crate) fn row_never_drawn(owner: &CallbackOwner<'t>) -> Option<FindingRow<'t>> {
        let filled = owner.filled.load(Ordering::Relaxed);
        let never = filled > 0 && !owner.drawn.load(Ordering::Relaxed);
        never.then(|| FindingRow {
            owner: owner.id,
            owner_kind: owner.kind,
            count: filled,
            ..FindingRow::one(FindingKind::PoolNeverAsked)
        })
    }

    /// Blocks that should have been given back: each is told once.
    pub(crate) fn leave_behind(
        &self,
        kind: FindingKind,
        told: ReportedAs,
        against: &'t str,
        of: impl Fn(&BlockRecord<'t>) -> bool,
    ) {
        let mut layouts = self.blocks.layouts();
        let mut cursor = Cursor::default();
        loop {
            let left = self
                .blocks
                .next(&mut cursor, |block| leaves(block, told, &of));
            if let Some(block) = &left {
                self.report_left(kind, against, block);
            }
            // Another thread, or the memory that a finding took, which may call us back, had blocks moved: some may have been missed.
            if self.blocks.layouts() != layouts {
                (layouts, cursor) = (self.blocks.layouts(), Cursor::default());
            } else if left.is_none() {
                return;
            }
        }
    }

    /// The same of these blocks alone.
    fn leave_these_behind(
        &self,
        kind: FindingKind,
        told: ReportedAs,
        against: &'t str,
        these: Blocks<'_>,
        of: impl Fn(&BlockRecord<'t>) -> bool,
    ) {
        for address in these {
            let left = self.blocks.with(&BlockRecord::at(address), |block| {
                leaves(block, told, &of).then_some(*block)
            });
            if let Some(block) = left.flatten() {
                self.report_left(kind, against, &block);
            }
        }
    }

    fn report_left(&self, kind: FindingKind, against: &'t str, block: &BlockRecord<'t>) {
        self.report(self.row_left(kind, against, block));
    }

    /// What is said of a block that is left.
    pub(crate) fn row_left(
        &self,
        kind: FindingKind,
        against: &'t str,
        block: &BlockRecord<'t>,
    ) -> FindingRow<'t> {
        let owner = self.numbered(block.owner);
        FindingRow {
            owner: owner.and_then(|owner| owner.id),
            owner_kind: owner.map_or("", |owner| owner.kind),
            command: block.command,
            against,
            scope: block.scope(),
            first_serial: block.serial,
            ..FindingRow::one(kind)
        }
        .of_size(block.size())
    }

    /// A block that was told as left came back after all.
    #[cold]
    pub(crate) fn leaked_block_freed(&self, who: &CallerContext<'_, 't>, block: &BlockRecord<'t>) {
        let kind = match block.reported_as() {
            ReportedAs::Command => FindingKind::CommandBlockLeft,
            ReportedAs::Destroy => FindingKind::LiveAfterDestroy,
            ReportedAs::End => FindingKind::LiveAtEnd,
            ReportedAs::Nothing => return,
        };
        let key = FindingRow::key_of_left(kind, block.owner, block.command, block.scope());
        self.change_among(key, |row| {
            let of_it = row.kind == kind
                && row.owner.map_or(0, OwnerId::get) == block.owner
                && (row.command, row.scope) == (block.command, block.scope())
                && row.freed_later < row.count;
            if of_it {
                row.freed_later = row.freed_later.saturating_add(1);
                row.freed_in = who.command();
            }
            of_it
        });
    }

    /// The object that a command was making has been told of, or nobody will. `owner` may be the one that it draws on.
    pub(crate) fn object_created(&self, making: Making, owner: Option<&CallbackOwner<'t>>) {
        let known = owner.filter(|owner| owner.number() == making.owner());
        if let Some(owner) = known.or_else(|| self.numbered(making.owner())) {
            owner.count_created();
        }
    }

    /// An object was made (V42 to V44). Several may share a handle; where they have not the same owner, or a handle comes again before
    /// its end was told, nobody can say which of them ends.
    pub(crate) fn created(&self, kind: &'t str, handle: u64, owner: Option<&CallbackOwner<'t>>) {
        if handle == 0 {
            return;
        }
        let thing = HandleRecord {
            handle,
            kind,
            owner: owner.map_or(0, CallbackOwner::number),
            times: 1,
            mixed: false,
        };
        let mut lived = false;
        let put = self.things.put(thing, |there| {
            let lives = there.times > 0;
            lived = lives;
            let mixed = lives && (there.mixed || there.owner != thing.owner);
            *there = HandleRecord {
                times: there.times.saturating_add(1),
                mixed,
                ..thing
            };
        });
        if put.is_err() {
            return self.lose_handle();
        }
        if !lived {
            self.lives(kind);
        }
        if let Some(owner) = owner {
            owner.objects.fetch_add(1, Ordering::AcqRel);
            owner.objects_reported.store(true, Ordering::Release);
        }
    }

    /// An object was ended by `command`, which has returned: V42 to V44. Answers with the owner of the callbacks that it was the last one
    /// to be made with: what those hold now is [left](Engine::left_by).
    pub(crate) fn destroyed(
        &self,
        who: &CallerContext<'_, 't>,
        kind: &'t str,
        handle: u64,
        owner: Option<&CallbackOwner<'t>>,
        command: &'t str,
    ) -> Option<&CallbackOwner<'t>> {
        if handle == 0 {
            return None;
        }
        let thing = self.things.with(
            &HandleRecord {
                handle,
                kind,
                owner: 0,
                times: 0,
                mixed: false,
            },
            |thing| {
                let before = *thing;
                thing.times = thing.times.saturating_sub(1);
                before
            },
        );
        let row = |kind_of_finding| FindingRow {
            owner: owner.and_then(|owner| owner.id),
            owner_kind: kind,
            command,
            first_serial: who.at,
            ..FindingRow::one(kind_of_finding)
        };
        let Some(thing) = thing.filter(|thing| thing.times > 0) else {
            self.report(row(FindingKind::UnknownHandle));
            return None;
        };
        if thing.times == 1 {
            self.lives_no_more(kind);
        }
        if thing.mixed {
            // Whose count would be less? Those keep theirs: of what they hold is told at the end.
            return None;
        }
        let made_with = if thing.owner == 0 {
            None
        } else {
            self.numbered(thing.owner)
        };
        match (made_with, owner) {
            (None, Some(_)) => self.report(row(FindingKind::OnlyAtDestroy)),
            (Some(made_with), None) => {
                self.report(FindingRow {
                    owner: made_with.id,
                    ..row(FindingKind::NoneAtDestroy)
                });
            }
            (Some(made_with), Some(owner)) if made_with.group != owner.group => {
                let passed = FindingRow {
                    owner: made_with.id,
                    passed: owner.id,
                    ..row(FindingKind::OtherGroupAtDestroy)
                };
                self.report(FindingRow {
                    against: owner.kind,
                    ..passed
                });
            }
            _ => {}
        }
        made_with.filter(|made_with| {
            made_with.objects.fetch_sub(1, Ordering::AcqRel) == 1 && !self.has_children(kind)
        })
    }

    /// The last object that was made with callbacks of this owner was ended by `command`: V41. `held` are the blocks that those may
    /// hold; without, all blocks are looked at.
    pub(crate) fn left_by(
        &self,
        owner: &CallbackOwner<'t>,
        who: &CallerContext<'_, 't>,
        command: &'t str,
        held: Option<Blocks<'_>>,
    ) {
        let number = owner.number();
        let left = |block: &BlockRecord<'t>| block.owner == number && owner.has_no_objects();
        match held {
            None if !self.may_hold_blocks(number) => {}
            None => self.leave_behind(
                FindingKind::LiveAfterDestroy,
                ReportedAs::Destroy,
                command,
                left,
            ),
            Some(held) => self.leave_these_behind(
                FindingKind::LiveAfterDestroy,
                ReportedAs::Destroy,
                command,
                held,
                left,
            ),
        }
        let over = || self.of_group(owner.group).all(CallbackOwner::has_ended);
        self.internal_at_end(FindingKind::InternalLeft, who, owner, over);
    }

    /// Internal memory that nobody said was given back (V20), if `over` says, when it was seen, that nobody will.
    pub(crate) fn internal_at_end(
        &self,
        kind: FindingKind,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        over: impl Fn() -> bool,
    ) {
        if !self.was_notified() {
            return;
        }
        let Some(first) = self.first_of_group(owner.group) else {
            return;
        };
        for scope in Scope::ALL {
            let left = first.internal_outstanding(scope);
            if left > 0 && over() && first.count_internal_free(scope, left) {
                self.report(self.row(kind, who, owner, Some(scope)).of_size(left));
            }
        }
    }
}

/// Whether the block is left, and nobody has been told yet; from here on it was told.
fn leaves<'t>(
    block: &mut BlockRecord<'t>,
    told: ReportedAs,
    of: impl Fn(&BlockRecord<'t>) -> bool,
) -> bool {
    // At the end a reallocation that never ended has left its block, too.
    let there = block.state() == BlockState::Live
        || block.state() == BlockState::Moving && told == ReportedAs::End;
    let left = there && block.reported_as() == ReportedAs::Nothing && of(block);
    if left {
        block.set_reported_as(told);
    }
    left
}
