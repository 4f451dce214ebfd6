//! Giving a block back: who may, and what was done around it.

use core::alloc::Layout;

use alloc_core::Scope;

use super::bytes::{self, NEAR};
use super::find::Block;
use super::lock::Held;
use super::pages::Pages;
use super::stash::Stash;
use super::word::Kind as State;
use super::{Found, Kind, Slots};
use crate::block::{Fault, Freed, Mark};
use crate::report::ReportKind;

impl<P: Pages> Slots<P> {
    /// Takes a block back: what it was, or `None` where `address` is no live block's first byte and nothing was done.
    ///
    /// `found` hears why, of all that differs from what the block was taken with, of what was changed around it, and of blocks freed
    /// long ago that were written to since. `moved_to`: a reallocation frees it, and the block is there now.
    ///
    /// Takes no memory. Of several threads that free one block, one does.
    #[inline(always)]
    pub(crate) fn give(
        &self,
        address: usize,
        layout: Option<Layout>,
        scope: Option<Scope>,
        mark: Mark,
        moved_to: Option<usize>,
        found: &mut Found<'_>,
    ) -> Option<Freed> {
        // Its surroundings come while its record does.
        bytes::fetch(address.wrapping_sub(NEAR), address.wrapping_add(1));
        let Some((block, stash)) = self.live(address).and_then(|block| self.win(block)) else {
            found(self.no_block(address));
            return None;
        };
        let shape = block.word.shape();
        block.record.given_by(mark, moved_to);
        block.ground.close_sides(block.place);
        let said = layout.is_none_or(|layout| layout.size() == shape.size && layout.align() == shape.align)
            && scope.is_none_or(|scope| scope == block.word.scope());
        let mut late = None;
        if said && self.is_clean(block.ground, block.place, shape) {
            self.part_with(&block, stash, &mut late);
        } else {
            drop(stash);
            self.give_askew(&block, layout, scope, &mut late, found);
        }
        if let Some(late) = late {
            found(late);
        }
        Some(Freed { size: shape.size, mode: self.mode })
    }

    /// As `give` for a block of which something is to be told.
    #[cold]
    fn give_askew(
        &self,
        block: &Block<'_, P>,
        layout: Option<Layout>,
        scope: Option<Scope>,
        late: &mut Option<Fault>,
        found: &mut Found<'_>,
    ) {
        // As it is now: told last, when the cell may be another block's.
        let known = self.known_of(block.ground, block.cell, block.word.with(State::Leaving), block.record);
        let around = self.around(block.ground, block.place, block.word.shape());
        self.mend(around);
        self.part_with(block, self.stashes.at(block.word.home()), late);
        let wrong = [
            (layout.is_some_and(|layout| layout.size() != known.size), ReportKind::SizeMismatch),
            (layout.is_some_and(|layout| layout.align() != known.align), ReportKind::AlignmentMismatch),
            (scope.is_some_and(|scope| scope != known.scope), ReportKind::ScopeMismatch),
        ];
        for (_, kind) in wrong.into_iter().filter(|&(wrong, _)| wrong) {
            found(Fault { kind, block: Some(known), address: known.start, changed: None, owner: None });
        }
        around.faults(known).for_each(found);
    }

    /// Takes a live block out of use, unless another thread is faster: who does holds the stash that is the block's home.
    #[inline(always)]
    fn win<'a>(&'a self, block: Block<'a, P>) -> Option<(Block<'a, P>, Held<'a, Stash>)> {
        let stash = self.stashes.at(block.word.home());
        if block.record.word() != block.word {
            return None;
        }
        // The records of a chunk long dead may have begun to serve others meanwhile; under Fence, single blocks' never do.
        let may_serve_others = self.kind == Kind::Strict || block.place.pages > 1;
        if may_serve_others && !block.ground.record(block.cell).is_some_and(|now| core::ptr::eq(now, block.record)) {
            return None;
        }
        block.record.set(block.word.with(State::Leaving));
        Some((block, stash))
    }
}
