//! The rules, applied to the calls of callbacks. What is said about a call is said before it is passed on, what about its answer
//! when that is there.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::sync::atomic::Ordering;

use alloc_core::{NoticeEvent, Scope};

use super::block::{Asked, Block, State, Told};
use super::bracket::Bracket;
use super::chain::{freed_elsewhere, misplaced};
use super::engine::{Engine, Who};
use super::kind::FindingKind;
use super::owner::{Making, Owner};
use super::row::Row;
use super::table::{NoRoom, Promised};
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
pub(crate) type Moving<'t> = Block<'t>;

impl<'t> Engine<'_, 't> {
    /// A request: V7, V22, V23, V35, and the right allocator. Before it is passed on.
    #[inline]
    pub(crate) fn requested(&self, who: &Who<'_, 't>, owner: &Owner<'t>, asked: Asked) {
        let scope = asked.scope();
        if !asked.align.is_power_of_two() {
            self.report(self.row(FindingKind::BadAlignment, who, owner, scope).of_size(asked.size));
        }
        if asked.size == 0 {
            self.report(self.row(FindingKind::SizeZero, who, owner, scope));
        }
        self.placed(who, owner, asked, scope);
    }

    #[inline]
    fn placed(&self, who: &Who<'_, 't>, owner: &Owner<'t>, asked: Asked, scope: Option<Scope>) {
        let Some(scope) = scope else {
            return self.report(self.row(FindingKind::BadScope, who, owner, None).of_size(asked.size));
        };
        let Some(bracket) = who.bracket else {
            let kinds = (FindingKind::AskedBetweenCommands, FindingKind::AskedOnForeignThread);
            return self.off_command(who, self.row(kinds.0, who, owner, Some(scope)).of_size(asked.size), kinds.1);
        };
        if scope != Scope::Command && bracket.row().source(Scope::Object) == AllocatorSource::Pool {
            self.drawn(bracket, owner);
        }
        let Some(id) = owner.id else { return };
        // The common case, which `misplaced` would have nothing to say about either: an object's own allocator.
        let own = bracket.owners.object == Some(id) && matches!(scope, Scope::Object | Scope::Command);
        if own && bracket.row().may_allocate.contains(scope) {
            return;
        }
        if let Some(found) = misplaced(bracket.row(), &bracket.owners, id, owner.kind, scope) {
            let mut row = self.row(found.kind, who, owner, Some(scope)).of_size(asked.size);
            row.against = self.kind_of(found.instead_of);
            self.report(row);
        }
    }

    /// A command on a pool asks for memory.
    fn drawn(&self, bracket: &Bracket<'t>, asked: &Owner<'t>) {
        let Some(id) = bracket.owners.object else { return };
        let pool = if asked.id == Some(id) { Some(asked) } else { self.owner(id) };
        if let Some(pool) = pool.filter(|pool| !pool.drawn.load(Ordering::Relaxed)) {
            pool.drawn.store(true, Ordering::Relaxed);
        }
    }

    /// A call outside of a command: on a thread that has issued one, or never has.
    #[cold]
    fn off_command(&self, who: &Who<'_, 't>, mut row: Row<'t>, on_foreign_thread: FindingKind) {
        if !who.known {
            return;
        }
        row.on_thread = Some(who.thread).filter(|thread| *thread != 0);
        if !who.issued {
            row.kind = on_foreign_thread;
            row.thread = who.thread;
            row.during_commands = u64::from(self.running.load(Ordering::Relaxed) > 0);
        }
        self.report(row);
    }

    /// A request was answered with NULL.
    #[cold]
    pub(crate) fn refused(&self, who: &Who<'_, 't>) {
        if let Some(bracket) = who.bracket {
            bracket.null_answered();
        }
    }

    /// A request was answered with a block.
    #[inline]
    pub(crate) fn answered(&self, who: &Who<'_, 't>, owner: &Owner<'t>, asked: Asked, address: NonZeroU64) -> Result<(), NoRoom> {
        self.answered_in(None, who, owner, asked, address)
    }

    /// As [`Engine::answered`]; not refused where there is room for the block.
    #[inline]
    pub(crate) fn answered_in(
        &self,
        room: Option<&Promised<'_, '_, Block<'t>>>,
        who: &Who<'_, 't>,
        owner: &Owner<'t>,
        asked: Asked,
        address: NonZeroU64,
    ) -> Result<(), NoRoom> {
        self.making(who, owner);
        let block = Block::new(address, asked, who.serial(), who.command(), owner.number());
        let mut before = None;
        let merge = |there: &mut Block<'t>| before = Some(core::mem::replace(there, block));
        match room {
            None => self.blocks.put(block, merge)?,
            Some(room) => room.put(block, merge)?,
        }
        if let Some(before) = before {
            self.given_again(who, owner, asked, &before);
        }
        self.command_block(who, asked.scope == Scope::Command as i32, 1);
        Ok(())
    }

    /// A command that makes an object asks that one's own callbacks. Before what came is put on record.
    #[inline]
    fn making(&self, who: &Who<'_, 't>, owner: &Owner<'t>) {
        let Some(bracket) = who.bracket.filter(|bracket| bracket.making.get().is_none()) else { return };
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
            bracket.making.set(Some(Making { owner: owner.number(), many }));
        }
    }

    /// The address of a block that is live, or must stay: V8, V16.
    fn given_again(&self, who: &Who<'_, 't>, owner: &Owner<'t>, asked: Asked, before: &Block<'t>) {
        let kind = match before.state() {
            State::Live if before.stays() => FindingKind::OldBlockGivenAway,
            State::Live => FindingKind::LiveBlockGivenAgain,
            // Gone, or its reallocation has let go of it already.
            State::Gone | State::Moving => return,
        };
        self.report(self.row(kind, who, owner, asked.scope()).of_size(asked.size));
    }

    /// The application's pointer is not aligned as was asked (V8).
    #[cold]
    pub(crate) fn misaligned(&self, who: &Who<'_, 't>, owner: &Owner<'t>, asked: Asked) {
        self.report(self.row(FindingKind::MisalignedAnswer, who, owner, asked.scope()).of_size(asked.size));
    }

    /// A reallocation that was not to be has made another block of it: what was there is gone.
    pub(crate) fn moved_all_the_same(&self, old: NonZeroU64) {
        let _ = self.blocks.with(&Block::at(old), |block| block.set_state(State::Gone));
    }

    /// What a block that is on record was asked for; the alignment is not told.
    pub(crate) fn asked_for(&self, address: Option<NonZeroU64>) -> Option<Asked> {
        let block = self.blocks.with(&Block::at(address?), |block| *block)?;
        Some(Asked { size: block.size(), align: 1, scope: block.scope().map_or(-1, |scope| scope as i32) })
    }

    /// A free, or a reallocation to size 0. Before it is passed on; afterwards the address may be somebody else's.
    #[inline]
    pub(crate) fn released(&self, who: &Who<'_, 't>, owner: &Owner<'t>, address: NonZeroU64) -> Pass {
        let block = self.blocks.with(&Block::at(address), |block| {
            let before = *block;
            let may_pass = self.may_pass(&before, owner);
            // A log does not say whose callbacks are compatible: it may have gone, or not.
            if before.state() == State::Live && (may_pass || !self.groups_told) {
                block.set_state(State::Gone);
                block.set_doubted(!may_pass);
            }
            before
        });
        let Some(block) = block else {
            self.report(self.row(FindingKind::FreedUnknown, who, owner, None));
            return Pass::Not;
        };
        if block.doubted() && block.state() == State::Gone && self.settle(&block, owner) {
            return Pass::On;
        }
        if block.state() != State::Live || !self.may_pass(&block, owner) {
            self.not_freed(who, owner, &block);
            return Pass::Not;
        }
        self.command_block(who, block.scope() == Some(Scope::Command) && block.serial == who.serial(), -1);
        if block.told() != Told::Nothing {
            self.came_back(who, &block);
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
    fn settle(&self, block: &Block<'t>, owner: &Owner<'t>) -> bool {
        self.may_pass(block, owner) && self.blocks.with(&Block::at(block.address()), |there| there.set_doubted(false)).is_some()
    }

    /// A reallocation to size 0 through other callbacks than gave the block, of which a log does not say whether they are compatible.
    pub(crate) fn released_aside(&self, address: NonZeroU64) {
        let _ = self.blocks.with(&Block::at(address), |block| {
            if block.state() == State::Live {
                block.set_state(State::Gone);
                block.set_doubted(true);
            }
        });
    }

    #[cold]
    fn not_freed(&self, who: &Who<'_, 't>, owner: &Owner<'t>, block: &Block<'t>) {
        let kind = match block.state() {
            State::Gone => FindingKind::FreedTwice,
            State::Moving => FindingKind::FreedInTransit,
            State::Live => FindingKind::FreedThroughOther,
        };
        let mut row = self.of_block(kind, who, owner, block);
        (row.command, row.against) = (who.command(), self.numbered(block.owner).map_or("", |owner| owner.kind));
        self.report(row);
    }

    /// A block may go through these callbacks: they gave it, or are compatible with those that did (V42).
    #[inline]
    fn may_pass(&self, block: &Block<'t>, owner: &Owner<'t>) -> bool {
        block.owner == owner.number() || self.compatible(block.owner, owner)
    }

    #[cold]
    fn compatible(&self, number: u32, owner: &Owner<'t>) -> bool {
        let gave = self.numbered(number);
        // A log that names no owners says nothing against it.
        number == 0 || owner.id.is_none() || gave.is_none_or(|gave| gave.group == owner.group)
    }

    /// A row about a block and the command that took it.
    fn of_block(&self, kind: FindingKind, who: &Who<'_, 't>, owner: &Owner<'t>, block: &Block<'t>) -> Row<'t> {
        Row { command: block.command, ..self.row(kind, who, owner, block.scope()) }.of_size(block.size())
    }

    /// A reallocation of a block to another size than 0. Before it is passed on.
    pub(crate) fn moving(
        &self,
        who: &Who<'_, 't>,
        owner: &Owner<'t>,
        address: NonZeroU64,
        asked: Option<Asked>,
    ) -> Result<Moving<'t>, Pass> {
        // No two are alike, wherever they come from: by it each knows its own block again.
        let moved_by = self.moves.fetch_add(1, Ordering::Relaxed);
        let block = self.blocks.with(&Block::at(address), |block| {
            let before = *block;
            if before.state() == State::Live && self.may_pass(&before, owner) {
                block.set_state(State::Moving);
                block.moved_by = moved_by;
            }
            before
        });
        let scope = asked.and_then(Asked::scope);
        let Some(mut block) = block else {
            self.report(self.row(FindingKind::ReallocatedUnknown, who, owner, scope));
            return Err(Pass::Not);
        };
        if block.state() != State::Live || !self.may_pass(&block, owner) {
            let kind =
                if block.state() == State::Live { FindingKind::ReallocatedThroughOther } else { FindingKind::ReallocatedFreed };
            let mut row = self.of_block(kind, who, owner, &block);
            (row.command, row.against) = (who.command(), self.numbered(block.owner).map_or("", |owner| owner.kind));
            self.report(row);
            return Err(Pass::Not);
        }
        if let Some(asked) = asked {
            self.move_asked(who, owner, &block, asked);
        }
        block.moved_by = moved_by;
        Ok(block)
    }

    /// What the reallocation asked for: V15, and what holds for any request.
    pub(crate) fn move_asked(&self, who: &Who<'_, 't>, owner: &Owner<'t>, block: &Moving<'t>, asked: Asked) {
        let scope = asked.scope();
        if !block.has_align(asked.align) {
            let alignments = block.align().map(|made| (made, asked.align));
            let row = self.row(FindingKind::OtherAlignment, who, owner, block.scope()).of_size(asked.size);
            self.report(Row { alignments, ..row });
        }
        if scope.is_some() && !block.has_scope(asked) {
            self.report(self.row(FindingKind::OtherScope, who, owner, scope).of_size(asked.size));
        }
        self.placed(who, owner, asked, scope);
    }

    /// The reallocation failed: the block stays (V16).
    pub(crate) fn not_moved(&self, who: &Who<'_, 't>, owner: &Owner<'t>, address: NonZeroU64, block: &Moving<'t>, tried: bool) {
        let stayed = self.blocks.with(&Block::at(address), |there| {
            let ours = there.state() == State::Moving && there.moved_by == block.moved_by;
            if ours {
                *there = *block;
                if tried {
                    there.set_stays();
                }
            }
            ours
        });
        if stayed == Some(false) {
            self.report(self.of_block(FindingKind::OldBlockGivenAway, who, owner, block));
        }
    }

    /// The reallocation made a block.
    pub(crate) fn moved(
        &self,
        who: &Who<'_, 't>,
        owner: &Owner<'t>,
        (old, new): (NonZeroU64, NonZeroU64),
        block: &Moving<'t>,
        size: u64,
        room: &Promised<'_, '_, Block<'t>>,
    ) {
        let mut moved = block.moved_to(new);
        moved.set_size(size);
        if old != new {
            let _ = self.blocks.with(&Block::at(old), |there| {
                if there.state() == State::Moving && there.moved_by == block.moved_by {
                    *there = *block;
                    there.set_state(State::Gone);
                }
            });
        }
        let mut before = None;
        // There is room: it was promised.
        if room.put(moved, |there| before = Some(core::mem::replace(there, moved))).is_err() {
            self.lose_one();
        }
        if let Some(before) = before {
            let asked = Asked { size, align: 1, scope: block.scope().map_or(-1, |scope| scope as i32) };
            self.given_again(who, owner, asked, &before);
        }
    }

    /// A reallocation to size 0 was answered with a block (V14).
    #[cold]
    pub(crate) fn zero_answered(&self, who: &Who<'_, 't>, owner: &Owner<'t>, asked: Asked) {
        self.report(self.row(FindingKind::ZeroAnswered, who, owner, asked.scope()));
    }

    /// A free of NULL: legal (V18).
    #[cold]
    pub(crate) fn freed_null(&self, who: &Who<'_, 't>, owner: &Owner<'t>) {
        self.report(self.row(FindingKind::NullFree, who, owner, None));
    }

    /// An internal notification: V20, V21, V35.
    pub(crate) fn notified(
        &self,
        who: &Who<'_, 't>,
        owner: &Owner<'t>,
        event: NoticeEvent,
        size: u64,
        kind: RawInternalType,
        scope: RawScope,
    ) {
        let asked = Asked { size, align: 1, scope };
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
                    sums.internal_taken(scope, size);
                }
                NoticeEvent::Freed if sums.internal_given(scope, size) => {}
                NoticeEvent::Freed => self.report(row(FindingKind::InternalNegative)),
            },
        }
        if who.bracket.is_none() {
            self.off_command(who, row(FindingKind::NotifiedBetweenCommands), FindingKind::NotifiedOnForeignThread);
        }
    }

    /// One block of scope command more or less of the running command.
    #[inline]
    fn command_block(&self, who: &Who<'_, 't>, counts: bool, by: i32) {
        if counts && let Some(bracket) = who.bracket {
            bracket.command_live.set(bracket.command_live.get().saturating_add_signed(by));
        }
    }
}
