//! The rules, applied to the calls of callbacks. What is said about a call is said before it is passed on, what about its answer
//! when that is there.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::sync::atomic::Ordering;

use alloc_core::{NoticeEvent, Scope};

use super::allocator_rules::{freed_elsewhere, misplaced};
use super::block::{BlockRecord, BlockRequest, BlockState, ReportedAs};
use super::engine::{CallerContext, Engine};
use super::kind::FindingKind;
use super::owner::CallbackOwner;
use super::row::FindingRow;
use super::table::{NoRoom, Promised};
use crate::command::{Bracket, BracketCoverage, Making};
use crate::commands::{AllocatorSource, CommandAction};
use crate::raw::{INTERNAL_EXECUTABLE, RawInternalType, RawScope};

/// Whether a call is passed on to the callbacks behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Pass {
    On,
    /// It would be undefined there.
    Not,
}

/// A reallocation that may run: the block as it was.
pub(crate) type Moving<'t> = BlockRecord<'t>;

impl<'t> Engine<'_, 't> {
    /// A request: V7, V22, V23, V35, and the right allocator. Before it is passed on.
    #[inline]
    pub(crate) fn requested(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        asked: BlockRequest,
    ) {
        let scope = asked.scope();
        if !asked.align.is_power_of_two() {
            self.report(
                self.row(FindingKind::BadAlignment, who, owner, scope)
                    .of_size(asked.size),
            );
        }
        if asked.size == 0 {
            self.report(self.row(FindingKind::SizeZero, who, owner, scope));
        }
        self.placed(who, owner, asked, scope);
    }

    #[inline]
    fn placed(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        asked: BlockRequest,
        scope: Option<Scope>,
    ) {
        let Some(scope) = scope else {
            return self.report(
                self.row(FindingKind::BadScope, who, owner, None)
                    .of_size(asked.size),
            );
        };
        let Some(bracket) = who.bracket else {
            if self.may_record(owner) {
                return;
            }
            let kinds = (
                FindingKind::AskedBetweenCommands,
                FindingKind::AskedOnForeignThread,
            );
            return self.off_command(
                who,
                self.row(kinds.0, who, owner, Some(scope))
                    .of_size(asked.size),
                kinds.1,
            );
        };
        if scope != Scope::Command && bracket.row().source(Scope::Object) == AllocatorSource::Pool {
            self.drawn(bracket, owner);
        }
        let Some(id) = owner.id else { return };
        // The common case, which `misplaced` would have nothing to say about either: an object's own allocator.
        let own =
            bracket.owners.object == Some(id) && matches!(scope, Scope::Object | Scope::Command);
        if own && bracket.row().may_allocate.contains(scope) {
            return;
        }
        if let Some(found) = misplaced(bracket.row(), &bracket.owners, id, owner.kind, scope) {
            let mut row = self
                .row(found.kind, who, owner, Some(scope))
                .of_size(asked.size);
            row.against = self.kind_of(found.instead_of);
            self.report(row);
        }
    }

    /// A command on a pool asks for memory.
    fn drawn(&self, bracket: &Bracket<'t>, asked: &CallbackOwner<'t>) {
        let Some(id) = bracket.owners.object else {
            return;
        };
        let pool = if asked.id == Some(id) {
            Some(asked)
        } else {
            self.owner(id)
        };
        if let Some(pool) = pool.filter(|pool| !pool.drawn.load(Ordering::Relaxed)) {
            pool.drawn.store(true, Ordering::Relaxed);
        }
    }

    /// A call outside of brackets may come from a command that records, which has none.
    fn may_record(&self, owner: &CallbackOwner<'t>) -> bool {
        owner.is_for_recording() && self.coverage() == BracketCoverage::ExceptRecording
    }

    /// A call outside of a command: on a thread that has issued one, or never has.
    #[cold]
    fn off_command(
        &self,
        who: &CallerContext<'_, 't>,
        mut row: FindingRow<'t>,
        on_foreign_thread: FindingKind,
    ) {
        if !who.known {
            return;
        }
        row.on_thread = Some(who.thread).filter(|thread| *thread != 0);
        if !who.issued {
            row.kind = on_foreign_thread;
            (row.thread, row.together) = (who.thread, self.keeps_threads_together());
            row.during_commands = u64::from(self.some_command_runs());
        }
        self.report(row);
    }

    /// A request was answered with NULL.
    #[cold]
    pub(crate) fn refused(&self, who: &CallerContext<'_, 't>) {
        if let Some(bracket) = who.bracket {
            bracket.null_answered();
        }
    }

    /// A request was answered with a block.
    #[inline]
    pub(crate) fn answered(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        asked: BlockRequest,
        address: NonZeroU64,
    ) -> Result<(), NoRoom> {
        self.answered_in(None, who, owner, asked, address)
    }

    /// As [`Engine::answered`]; not refused where there is room for the block.
    #[inline]
    pub(crate) fn answered_in(
        &self,
        room: Option<&Promised<'_, '_, BlockRecord<'t>>>,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        asked: BlockRequest,
        address: NonZeroU64,
    ) -> Result<(), NoRoom> {
        self.making(who, owner);
        owner.count_block();
        let block = BlockRecord::new(address, asked, who.serial(), who.command(), owner.number());
        let mut before = None;
        let merge = |there: &mut BlockRecord<'t>| before = Some(core::mem::replace(there, block));
        let put = match room {
            None => self.blocks.put(block, merge),
            Some(room) => room.put(block, merge),
        };
        if put.is_err() {
            owner.discount_block();
            return put;
        }
        owner.count_usage(&block);
        if let Some(before) = before {
            if before.state() == BlockState::Live {
                self.discount(&before, owner);
            }
            self.address_returned_twice(who, owner, asked, &before);
        }
        self.command_block(who, asked.scope == Scope::Command as i32, 1);
        Ok(())
    }

    /// A block that was live is not on record any more. One in transit is counted until its reallocation is over.
    #[inline]
    pub(super) fn discount(&self, block: &BlockRecord<'t>, owner: &CallbackOwner<'t>) {
        self.counts_of(block, owner, |owner| {
            owner.discount_usage(block);
            owner.discount_block();
        });
    }

    /// Shows `change` whom the block is counted for, who may be `owner`.
    #[inline]
    fn counts_of(
        &self,
        block: &BlockRecord<'t>,
        owner: &CallbackOwner<'t>,
        change: impl FnOnce(&CallbackOwner<'t>),
    ) {
        if block.owner == owner.number() {
            change(owner);
        } else if let Some(other) = self.numbered(block.owner) {
            change(other);
        }
    }

    /// A command that makes an object asks that one's own callbacks. Before what came is put on record.
    #[inline]
    fn making(&self, who: &CallerContext<'_, 't>, owner: &CallbackOwner<'t>) {
        let Some(bracket) = who.bracket.filter(|bracket| bracket.making.get().is_none()) else {
            return;
        };
        let (row, owners) = (bracket.row(), &bracket.owners);
        let own = match (row.action, row.object) {
            (CommandAction::Create, "VkInstance") => owners.instance,
            (CommandAction::Create, "VkDevice") => owners.device,
            (CommandAction::Create | CommandAction::Join, _) => owners.object,
            _ => return,
        };
        if own.is_some() && own == owner.id {
            owner.making();
            let many = row.many || row.action == CommandAction::Join;
            bracket.making.set(Some(Making::new(owner.number(), many)));
        }
    }

    /// The address of a block that is live, or must stay: V8, V16.
    fn address_returned_twice(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        asked: BlockRequest,
        before: &BlockRecord<'t>,
    ) {
        let kind = match before.state() {
            BlockState::Live if before.stays() => FindingKind::OldBlockGivenAway,
            BlockState::Live => FindingKind::LiveBlockGivenAgain,
            // Gone, or its reallocation has let go of it already.
            BlockState::Gone | BlockState::Moving => return,
        };
        self.report(
            self.row(kind, who, owner, asked.scope())
                .of_size(asked.size),
        );
    }

    /// The application's pointer is not aligned as was asked (V8).
    #[cold]
    pub(crate) fn misaligned(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        asked: BlockRequest,
    ) {
        self.report(
            self.row(FindingKind::MisalignedAnswer, who, owner, asked.scope())
                .of_size(asked.size),
        );
    }

    /// A reallocation that was not to be has made another block of it: what was there is gone.
    pub(crate) fn moved_all_the_same(&self, old: NonZeroU64) {
        let _ = self.blocks.with(&BlockRecord::at(old), |block| {
            block.set_state(BlockState::Gone)
        });
    }

    /// A reallocation of the block is running.
    pub(crate) fn is_moving(&self, address: NonZeroU64) -> bool {
        self.blocks
            .with(&BlockRecord::at(address), |block| block.state())
            == Some(BlockState::Moving)
    }

    /// What a block that is on record was asked for; the alignment is not told.
    pub(crate) fn check_request(&self, address: Option<NonZeroU64>) -> Option<BlockRequest> {
        let block = self
            .blocks
            .with(&BlockRecord::at(address?), |block| *block)?;
        Some(BlockRequest {
            size: block.size(),
            align: 1,
            scope: block.scope().map_or(-1, |scope| scope as i32),
        })
    }

    /// A free, or a reallocation to size 0. Before it is passed on; afterwards the address may be somebody else's.
    #[inline]
    pub(crate) fn released(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        address: NonZeroU64,
    ) -> Pass {
        let block = self.blocks.with(&BlockRecord::at(address), |block| {
            let before = *block;
            let may_pass = self.may_pass(&before, owner);
            // A log does not say whose callbacks are compatible: it may have gone, or not.
            if before.state() == BlockState::Live && (may_pass || !self.groups_reported) {
                block.set_state(BlockState::Gone);
                block.set_doubted(!may_pass);
            }
            before
        });
        let Some(block) = block else {
            self.report(FindingRow {
                module: self.module(),
                ..self.row(FindingKind::FreedUnknown, who, owner, None)
            });
            return Pass::Not;
        };
        if block.doubted() && block.state() == BlockState::Gone && self.finish_free(&block, owner) {
            return Pass::On;
        }
        if block.state() != BlockState::Live || !self.may_pass(&block, owner) {
            self.not_freed(who, owner, &block);
            return Pass::Not;
        }
        self.discount(&block, owner);
        self.command_block(
            who,
            block.scope() == Some(Scope::Command) && block.serial == who.serial(),
            -1,
        );
        if block.reported_as() != ReportedAs::Nothing {
            self.leaked_block_freed(who, &block);
        }
        match (who.bracket, block.scope()) {
            // Where it was taken in the same command it is one mistake and not two.
            (Some(bracket), Some(scope @ (Scope::Object | Scope::Cache)))
                if block.serial != bracket.serial && freed_elsewhere(bracket.row(), scope) =>
            {
                let mut row = self.of_block(FindingKind::FreedInOtherCommand, who, owner, &block);
                (row.command, row.against) = (bracket.name, block.command);
                self.report(row);
            }
            (None, _) if self.may_record(owner) => {}
            (None, _) => {
                let row = self.of_block(FindingKind::FreedBetweenCommands, who, owner, &block);
                self.off_command(who, row, FindingKind::FreedOnForeignThread);
            }
            _ => {}
        }
        Pass::On
    }

    /// The owner of a block frees it after another one did: that other free was not passed on, then.
    #[cold]
    fn finish_free(&self, block: &BlockRecord<'t>, owner: &CallbackOwner<'t>) -> bool {
        self.may_pass(block, owner)
            && self
                .blocks
                .with(&BlockRecord::at(block.address()), |there| {
                    there.set_doubted(false)
                })
                .is_some()
    }

    /// A reallocation to size 0 through other callbacks than gave the block, of which a log does not say whether they are compatible.
    pub(crate) fn released_aside(&self, address: NonZeroU64) {
        let _ = self.blocks.with(&BlockRecord::at(address), |block| {
            if block.state() == BlockState::Live {
                block.set_state(BlockState::Gone);
                block.set_doubted(true);
            }
        });
    }

    #[cold]
    fn not_freed(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        block: &BlockRecord<'t>,
    ) {
        let kind = match block.state() {
            BlockState::Gone => FindingKind::FreedTwice,
            BlockState::Moving => FindingKind::FreedInTransit,
            BlockState::Live => FindingKind::FreedThroughOther,
        };
        let mut row = self.of_block(kind, who, owner, block);
        (row.command, row.against) = (
            who.command(),
            self.numbered(block.owner).map_or("", |owner| owner.kind),
        );
        self.report(row);
    }

    /// A block may go through these callbacks: they gave it, or are compatible with those that did (V42).
    #[inline]
    fn may_pass(&self, block: &BlockRecord<'t>, owner: &CallbackOwner<'t>) -> bool {
        block.owner == owner.number() || self.compatible(block.owner, owner)
    }

    #[cold]
    fn compatible(&self, number: u32, owner: &CallbackOwner<'t>) -> bool {
        let gave = self.numbered(number);
        // A log that names no owners says nothing against it.
        number == 0 || owner.id.is_none() || gave.is_none_or(|gave| gave.group == owner.group)
    }

    /// A row about a block and the command that took it.
    pub(super) fn of_block(
        &self,
        kind: FindingKind,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        block: &BlockRecord<'t>,
    ) -> FindingRow<'t> {
        FindingRow {
            command: block.command,
            ..self.row(kind, who, owner, block.scope())
        }
        .of_size(block.size())
    }

    /// A reallocation of a block to another size than 0. Before it is passed on.
    pub(crate) fn moving(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        address: NonZeroU64,
        asked: Option<BlockRequest>,
    ) -> Result<Moving<'t>, Pass> {
        // No two are alike, wherever they come from: by it each knows its own block again.
        let moved_by = self.moves.fetch_add(1, Ordering::Relaxed);
        let block = self.blocks.with(&BlockRecord::at(address), |block| {
            let before = *block;
            if before.state() == BlockState::Live && self.may_pass(&before, owner) {
                block.set_state(BlockState::Moving);
                block.moved_by = moved_by;
            }
            before
        });
        let scope = asked.and_then(BlockRequest::scope);
        let Some(mut block) = block else {
            self.report(FindingRow {
                module: self.module(),
                ..self.row(FindingKind::ReallocatedUnknown, who, owner, scope)
            });
            return Err(Pass::Not);
        };
        if block.state() != BlockState::Live || !self.may_pass(&block, owner) {
            let kind = if block.state() == BlockState::Live {
                FindingKind::ReallocatedThroughOther
            } else {
                FindingKind::ReallocatedFreed
            };
            let mut row = self.of_block(kind, who, owner, &block);
            (row.command, row.against) = (
                who.command(),
                self.numbered(block.owner).map_or("", |owner| owner.kind),
            );
            self.report(row);
            return Err(Pass::Not);
        }
        if let Some(asked) = asked {
            self.move_requested(who, owner, &block, asked);
        }
        block.moved_by = moved_by;
        Ok(block)
    }

    /// What the reallocation asked for: V15, and what holds for any request.
    pub(crate) fn move_requested(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        block: &Moving<'t>,
        asked: BlockRequest,
    ) {
        let scope = asked.scope();
        if !block.has_align(asked.align) {
            let alignments = block.align().map(|made| (made, asked.align));
            let row = self
                .row(FindingKind::OtherAlignment, who, owner, block.scope())
                .of_size(asked.size);
            self.report(FindingRow { alignments, ..row });
        }
        if scope.is_some() && !block.has_scope(asked) {
            self.report(
                self.row(FindingKind::OtherScope, who, owner, scope)
                    .of_size(asked.size),
            );
        }
        self.placed(who, owner, asked, scope);
    }

    /// The reallocation failed: the block stays (V16).
    pub(crate) fn not_moved(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        address: NonZeroU64,
        block: &Moving<'t>,
        tried: bool,
    ) {
        let stayed = self.blocks.with(&BlockRecord::at(address), |there| {
            let ours = there.state() == BlockState::Moving && there.moved_by == block.moved_by;
            if ours {
                *there = *block;
                if tried {
                    there.set_stays();
                }
            }
            ours
        });
        if stayed != Some(true) {
            self.discount(block, owner);
        }
        if stayed == Some(false) {
            self.report(self.of_block(FindingKind::OldBlockGivenAway, who, owner, block));
        }
    }

    /// The reallocation made a block.
    pub(crate) fn moved(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        (old, new): (NonZeroU64, NonZeroU64),
        block: &Moving<'t>,
        size: u64,
        room: &Promised<'_, '_, BlockRecord<'t>>,
    ) {
        let mut moved = block.moved_to(new);
        moved.set_size(size);
        if old != new {
            let _ = self.blocks.with(&BlockRecord::at(old), |there| {
                if there.state() == BlockState::Moving && there.moved_by == block.moved_by {
                    *there = *block;
                    there.set_state(BlockState::Gone);
                }
            });
        }
        let mut before = None;
        // There is room: it was promised.
        if room
            .put(moved, |there| {
                before = Some(core::mem::replace(there, moved))
            })
            .is_err()
        {
            self.lose_one();
            self.discount(block, owner);
        } else {
            self.counts_of(block, owner, |owner| owner.resize_usage(block, size));
        }
        if let Some(before) = before {
            if before.state() == BlockState::Live {
                self.discount(&before, owner);
            }
            let asked = BlockRequest {
                size,
                align: 1,
                scope: block.scope().map_or(-1, |scope| scope as i32),
            };
            self.address_returned_twice(who, owner, asked, &before);
        }
    }

    /// A reallocation to size 0 was answered with a block (V14).
    #[cold]
    pub(crate) fn zero_answered(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        asked: BlockRequest,
    ) {
        self.report(self.row(FindingKind::ZeroAnswered, who, owner, asked.scope()));
    }

    /// An internal notification: V20, V21, V35.
    pub(crate) fn notified(
        &self,
        who: &CallerContext<'_, 't>,
        owner: &CallbackOwner<'t>,
        event: NoticeEvent,
        size: u64,
        kind: RawInternalType,
        scope: RawScope,
    ) {
        let asked = BlockRequest {
            size,
            align: 1,
            scope,
        };
        let known = asked.scope();
        let row = |kind| self.row(kind, who, owner, known).of_size(size);
        let sums = self.first_of_group(owner.group).unwrap_or(owner);
        self.making(who, owner);
        match known {
            None => self.report(row(FindingKind::BadScope)),
            Some(_) if kind != INTERNAL_EXECUTABLE => self.report(row(FindingKind::InternalType)),
            Some(scope) => match event {
                NoticeEvent::Allocated => {
                    owner.notified.store(true, Ordering::Release);
                    self.note_notified();
                    sums.count_internal_allocation(scope, size);
                }
                NoticeEvent::Freed if sums.count_internal_free(scope, size) => {}
                NoticeEvent::Freed => self.report(row(FindingKind::InternalNegative)),
            },
        }
        if who.bracket.is_none() {
            self.off_command(
                who,
                row(FindingKind::NotifiedBetweenCommands),
                FindingKind::NotifiedOnForeignThread,
            );
        }
    }

    /// One block of scope command more or less of the running command.
    #[inline]
    pub(super) fn command_block(&self, who: &CallerContext<'_, 't>, counts: bool, by: i32) {
        if counts && let Some(bracket) = who.bracket {
            bracket
                .command_live
                .set(bracket.command_live.get().saturating_add_signed(by));
        }
    }
}
