#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::sync::atomic::Ordering;

use alloc_core::{HostError, NoticeEvent, Scope};

use super::allocator_rules::{Pass, freed_elsewhere, misplaced};
use super::engine::{CallbackCall, CallerContext, Engine};
use super::finding::{CheckFinding, FindingKind};
use super::owner::CallbackOwner;
use super::records::{BlockRecord, BlockRequest, BlockState, FindingRow, ReportedAs};
use super::table::Promised;
use crate::command::{Bracket, BracketCoverage, Creation};
use crate::commands::{AllocatorSource, CommandAction};
use crate::raw::{INTERNAL_EXECUTABLE, RawInternalType, RawScope};

#[derive(Clone, Copy)]
pub(crate) struct Moving<'t> {
    pub(crate) block: BlockRecord<'t>,
    number: u32,
    pub(crate) pass: Pass,
    through_other: bool,
}

impl<'t> Engine<'_, 't> {
    #[inline]
    pub(super) fn with_block<R>(&self, address: NonZeroU64, look: impl FnOnce(&mut BlockRecord<'t>) -> R) -> Option<R> {
        self.blocks.with(&BlockRecord::at(address), look)
    }

    #[inline]
    pub(crate) fn requested(&self, call: &CallbackCall<'_, 't>, request: BlockRequest) {
        let scope = request.scope();
        if !request.align.is_power_of_two() {
            let finding = call.finding(FindingKind::BadAlignment, scope);
            self.report(finding.of_size(request.size));
        }
        if request.size == 0 {
            self.report(call.finding(FindingKind::SizeZero, scope));
        }
        self.check_allocator(call, request, scope);
    }

    #[inline]
    fn check_allocator(&self, call: &CallbackCall<'_, 't>, request: BlockRequest, scope: Option<Scope>) {
        let finding = |kind| call.finding(kind, scope).of_size(request.size);
        let Some(scope) = scope else {
            return self.report(finding(FindingKind::BadScope));
        };
        let owner = call.owner;
        let Some(bracket) = call.caller.bracket else {
            if !self.may_record(owner) {
                self.report_outside_command(
                    &call.caller,
                    finding(FindingKind::AskedBetweenCommands),
                    FindingKind::AskedOnForeignThread,
                );
            }
            return;
        };
        if scope != Scope::Command && bracket.row().source(Scope::Object) == AllocatorSource::Pool {
            self.mark_drawn(bracket, owner);
        }
        let Some(id) = owner.id else { return };
        // The common case: the object's own allocator.
        let own = bracket.owners.object == Some(id) && matches!(scope, Scope::Object | Scope::Command);
        if own && bracket.row().may_allocate.contains(scope) {
            return;
        }
        if let Some(misplaced) = misplaced(bracket.row(), &bracket.owners, id, owner.kind, scope) {
            self.report(CheckFinding { against: self.kind_of(misplaced.instead_of), ..finding(misplaced.kind) });
        }
    }

    fn mark_drawn(&self, bracket: &Bracket<'t>, owner: &CallbackOwner<'t>) {
        let Some(id) = bracket.owners.object else {
            return;
        };
        let pool = if owner.id == Some(id) { Some(owner) } else { self.owner(id) };
        if let Some(pool) = pool.filter(|pool| !pool.drawn.load(Ordering::Relaxed)) {
            pool.drawn.store(true, Ordering::Relaxed);
        }
    }

    /// A recording command has no bracket.
    fn may_record(&self, owner: &CallbackOwner<'t>) -> bool {
        owner.is_for_recording() && self.coverage() == BracketCoverage::ExceptRecording
    }

    #[cold]
    fn report_outside_command(
        &self,
        caller: &CallerContext<'_, 't>,
        finding: CheckFinding<'t>,
        on_foreign_thread: FindingKind,
    ) {
        if !caller.known {
            return;
        }
        let mut row = FindingRow::from(finding);
        row.finding.on_thread = Some(caller.thread).filter(|thread| *thread != 0);
        if !caller.issued {
            row.finding.kind = on_foreign_thread;
            row.finding.during_commands = u64::from(self.some_command_runs());
            row.thread = caller.thread;
        }
        self.report_row(row);
    }

    #[cold]
    pub(crate) fn refused(&self, caller: &CallerContext<'_, 't>) {
        if let Some(bracket) = caller.bracket {
            bracket.null_answered();
        }
    }

    /// It is not refused if `room` has a slot for its record.
    #[inline]
    pub(crate) fn answered(
        &self,
        room: Option<&Promised<'_, '_, BlockRecord<'t>>>,
        call: &CallbackCall<'_, 't>,
        request: BlockRequest,
        address: NonZeroU64,
    ) -> Result<(), HostError> {
        let CallbackCall { caller, owner, callbacks } = *call;
        self.mark_creation(call);
        let block = BlockRecord::new(address, request, caller.serial(), caller.command(), (owner.number(), callbacks));
        owner.count_block(caller.thread);
        let mut before = None;
        let merge = |there: &mut BlockRecord<'t>| before = Some(core::mem::replace(there, block));
        let put = match room {
            None => self.blocks.put(block, merge),
            Some(room) => {
                room.put(block, merge);
                Ok(())
            }
        };
        if put.is_err() {
            owner.discount_block(caller.thread);
            return put;
        }
        owner.change_usage(block.scope(), None, Some(block.size));
        if let Some(before) = before {
            self.address_returned_twice(call, request.scope(), request.size, &before);
        }
        self.command_block(&caller, request.scope == Scope::Command as i32, 1);
        Ok(())
    }

    /// A block in transit is counted until its reallocation returns.
    #[inline]
    pub(super) fn discount(&self, block: &BlockRecord<'t>, call: &CallbackCall<'_, 't>) {
        if let Some(owner) = self.counted_by(block, call.owner) {
            owner.change_usage(block.scope(), Some(block.size), None);
            owner.discount_block(call.caller.thread);
        }
    }

    #[inline]
    fn counted_by<'o>(
        &'o self,
        block: &BlockRecord<'t>,
        owner: &'o CallbackOwner<'t>,
    ) -> Option<&'o CallbackOwner<'t>> {
        if block.owner == owner.number() { Some(owner) } else { self.numbered(block.owner) }
    }

    /// Called before the answer is recorded.
    #[inline]
    fn mark_creation(&self, call: &CallbackCall<'_, 't>) {
        let bracket = call.caller.bracket;
        let Some(bracket) = bracket.filter(|bracket| bracket.creation.get().is_none()) else {
            return;
        };
        let (row, owners, owner) = (bracket.row(), &bracket.owners, call.owner);
        let own = match (row.action, row.object) {
            (CommandAction::Create, "VkInstance") => owners.instance,
            (CommandAction::Create, "VkDevice") => owners.device,
            (CommandAction::Create | CommandAction::Join, _) => owners.object,
            _ => return,
        };
        if own.is_some() && own == owner.id {
            owner.begin_creation();
            let many = row.many || row.action == CommandAction::Join;
            bracket.creation.set(Some(Creation::new(owner.number(), many)));
        }
    }

    fn address_returned_twice(
        &self,
        call: &CallbackCall<'_, 't>,
        scope: Option<Scope>,
        size: u64,
        before: &BlockRecord<'t>,
    ) {
        // A freed block is none, and a running reallocation has freed its block already.
        if before.state != BlockState::Live {
            return;
        }
        self.discount(before, call);
        let kind = if before.stays { FindingKind::OldBlockGivenAway } else { FindingKind::LiveBlockGivenAgain };
        self.report(call.finding(kind, scope).of_size(size));
    }

    #[cold]
    pub(crate) fn misaligned(&self, call: &CallbackCall<'_, 't>, request: BlockRequest) {
        let finding = call.finding(FindingKind::MisalignedAnswer, request.scope());
        self.report(finding.of_size(request.size));
    }

    /// Only in a log. True if the old block was live: then the new one's owner is doubtful.
    pub(crate) fn moved_despite_refusal(&self, old: NonZeroU64) -> bool {
        let before = self.with_block(old, |block| {
            let before = block.state;
            block.state = BlockState::Gone;
            before
        });
        before == Some(BlockState::Live)
    }

    pub(crate) fn doubt_owner(&self, address: NonZeroU64) {
        let _ = self.with_block(address, |block| block.doubted = true);
    }

    pub(crate) fn is_moving(&self, address: NonZeroU64) -> bool {
        self.with_block(address, |block| block.state) == Some(BlockState::Moving)
    }

    pub(crate) fn request_of(&self, address: Option<NonZeroU64>) -> Option<BlockRequest> {
        self.with_block(address?, |block| block.request())
    }

    /// Called before the call is passed on: afterwards the address may be another block's.
    #[inline]
    pub(crate) fn released(&self, call: &CallbackCall<'_, 't>, address: NonZeroU64) -> Pass {
        let CallbackCall { caller, owner, .. } = call;
        let block = self.with_block(address, |block| {
            let before = *block;
            let may_pass = self.may_pass(&before, call);
            let pass = self.way_of(&before, call, may_pass);
            if before.state == BlockState::Live {
                if pass != Pass::Not || !self.groups_reported {
                    block.state = BlockState::Gone;
                    // A log does not say which callbacks are compatible: the block may have been freed, or not.
                    block.doubted = pass == Pass::Not;
                } else {
                    // It stays, and the finding says why: it is no leftover besides.
                    block.reported_as = ReportedAs::End;
                }
            }
            (before, may_pass, pass)
        });
        let Some((block, may_pass, pass)) = block else {
            self.unknown_pointer(call, FindingKind::FreedUnknown, None);
            return Pass::Not;
        };
        if block.doubted && block.state == BlockState::Gone && self.finish_free(&block, call) {
            return Pass::On;
        }
        let wrong = match block.state {
            BlockState::Gone => Some(FindingKind::FreedTwice),
            BlockState::Moving => Some(FindingKind::FreedInTransit),
            BlockState::Live => None,
        };
        if let Some(kind) = wrong {
            self.misused(call, kind, &block);
            return Pass::Not;
        }
        if !may_pass {
            self.misused(call, FindingKind::FreedThroughOther, &block);
            if self.groups_reported {
                self.withdraw_leftover(&block);
            }
            if pass != Pass::Not {
                self.discount(&block, call);
                self.discount_command_block(caller, &block);
            }
            return pass;
        }
        self.discount(&block, call);
        self.discount_command_block(caller, &block);
        if block.reported_as != ReportedAs::Nothing {
            self.leaked_block_freed(caller, &block);
        }
        match (caller.bracket, block.scope()) {
            // If the same command allocated the block, it is one mistake and not two.
            (Some(bracket), Some(scope @ (Scope::Object | Scope::Cache)))
                if block.serial != bracket.serial && freed_elsewhere(bracket.row(), scope) =>
            {
                self.report(CheckFinding {
                    command: bracket.name,
                    against: block.command,
                    ..call.finding_of_block(FindingKind::FreedInOtherCommand, &block)
                });
            }
            (None, _) if !self.may_record(owner) => self.report_outside_command(
                caller,
                call.finding_of_block(FindingKind::FreedBetweenCommands, &block),
                FindingKind::FreedOnForeignThread,
            ),
            _ => {}
        }
        Pass::On
    }

    pub(crate) fn freed_null(&self, call: &CallbackCall<'_, 't>) {
        self.report(call.finding(FindingKind::NullFree, None));
    }

    /// Another owner's free was not passed on, if the owner of the block frees it now.
    #[cold]
    fn finish_free(&self, block: &BlockRecord<'t>, call: &CallbackCall<'_, 't>) -> bool {
        self.may_pass(block, call) && self.with_block(block.address, |there| there.doubted = false).is_some()
    }

    pub(crate) fn released_through_other(&self, address: NonZeroU64) {
        let _ = self.with_block(address, |block| {
            if block.state == BlockState::Live {
                block.state = BlockState::Gone;
                block.doubted = true;
            }
        });
    }

    #[cold]
    fn unknown_pointer(&self, call: &CallbackCall<'_, 't>, kind: FindingKind, scope: Option<Scope>) {
        self.report(CheckFinding { module: self.module(), ..call.finding(kind, scope) });
    }

    #[cold]
    fn misused(&self, call: &CallbackCall<'_, 't>, kind: FindingKind, block: &BlockRecord<'t>) {
        self.report(CheckFinding {
            command: call.caller.command(),
            against: self.numbered(block.owner).map_or("", |owner| owner.kind),
            ..call.finding_of_block(kind, block)
        });
    }

    /// None if the call is not passed on.
    pub(crate) fn moving(
        &self,
        call: &CallbackCall<'_, 't>,
        address: NonZeroU64,
        scope: Option<Scope>,
    ) -> Option<Moving<'t>> {
        // Unique: each reallocation recognises its own block by it.
        let number = self.moves.fetch_add(1, Ordering::Relaxed);
        let moving = self.with_block(address, |block| {
            let may_pass = self.may_pass(block, call);
            let moving =
                Moving { block: *block, number, pass: self.way_of(block, call, may_pass), through_other: !may_pass };
            if block.state == BlockState::Live && moving.pass != Pass::Not {
                block.state = BlockState::Moving;
                block.tag = number;
            }
            moving
        });
        let Some(moving) = moving else {
            self.unknown_pointer(call, FindingKind::ReallocatedUnknown, scope);
            return None;
        };
        if moving.block.state != BlockState::Live {
            self.misused(call, FindingKind::ReallocatedFreed, &moving.block);
            return None;
        }
        if moving.through_other {
            self.misused(call, FindingKind::ReallocatedThroughOther, &moving.block);
        }
        (moving.pass != Pass::Not).then_some(moving)
    }

    pub(crate) fn move_requested(&self, call: &CallbackCall<'_, 't>, moving: &Moving<'t>, request: BlockRequest) {
        let (block, scope) = (&moving.block, request.scope());
        if block.align != request.align {
            let finding = call.finding(FindingKind::OtherAlignment, block.scope());
            self.report(CheckFinding {
                alignments: Some((block.align, request.align)),
                ..finding.of_size(request.size)
            });
        }
        if scope.is_some() && block.scope() != scope {
            let finding = call.finding(FindingKind::OtherScope, scope);
            self.report(finding.of_size(request.size));
        }
        if !moving.through_other {
            self.check_allocator(call, request, scope);
        }
    }

    pub(crate) fn not_moved(&self, call: &CallbackCall<'_, 't>, address: NonZeroU64, moving: &Moving<'t>, tried: bool) {
        let block = &moving.block;
        let stayed = self.with_block(address, |there| {
            let ours = there.is_moved_by(moving.number);
            if ours {
                *there = *block;
                if tried {
                    there.stays = true;
                }
            }
            ours
        });
        if stayed != Some(true) {
            self.discount(block, call);
        }
        if stayed == Some(false) {
            self.report(call.finding_of_block(FindingKind::OldBlockGivenAway, block));
        }
    }

    pub(crate) fn moved(
        &self,
        call: &CallbackCall<'_, 't>,
        (old, new): (NonZeroU64, NonZeroU64),
        moving: &Moving<'t>,
        size: u64,
        room: &Promised<'_, '_, BlockRecord<'t>>,
    ) {
        let block = &moving.block;
        let moved = BlockRecord { address: new, size, ..*block };
        if old != new {
            let _ = self.with_block(old, |there| {
                if there.is_moved_by(moving.number) {
                    *there = *block;
                    there.state = BlockState::Gone;
                }
            });
        }
        let mut before = None;
        let merge = |there: &mut BlockRecord<'t>| before = Some(core::mem::replace(there, moved));
        let record = || {
            room.put(moved, merge);
            if old != new {
                // A search for leftovers may have passed the block's new place.
                self.blocks.entry_moved();
            }
        };
        if let Some(owner) = self.counted_by(block, call.owner) {
            owner.move_block(call.caller.thread, record);
            owner.change_usage(block.scope(), Some(block.size), Some(size));
        } else {
            record();
        }
        if let Some(before) = before {
            self.address_returned_twice(call, block.scope(), size, &before);
        }
    }

    #[cold]
    pub(crate) fn zero_answered(&self, call: &CallbackCall<'_, 't>, scope: Option<Scope>) {
        self.report(call.finding(FindingKind::ZeroAnswered, scope));
    }

    pub(crate) fn notified(
        &self,
        call: &CallbackCall<'_, 't>,
        event: NoticeEvent,
        size: u64,
        kind: RawInternalType,
        scope: RawScope,
    ) {
        let request = BlockRequest { size, align: 1, scope };
        let (scope, owner) = (request.scope(), call.owner);
        let finding = |kind| call.finding(kind, scope).of_size(size);
        let sums = self.first_of_group(owner.group).unwrap_or(owner);
        self.mark_creation(call);
        match (scope, event) {
            (None, _) => self.report(finding(FindingKind::BadScope)),
            _ if kind != INTERNAL_EXECUTABLE => self.report(finding(FindingKind::InternalType)),
            (Some(scope), NoticeEvent::Allocated) => {
                owner.notified.store(true, Ordering::Release);
                self.is_notified.store(true, Ordering::Release);
                sums.count_internal_allocation(scope, size);
            }
            (Some(scope), NoticeEvent::Freed) => {
                if !sums.count_internal_free(scope, size) {
                    self.report(finding(FindingKind::InternalNegative));
                }
            }
        }
        if call.caller.bracket.is_none() {
            self.report_outside_command(
                &call.caller,
                finding(FindingKind::NotifiedBetweenCommands),
                FindingKind::NotifiedOnForeignThread,
            );
        }
    }

    #[inline]
    fn command_block(&self, caller: &CallerContext<'_, 't>, counts: bool, by: i32) {
        if counts && let Some(bracket) = caller.bracket {
            bracket.command_live.set(bracket.command_live.get().saturating_add_signed(by));
        }
    }

    #[inline]
    pub(super) fn discount_command_block(&self, caller: &CallerContext<'_, 't>, block: &BlockRecord<'t>) {
        let is_own = block.scope() == Some(Scope::Command) && block.serial == caller.serial();
        self.command_block(caller, is_own, -1);
    }
}
