//! The lines of commands, allocations and reallocations.

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
        request: BlockRequest,
    ) -> Result<(), HostError> {
        let call = self.call(line, by)?;
        let (owner_number, serial) = (call.owner.number(), call.caller.serial());
        match address(block) {
            Some(address) => self
                .engine
                .answered(None, &call, request, address)
                .map_err(|NoRoom| self.refusal())?,
            None => self.engine.refused(&call.caller),
        }
        self.engine.requested(&call, request);
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
            self.owners_above(by.owner),
            self.engine.coverage(),
            None,
        );
        self.lists.begin_command(line)?;
        let thread = self.thread(by.thread)?;
        let (first, inside) = (!thread.issued, !thread.moving.is_empty());
        thread.brackets.try_push(bracket)?;
        thread.issued = true;
        let before = thread.creation.take();
        self.commands = true;
        self.object_created(before);
        if first {
            self.engine.thread_issues(by.thread);
        }
        if let Some(bracket) = self.innermost(by.thread) {
            self.engine.running.fetch_add(1, Ordering::Relaxed);
            self.engine.command_begins(bracket, line, inside);
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
        thread.last_command = bracket.name;
        if let Some(above) = thread.brackets.last() {
            above
                .nulls
                .set(above.nulls.get().saturating_add(bracket.nulls.get()));
        }
        bracket.result.set(result);
        let before = bracket
            .creation
            .get()
            .and_then(|creation| thread.creation.replace(creation));
        self.object_created(before);
        let mut blocks = self.lists.end_command(bracket.serial);
        self.engine.running.fetch_sub(1, Ordering::Relaxed);
        self.engine
            .command_returned(&bracket, line, Some(&mut blocks));
    }

    /// `pfnReallocation` answered (V11 to V17). There is room in the lists.
    pub(super) fn reallocated(
        &mut self,
        line: u64,
        by: Caller,
        (old, new): (Pointer, Pointer),
        request: BlockRequest,
    ) -> Result<(), HostError> {
        let engine = &self.engine;
        let call = self.call(line, by)?;
        let caller = &call.caller;
        // All the memory that the line may need: from here on nothing is refused, so nothing is left half-done.
        let room = engine.blocks.promise().map_err(|NoRoom| self.refusal())?;
        let answered = |new| {
            engine
                .answered(Some(&room), &call, request, new)
                .map_err(|NoRoom| self.refusal())
        };
        // The line of its begin; if that was lost, or the format has none, the reallocation begins here.
        let begun = self.current(by.thread);
        let mut begun = begun.and_then(|thread| thread.moving.last().copied());
        let (old, new) = (address(old), address(new));
        // If the line is that of another reallocation, the end of that one was lost.
        if let Some(Some(other)) = begun
            && Some(other.block.address()) != old
        {
            engine.not_moved(&call, other.block.address(), &other, false);
            begun = None;
        }
        let (mut of_owner, mut of_command) = (call.owner.number(), caller.serial());
        let moving = old.and_then(|old| begun.unwrap_or_else(|| engine.moving(&call, old, None)));
        match (old, moving, new) {
            (None, _, _) => {
                match new {
                    Some(new) => answered(new)?,
                    None if request.size > 0 => engine.refused(caller),
                    None => {}
                }
                if request.size > 0 {
                    engine.requested(&call, request);
                }
            }
            (Some(old), Some(before), _) if request.size == 0 => {
                engine.not_moved(&call, old, &before, false);
                let _ = engine.released(&call, old);
                if let Some(new) = new {
                    engine.zero_answered(&call, request.scope());
                    answered(new)?;
                }
            }
            (Some(old), Some(before), Some(new)) => {
                engine.move_requested(&call, &before, request);
                engine.moved(&call, (old, new), &before, request.size, &room);
                (of_owner, of_command) = (before.block.owner, before.block.serial);
            }
            (Some(old), Some(before), None) => {
                engine.move_requested(&call, &before, request);
                engine.not_moved(&call, old, &before, true);
                engine.refused(caller);
            }
            // The mistake was reported at the begin. The answer is a block all the same.
            (Some(old), None, Some(new)) => {
                let is_doubtful = engine.moved_despite_refusal(old);
                answered(new)?;
                if is_doubtful {
                    engine.doubt_owner(new);
                }
            }
            (Some(old), None, None) if request.size == 0 => engine.released_through_other(old),
            (Some(_), None, None) => engine.refused(caller),
        }
        drop(room);
        if let Some(new) = new {
            self.list(new, of_owner, of_command);
        }
        if let Some(thread) = self.known(by.thread) {
            thread.moving.pop();
        }
        Ok(())
    }

    /// Adds a block, whose room is reserved, to the lists of its owner and of its command.
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
