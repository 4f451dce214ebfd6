#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::sync::atomic::Ordering;

use alloc_core::Scope;

use super::engine::{CallbackCall, CallerContext, Engine};
use super::finding::{CheckFinding, FindingKind};
use super::owner::CallbackOwner;
use super::records::{BlockRecord, BlockState, FindingRow, HandleRecord, ReportedAs};
use super::table::Cursor;
use crate::command::{Bracket, Creation, OwnerId};
use crate::error::VK_ERROR_OUT_OF_HOST_MEMORY;
use crate::raw::RawCallbacks;
use crate::trace::Sighting;

pub(crate) type Blocks<'a> = &'a mut dyn Iterator<Item = NonZeroU64>;

impl<'t> Engine<'_, 't> {
    pub(crate) fn registered(&self, owner: &CallbackOwner<'t>, raw: &RawCallbacks) {
        for what in Sighting::missing_fact(raw) {
            self.seen(&CallbackCall::unknown(owner), what);
        }
    }

    #[cold]
    pub(crate) fn seen(&self, call: &CallbackCall<'_, 't>, what: Sighting) {
        let kind = match what {
            Sighting::NoAllocation => FindingKind::MissingAllocation,
            Sighting::NoReallocation => FindingKind::MissingReallocation,
            Sighting::NoFree => FindingKind::MissingFree,
            Sighting::HalfInternal => FindingKind::HalfInternal,
            Sighting::UnknownUserData => FindingKind::UnknownUserData,
            Sighting::OldStruct => FindingKind::OldStructUsed,
            Sighting::Misaligned => FindingKind::MisalignedAnswer,
        };
        self.report(call.finding(kind, None));
    }

    #[inline]
    pub(crate) fn command_begins(&self, bracket: &Bracket<'t>, at: u64, in_callback: bool) {
        self.cover(bracket.coverage);
        if in_callback {
            self.report(finding_of_command(FindingKind::CommandInCallback, bracket, at));
        }
    }

    /// `blocks` are the blocks of scope command that it may have left; none means all blocks.
    #[inline]
    pub(crate) fn command_returned(&self, bracket: &Bracket<'t>, at: u64, blocks: Option<Blocks<'_>>) {
        if bracket.command_live.get() > 0 {
            let serial = bracket.serial;
            self.report_leftovers(FindingKind::CommandBlockLeft, ReportedAs::Command, "", blocks, |block| {
                block.serial == serial && block.scope() == Some(Scope::Command)
            });
        }
        let (result, nulls) = (bracket.result.get(), bracket.nulls.get());
        if result >= 0 && bracket.allocates() {
            self.count_filled(bracket);
        }
        if result < 0 {
            let kind = match (result == VK_ERROR_OUT_OF_HOST_MEMORY, nulls) {
                (true, 0) => FindingKind::OutOfMemoryWithoutNull,
                (false, 1..) => FindingKind::OtherErrorAfterNull,
                _ => return,
            };
            self.report(finding_of_command(kind, bracket, at));
        }
    }

    fn count_filled(&self, bracket: &Bracket<'t>) {
        if let Some(pool) = bracket.owners.object.and_then(|id| self.owner(id)) {
            pool.filled.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn report_never_drawn(&self, owner: &CallbackOwner<'t>) {
        if let Some(finding) = owner.finding_never_drawn() {
            owner.filled.store(0, Ordering::Relaxed);
            self.report(finding);
        }
    }

    pub(crate) fn report_leftovers(
        &self,
        kind: FindingKind,
        reported: ReportedAs,
        against: &'t str,
        blocks: Option<Blocks<'_>>,
        of: impl Fn(&BlockRecord<'t>) -> bool,
    ) {
        let report = |block: &BlockRecord<'t>| {
            self.report(self.finding_left(kind, against, block));
        };
        if let Some(blocks) = blocks {
            for address in blocks {
                let left = self.with_block(address, |block| is_left(block, reported, &of).then_some(*block));
                left.flatten().iter().for_each(report);
            }
            return;
        }
        let (mut moves, mut cursor) = (self.blocks.moves(), Cursor::default());
        loop {
            let left = self.blocks.next(&mut cursor, |block| is_left(block, reported, &of));
            left.iter().for_each(report);
            // If blocks moved meanwhile, some may have been missed.
            if self.blocks.moves() != moves {
                (moves, cursor) = (self.blocks.moves(), Cursor::default());
            } else if left.is_none() {
                return;
            }
        }
    }

    pub(crate) fn finding_left(
        &self,
        kind: FindingKind,
        against: &'t str,
        block: &BlockRecord<'t>,
    ) -> CheckFinding<'t> {
        let owner = self.numbered(block.owner);
        CheckFinding {
            owner: owner.and_then(|owner| owner.id),
            owner_kind: owner.map_or("", |owner| owner.kind),
            command: block.command,
            against,
            scope: block.scope(),
            first_serial: block.serial,
            ..CheckFinding::one(kind)
        }
        .of_size(block.size)
    }

    #[cold]
    pub(crate) fn leaked_block_freed(&self, caller: &CallerContext<'_, 't>, block: &BlockRecord<'t>) {
        self.change_leftover(block, |left| {
            left.freed_later = left.freed_later.saturating_add(1);
            left.freed_in = caller.command();
        });
    }

    /// The finding that a block is freed through other callbacks takes the place of the one that reported it as left.
    #[cold]
    pub(crate) fn withdraw_leftover(&self, block: &BlockRecord<'t>) {
        self.change_leftover(block, |left| {
            left.count = left.count.saturating_sub(1);
            left.bytes = left.bytes.saturating_sub(block.size);
        });
    }

    fn change_leftover(&self, block: &BlockRecord<'t>, change: impl Fn(&mut CheckFinding<'t>)) {
        let kind = match block.reported_as {
            ReportedAs::Command => FindingKind::CommandBlockLeft,
            ReportedAs::Destroy => FindingKind::LiveAfterDestroy,
            ReportedAs::End => FindingKind::LiveAtEnd,
            ReportedAs::Nothing => return,
        };
        let key = FindingRow::key_of_left(kind, block.owner, block.command, block.scope());
        self.change_among(key, |row| {
            let left = &mut row.finding;
            let of_it = left.kind == kind
                && left.owner.map_or(0, OwnerId::get) == block.owner
                && (left.command, left.scope) == (block.command, block.scope())
                && left.freed_later < left.count;
            if of_it {
                change(left);
            }
            of_it
        });
    }

    /// The object was reported, or never will be. `owner` may be its owner.
    pub(crate) fn object_created(&self, creation: Creation, owner: Option<&CallbackOwner<'t>>) {
        let known = owner.filter(|owner| owner.number() == creation.owner());
        if let Some(owner) = known.or_else(|| self.numbered(creation.owner())) {
            owner.count_created();
        }
    }

    /// If the owners of a handle differ, or it comes again before its destruction, the destroyed object is ambiguous.
    pub(crate) fn created(&self, kind: &'t str, handle: u64, owner: Option<&CallbackOwner<'t>>) {
        if handle == 0 {
            return;
        }
        let record =
            HandleRecord { handle, kind, owner: owner.map_or(0, CallbackOwner::number), times: 1, mixed: false };
        let mut lived = false;
        let put = self.handles.put(record, |there| {
            lived = there.times > 0;
            *there = HandleRecord {
                times: there.times.saturating_add(1),
                mixed: lived && (there.mixed || there.owner != record.owner),
                ..record
            };
        });
        if put.is_err() {
            return self.lose_handle();
        }
        if !lived {
            self.count_handle(kind);
        }
        if let Some(owner) = owner {
            owner.objects.fetch_add(1, Ordering::AcqRel);
            owner.objects_reported.store(true, Ordering::Release);
        }
    }

    /// Returns the owner of the object's callbacks, if it was the last object of that owner.
    pub(crate) fn destroyed<'e>(
        &'e self,
        caller: &CallerContext<'_, 't>,
        kind: &'t str,
        handle: u64,
        owner: Option<&'e CallbackOwner<'t>>,
        command: &'t str,
    ) -> Option<&'e CallbackOwner<'t>> {
        if handle == 0 {
            return None;
        }
        let like = HandleRecord { handle, kind, owner: 0, times: 0, mixed: false };
        let record = self.handles.with(&like, |record| {
            let before = *record;
            record.times = record.times.saturating_sub(1);
            before
        });
        let finding = |kind_of_finding| CheckFinding {
            owner: owner.and_then(|owner| owner.id),
            owner_kind: kind,
            command,
            first_serial: caller.at,
            ..CheckFinding::one(kind_of_finding)
        };
        let Some(record) = record.filter(|record| record.times > 0) else {
            self.report(finding(FindingKind::UnknownHandle));
            return None;
        };
        if record.times == 1 {
            self.discount_handle(kind);
        }
        if record.mixed {
            // The owner is ambiguous: no count is lowered, and leftovers are reported at the end.
            return None;
        }
        let same = owner.filter(|owner| owner.number() == record.owner);
        let creator = same.or_else(|| OwnerId::from_number(record.owner).and_then(|id| self.owner(id)));
        match (creator, owner) {
            (None, Some(_)) => self.report(finding(FindingKind::OnlyAtDestroy)),
            (Some(creator), None) => {
                self.report(CheckFinding { owner: creator.id, ..finding(FindingKind::NoneAtDestroy) })
            }
            (Some(creator), Some(owner)) if creator.group != owner.group => {
                self.report(CheckFinding {
                    owner: creator.id,
                    passed: owner.id,
                    against: owner.kind,
                    ..finding(FindingKind::OtherGroupAtDestroy)
                });
            }
            _ => {}
        }
        creator.filter(|creator| creator.objects.fetch_sub(1, Ordering::AcqRel) == 1 && !self.has_children(kind))
    }

    /// `held` are the blocks that the owner may hold; none means all blocks.
    pub(crate) fn report_left_by(&self, call: &CallbackCall<'_, 't>, command: &'t str, held: Option<Blocks<'_>>) {
        let owner = call.owner;
        let number = owner.number();
        if held.is_some() || self.may_hold_blocks(number) {
            self.report_leftovers(FindingKind::LiveAfterDestroy, ReportedAs::Destroy, command, held, |block| {
                block.owner == number && !block.doubted && owner.has_no_objects()
            });
        }
        let over = || self.group_has_ended(owner.group);
        self.internal_at_end(FindingKind::InternalLeft, call, over);
    }

    /// `over` says whether no free can come any more. It is called after the sum was read.
    pub(crate) fn internal_at_end(&self, kind: FindingKind, call: &CallbackCall<'_, 't>, over: impl Fn() -> bool) {
        if !self.is_notified.load(Ordering::Acquire) {
            return;
        }
        let Some(first) = self.first_of_group(call.owner.group) else {
            return;
        };
        for scope in Scope::ALL {
            let left = first.internal_outstanding(scope);
            if left > 0 && over() && first.count_internal_free(scope, left) {
                self.report(call.finding(kind, Some(scope)).of_size(left));
            }
        }
    }
}

const fn finding_of_command<'t>(kind: FindingKind, bracket: &Bracket<'t>, at: u64) -> CheckFinding<'t> {
    CheckFinding { command: bracket.name, first_serial: at, ..CheckFinding::one(kind) }
}

/// Whether the block is left and was not reported yet; marks it as reported then.
fn is_left<'t>(block: &mut BlockRecord<'t>, reported: ReportedAs, of: impl Fn(&BlockRecord<'t>) -> bool) -> bool {
    // At the end, a reallocation that never ended has left its block, too.
    let there = block.state == BlockState::Live || block.state == BlockState::Moving && reported == ReportedAs::End;
    let left = there && block.reported_as == ReportedAs::Nothing && of(block);
    if left {
        block.reported_as = reported;
    }
    left
}
