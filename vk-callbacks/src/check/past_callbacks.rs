//! Blocks of callbacks that another allocator is to free, such as `free` of the C library.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;

use super::block::{BlockRecord, BlockState};
use super::engine::{CallbackCall, CallerContext, Engine};
use super::finding::CheckFinding;
use super::kind::FindingKind;
use crate::command::OwnerId;

/// The `owner_kind` of such a free.
const ELSEWHERE: &str = "the C library";

impl<'t> Engine<'_, 't> {
    /// Another allocator is to free the pointer. Returns whether it is a live block of an owner that `is_judged` accepts; the block was
    /// reported and is gone then.
    #[inline]
    pub(crate) fn freed_elsewhere<'a>(
        &self,
        caller: impl FnOnce() -> CallerContext<'a, 't>,
        address: NonZeroU64,
        is_judged: impl FnOnce(OwnerId) -> bool,
    ) -> bool
    where
        't: 'a,
    {
        let block = self.with_block(address, |block| *block);
        block.is_some_and(|block| {
            block.state == BlockState::Live
                && OwnerId::from_number(block.owner).is_some_and(is_judged)
                && self.report_elsewhere(caller(), &block)
        })
    }

    #[cold]
    fn report_elsewhere(&self, caller: CallerContext<'_, 't>, block: &BlockRecord<'t>) -> bool {
        let went = self.with_block(block.address, |there| {
            let is_there = there.state == BlockState::Live && there.owner == block.owner;
            if is_there {
                there.state = BlockState::Gone;
            }
            is_there
        });
        let owner = self.numbered(block.owner).filter(|_| went == Some(true));
        let Some(owner) = owner else { return false };
        self.discount(block, owner);
        self.discount_command_block(&caller, block);
        let call = CallbackCall {
            caller,
            owner,
            callbacks: 0,
        };
        self.report(CheckFinding {
            owner: None,
            owner_kind: ELSEWHERE,
            command: caller.command(),
            against: owner.kind,
            module: self.module(),
            ..call.finding_of_block(FindingKind::FreedThroughOther, block)
        });
        true
    }
}
