//! Where a free or reallocation of a live block is passed on: to the callbacks that were called, or to the block's own.

#![forbid(unsafe_code)]

use core::num::NonZeroUsize;

use super::block::{BlockRecord, BlockState};
use super::engine::{CallbackCall, Engine};
use super::owner::CallbackOwner;
use super::user_data;

/// Whether, and where, a call is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Pass {
    /// To the callbacks that were called.
    On,
    /// To the block's own, which have this user data.
    ToOwn(NonZeroUsize),
    /// The call would be undefined anywhere.
    Not,
}

impl<'t> Engine<'_, 't> {
    /// Whether the called callbacks gave the block, or compatible ones did (V42).
    #[inline]
    pub(super) fn may_pass(&self, block: &BlockRecord<'t>, call: &CallbackCall<'_, 't>) -> bool {
        block.owner == call.owner.number()
            || (call.callbacks != 0 && block.tag == call.callbacks)
            || (block.doubted && block.state == BlockState::Live)
            || self.compatible(block.owner, call.owner)
    }

    /// Where a free or reallocation of a live block goes. Callbacks that a program passes with each object get what the driver calls them
    /// for: they may end with their object, and are not called for it later.
    #[inline]
    pub(super) fn way_of(
        &self,
        block: &BlockRecord<'t>,
        call: &CallbackCall<'_, 't>,
        may_pass: bool,
    ) -> Pass {
        if may_pass {
            Pass::On
        } else {
            self.way_elsewhere(block, call)
        }
    }

    #[cold]
    fn way_elsewhere(&self, block: &BlockRecord<'t>, call: &CallbackCall<'_, 't>) -> Pass {
        let Some(gave) = self.numbered(block.owner).filter(|_| self.groups_reported) else {
            return Pass::Not;
        };
        match (gave.user_data(), call.owner.user_data()) {
            (Some(own), _) if user_data::is_current(own) => Pass::ToOwn(own),
            (None, None) => Pass::On,
            _ => Pass::Not,
        }
    }

    #[cold]
    fn compatible(&self, number: u32, owner: &CallbackOwner<'t>) -> bool {
        let gave = self.numbered(number);
        // A log without owners proves nothing.
        number == 0 || owner.id.is_none() || gave.is_none_or(|gave| gave.group == owner.group)
    }
}
