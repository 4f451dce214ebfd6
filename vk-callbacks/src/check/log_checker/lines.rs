#![forbid(unsafe_code)]

use core::sync::atomic::Ordering;

use alloc_core::{HostError, Scope, TryMap, TryVec};

use super::super::engine::CallbackCall;
use super::super::records::{BlockRecord, BlockRequest};
use super::{Judge, address};
use crate::command::Bracket;
use crate::keyed_hash::HashKey;
use crate::trace::{Caller, Pointer};

impl<'t> Judge<'_, 't> {
    pub(super) fn allocated(
        &mut self,
        line: u64,
        by: Caller,
        block: Pointer,
        request: BlockRequest,
    ) -> Result<(), HostError> {
        let listed = Listed::of_call(&self.call(line, by)?, request);
        self.reserve(listed)?;
        let call = self.call(line, by)?;
        match address(block) {
            Some(address) => self.engine.answered(None, &call, request, address)?,
            None => self.engine.refused(&call.caller),
        }
        self.engine.requested(&call, request);
        self.list(block, listed);
        Ok(())
    }

    pub(super) fn enter(&mut self, line: u64, by: Caller, command: &'t str) -> Result<(), HostError> {
        let bracket = Bracket::new(command, line, self.owners_above(by.owner), self.engine.coverage(), None);
        let blocks = TryVec::new_in(*self.threads.allocator());
        self.by_command.try_insert(line, blocks)?;
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
            above.nulls.set(above.nulls.get().saturating_add(bracket.nulls.get()));
        }
        bracket.result.set(result);
        let before = bracket.creation.get().and_then(|creation| thread.creation.replace(creation));
        self.object_created(before);
        let blocks = self.by_command.remove(&bracket.serial);
        self.engine.running.fetch_sub(1, Ordering::Relaxed);
        let mut blocks = blocks.iter().flatten().copied();
        self.engine.command_returned(&bracket, line, Some(&mut blocks));
    }

    pub(super) fn reallocated(
        &mut self,
        line: u64,
        by: Caller,
        (old, new): (Pointer, Pointer),
        request: BlockRequest,
    ) -> Result<(), HostError> {
        // All the memory that the line may need comes first: nothing is left half-done.
        let mut listed = Listed::of_call(&self.call(line, by)?, request);
        let before = address(old).and_then(|old| self.engine.with_block(old, |block| Listed::of(block)));
        self.reserve(listed)?;
        before.map_or(Ok(()), |before| self.reserve(before))?;
        let engine = &self.engine;
        let call = self.call(line, by)?;
        let caller = &call.caller;
        let room = engine.blocks.promise()?;
        let answered = |new| engine.answered(Some(&room), &call, request, new);
        // The line of its begin; if that was lost, the reallocation begins here.
        let begun = self.current(by.thread);
        let mut begun = begun.and_then(|thread| thread.moving.last().copied());
        let (old, answer, new) = (address(old), new, address(new));
        // If the line is that of another reallocation, the end of that one was lost.
        if let Some(Some(other)) = begun
            && Some(other.block.address) != old
        {
            engine.not_moved(&call, other.block.address, &other, false);
            begun = None;
        }
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
                listed = Listed::of(&before.block);
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
        self.list(answer, listed);
        if let Some(thread) = self.known(by.thread) {
            thread.moving.pop();
        }
        Ok(())
    }

    fn reserve(&mut self, listed: Listed) -> Result<(), HostError> {
        let own = *self.threads.allocator();
        let of_owner = self.by_owner.try_get_or_insert_with(listed.owner, |_| TryVec::new_in(own))?;
        of_owner.try_reserve(1)?;
        let of_command = self.by_command.get_mut(&listed.command);
        of_command.map_or(Ok(()), |blocks| blocks.try_reserve(1))
    }

    /// The block of the reserved room was refused: frees the room if it is the first.
    pub(super) fn release_room(&mut self) {
        if self.by_owner.values().all(|blocks| blocks.is_empty()) {
            self.by_owner = TryMap::with_hasher_in(HashKey::fresh(), *self.threads.allocator());
        }
    }

    /// Adds a block, whose room is reserved, to its lists.
    fn list(&mut self, block: Pointer, listed: Listed) {
        let Some(block) = address(block) else { return };
        let of_owner = self.by_owner.get_mut(&listed.owner);
        // The command of a block that moves may have returned.
        let of_command = self.by_command.get_mut(&listed.command);
        // What is left of an owner is found by its list alone.
        let mut is_lost = of_owner.is_none();
        for blocks in of_owner.into_iter().chain(of_command) {
            is_lost |= blocks.try_push(block).is_err();
        }
        if is_lost {
            self.engine.lose_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckOptions;
    use alloc_core::FromGlobalAlloc;

    #[test]
    fn a_block_that_no_list_has_is_counted_as_lost() {
        let memory = FromGlobalAlloc::SYSTEM;
        let mut judge = Judge::new(&memory, CheckOptions::default());
        let listed = Listed::new(9, 0, None);
        judge.list(Pointer::Null, listed);
        assert_eq!(judge.lost(), 0);
        judge.list(Pointer::Block(1), listed);
        assert_eq!(judge.lost(), 1);
        judge.reserve(listed).expect("memory");
        judge.list(Pointer::Block(2), listed);
        assert_eq!(judge.lost(), 1);
    }
}

#[derive(Clone, Copy)]
struct Listed {
    owner: u64,
    /// The serial number of its command; 0, which no command has, if its scope is another.
    command: u64,
}

impl Listed {
    fn of_call(call: &CallbackCall<'_, '_>, request: BlockRequest) -> Self {
        Self::new(call.owner.number(), call.caller.serial(), request.scope())
    }

    fn of(block: &BlockRecord<'_>) -> Self {
        Self::new(block.owner, block.serial, block.scope())
    }

    fn new(owner: u32, serial: u64, scope: Option<Scope>) -> Self {
        let of_command = scope == Some(Scope::Command);
        Self { owner: owner.into(), command: if of_command { serial } else { 0 } }
    }
}
