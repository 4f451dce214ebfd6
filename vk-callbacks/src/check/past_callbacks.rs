//! Blocks of callbacks that somebody hands to another allocator, as to `free` of the C library.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;

use alloc_core::Scope;

use super::block::{BlockRecord, BlockState};
use super::engine::{CallerContext, Engine};
use super::kind::FindingKind;
use super::row::FindingRow;
use crate::command::OwnerId;

/// Who frees such a block: stands where the kind of object is told whose callbacks freed it.
const ELSEWHERE: &str = "the C library";

impl<'t> Engine<'_, 't> {
    /// The pointer is about to be freed elsewhere. Whether it is a live block that is to be judged: it is gone then, and was reported.
    #[inline]
    pub(crate) fn freed_elsewhere<'a>(
        &self,
        who: impl FnOnce() -> CallerContext<'a, 't>,
        address: NonZeroU64,
        is_judged: impl FnOnce(OwnerId) -> bool,
    ) -> bool
    where
        't: 'a,
    {
        let like = BlockRecord::at(address);
        let block = self.blocks.with(&like, |block| *block);
        match block.filter(|block| block.state() == BlockState::Live) {
            None => false,
            Some(block) => {
                OwnerId::from_number(block.owner).is_some_and(is_judged)
                    && self.went_elsewhere(&who(), &block)
            }
        }
    }

    #[cold]
    fn went_elsewhere(&self, who: &CallerContext<'_, 't>, block: &BlockRecord<'t>) -> bool {
        let like = BlockRecord::at(block.address());
        let went = self.blocks.with(&like, |there| {
            let is_there = there.state() == BlockState::Live && there.owner == block.owner;
            if is_there {
                there.set_state(BlockState::Gone);
            }
            is_there
        });
        let owner = self.numbered(block.owner).filter(|_| went == Some(true));
        let Some(owner) = owner else { return false };
        self.discount(block, owner);
        self.command_block(
            who,
            block.scope() == Some(Scope::Command) && block.serial == who.serial(),
            -1,
        );
        self.report(FindingRow {
            owner: None,
            owner_kind: ELSEWHERE,
            command: who.command(),
            against: owner.kind,
            module: self.module(),
            ..self.of_block(FindingKind::FreedThroughOther, who, owner, block)
        });
        true
    }
}
