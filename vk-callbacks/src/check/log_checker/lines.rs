//! Lines of a log that begin and end something: commands, allocations, reallocations.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::sync::atomic::Ordering;

use alloc_core::HostError;

use super::super::block::BlockRequest;
use super::super::table::NoRoom;
use super::{Judge, address};
use crate::command::Bracket;
use crate::trace::{Caller, Pointer};

impl<'t> Judge<'_, 't> {
    /// `pfnAllocation` answered. There is room in the lists.
    pub(super) fn allocated(
        &mut self,
        line: u64,
        by: Caller,
        block: Pointer,
        asked: BlockRequest,
    ) -> Result<(), HostError> {
        let (who, owner) = self.caller_context(line, by)?;
        let (owner_number, serial) = (owner.number(), who.serial());
        match address(block) {
            Some(address) => self
                .engine
                .answered(&who, owner, asked, address)
                .map_err(|_| self.refusal())?,
            None => self.engine.refused(&who),
        }
        self.engine.requested(&who, owner, asked);
        if let Some(address) = address(block) {
            self.list(address, owner_number, serial);
        }
        Ok(())
    }

    pub(super) fn enter(
        &mut self,
        line: u64,
        by: Caller,
        command: &'t str,
    ) -> Result<(), HostError> {
        let bracket = Bracket::new(
            command,
            line,
            self.allocation_answered(by.owner),
            self.engine.coverage(),
            None,
        );
        self.lists.enter(line)?;
        let thread = self.thread(by.thread)?;
        let (first, inside) = (!thread.issued, !thread.moving.is_empty());
        thread.brackets.try_push(bracket)?;
        thread.issued = true;
        let before = thread.making.take();
        self.commands = true;
        before
            .into_iter()
            .for_each(|making| self.engine.object_created(making, None));
        if first {
            self.engine.thread_issues(by.thread);
        }
        if let Some(bracket) = self.innermost(by.thread) {
            self.engine.running.fetch_add(1, Ordering::Relaxed);
            self.engine.entered(bracket, line, inside);
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, line: u64, by: Caller, result: i32) {
        let Some(thread) = self.known(by.thread) else {
            return;
        };
        let Some(bracket) = thread.brackets.pop() else {
            return;
        };
        thread.command_left = bracket.name;
        if let Some(above) = thread.brackets.last() {
            above
                .nulls
                .set(above.nulls.get().saturating_add(bracket.nulls.get()));
        }
        bracket.result.set(result);
        let before = bracket
            .making
            .get()
            .and_then(|making| thread.making.replace(making));
        before
            .into_iter()
            .for_each(|making| self.engine.object_created(making, None));
        let mut taken = self.lists.leave(bracket.serial);
        self.engine.running.fetch_sub(1, Ordering::Relaxed);
        self.engine.command_left(&bracket, line, Some(&mut taken));
    }

    /// The rule table of `pfnReallocation` (V11 to V17), seen from what was answered.
    pub(super) fn reallocate(
        &mut self,
        line: u64,
        by: Caller,
        (old, new): (Pointer, Pointer),
        asked: BlockRequest,
    ) -> Result<(), HostError> {
        self.suppose(by);
        self.lists.reserve()?;
        if let Err(refused) = self.reallocated(line, by, (old, new), asked) {
            self.lists.abandon();
            return Err(refused);
        }
        Ok(())
    }

    /// There is room in the lists.
    fn reallocated(
        &mut self,
        line: u64,
        by: Caller,
        (old, new): (Pointer, Pointer),
        asked: BlockRequest,
    ) -> Result<(), HostError> {
        let engine = &self.engine;
        let (who, owner) = self.caller_context(line, by)?;
        // All the memory that the line may need: from here on nothing is refused, so nothing is left half-done.
        let room = engine.blocks.promise().map_err(|NoRoom| self.refusal())?;
        // Its beginning stands before; where it was lost, or the format has none, it begins here.
        let begun = self.as_it_is(by.thread);
        let mut begun = begun.and_then(|thread| thread.moving.last().copied());
        // The beginning of another one: that one's end was lost.
        if let Some(Some(other)) =
            begun.filter(|begun| begun.is_some_and(|block| Some(block.address()) != address(old)))
        {
            engine.not_moved(&who, owner, other.address(), &other, false);
            begun = None;
        }
        let (old, new) = (address(old), address(new));
        let (mut of_owner, mut of_command) = (owner.number(), who.serial());
        let Some(old) = old else {
            match new {
                Some(new) => engine
                    .answered_in(Some(&room), &who, owner, asked, new)
                    .map_err(|_| self.refusal())?,
                None if asked.size > 0 => engine.refused(&who),
                None => {}
            }
            if asked.size > 0 {
                engine.requested(&who, owner, asked);
            }
            drop(room);
            new.into_iter()
                .for_each(|new| self.list(new, of_owner, of_command));
            self.end_move(by);
            return Ok(());
        };
        let moving = begun.unwrap_or_else(|| engine.moving(&who, owner, old, None).ok());
        match (moving, new) {
            (Some(before), _) if asked.size == 0 => {
                engine.not_moved(&who, owner, old, &before, false);
                let _ = engine.released(&who, owner, old);
                if let Some(new) = new {
                    engine.zero_answered(&who, owner, asked);
                    engine
                        .answered_in(Some(&room), &who, owner, asked, new)
                        .map_err(|_| self.refusal())?;
                }
            }
            (Some(before), Some(new)) => {
                engine.move_requested(&who, owner, &before, asked);
                engine.moved(&who, owner, (old, new), &before, asked.size, &room);
                (of_owner, of_command) = (before.owner, before.serial);
            }
            (Some(before), None) => {
                engine.move_requested(&who, owner, &before, asked);
                engine.not_moved(&who, owner, old, &before, true);
                engine.refused(&who);
            }
            // Told when it began. What came of it is a block all the same.
            (None, Some(new)) => {
                engine.moved_all_the_same(old);
                engine
                    .answered_in(Some(&room), &who, owner, asked, new)
                    .map_err(|_| self.refusal())?;
            }
            (None, None) if asked.size == 0 => engine.released_aside(old),
            (None, None) => engine.refused(&who),
        }
        drop(room);
        new.into_iter()
            .for_each(|new| self.list(new, of_owner, of_command));
        self.end_move(by);
        Ok(())
    }

    fn end_move(&mut self, by: Caller) {
        if let Some(thread) = self.known(by.thread) {
            thread.moving.pop();
        }
    }

    /// Puts a block, for which there is room, into the lists of its owner and of the command that took it.
    fn list(&mut self, block: NonZeroU64, owner: u32, serial: u64) {
        let owner = self
            .engine
            .numbered(owner)
            .filter(|owner| owner.id.is_some());
        let first = owner.map(|owner| self.engine.first_of_group(owner.group).unwrap_or(owner));
        if !self
            .lists
            .add(block, first.map(|first| &first.held), serial)
        {
            self.engine.lose_one();
        }
    }
}
