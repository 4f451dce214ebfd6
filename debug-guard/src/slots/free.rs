//! Frees a block: selects one of several frees, and verifies the redzone.

use core::alloc::Layout;

use alloc_core::Scope;

use super::fill::{self, NEAR};
use super::find::FoundBlock;
use super::page_cache::PageCache;
use super::slot_state::SlotKind as State;
use super::{Kind, LateFinding, Slots};
use crate::block::{BlockMark, Freed, GuardFinding};
use crate::lock::ForkSafeMutexGuard;
use crate::os::Pages;
use crate::report_kind::ReportKind;

impl<P: Pages> Slots<P> {
    /// Takes a block back: what it was, or `None` where `address` is no live block's first byte and nothing was done.
    ///
    /// `found` hears why, of all that differs from what the block was taken with, of what was changed around it, and of blocks freed
    /// long ago that were written to since. `moved_to`: a reallocation frees it, and the block is there now.
    ///
    /// Takes no memory. Of several threads that free one block, one does.
    #[inline(always)]
    pub(crate) fn free(
        &self,
        address: usize,
        layout: Layout,
        scope: Scope,
        mark: BlockMark,
        moved_to: Option<usize>,
        found: &mut LateFinding<'_>,
    ) -> Option<Freed> {
        // Its surroundings come while its record does.
        fill::fetch(address.wrapping_sub(NEAR), address.wrapping_add(1));
        let Some((block, stash)) = self.live(address).and_then(|block| self.claim_free(block))
        else {
            found(self.no_block(address));
            return None;
        };
        let shape = block.word.shape();
        block.record.set_freed(mark, moved_to);
        block.ground.close_sides(block.place);
        let matches = layout.size() == shape.size
            && layout.align() == shape.align
            && scope == block.word.scope();
        let mut late = None;
        if matches && self.is_clean(block.ground, block.place, shape) {
            self.retire(&block, stash, &mut late);
        } else {
            drop(stash);
            self.free_mismatched(&block, layout, scope, &mut late, found);
        }
        if let Some(late) = late {
            found(late);
        }
        Some(Freed {
            size: shape.size,
            mode: self.mode,
        })
    }

    /// As `free`, for a block with a finding.
    #[cold]
    fn free_mismatched(
        &self,
        block: &FoundBlock<'_, P>,
        layout: Layout,
        scope: Scope,
        late: &mut Option<GuardFinding>,
        found: &mut LateFinding<'_>,
    ) {
        // As it is now: told last, when the cell may be another block's.
        let known = self.known_of(
            block.ground,
            block.cell,
            block.word.with(State::Leaving),
            block.record,
        );
        let around = self.redzone(block.ground, block.place, block.word.shape());
        self.mend(around);
        self.retire(block, self.stashes.at(block.word.cache_number()), late);
        let mismatches = [
            (layout.size() != known.size, ReportKind::SizeMismatch),
            (layout.align() != known.align, ReportKind::AlignmentMismatch),
            (scope != known.scope, ReportKind::ScopeMismatch),
        ];
        for (_, kind) in mismatches.into_iter().filter(|(differs, _)| *differs) {
            found(GuardFinding::new(kind, Some(known), known.start));
        }
        around.faults(known).for_each(found);
    }

    /// Takes a live block out of use, unless another thread is faster: who does holds the stash that is the block's home.
    #[inline(always)]
    fn claim_free<'a>(
        &'a self,
        block: FoundBlock<'a, P>,
    ) -> Option<(FoundBlock<'a, P>, ForkSafeMutexGuard<'a, PageCache>)> {
        let stash = self.stashes.at(block.word.cache_number());
        if block.record.word() != block.word {
            return None;
        }
        // The records of a chunk long dead may have begun to serve others meanwhile; under Fence, single blocks' never do.
        let may_serve_others = self.kind == Kind::Strict || block.place.pages > 1;
        if may_serve_others
            && !block
                .ground
                .record(block.cell)
                .is_some_and(|now| core::ptr::eq(now, block.record))
        {
            return None;
        }
        block.record.set(block.word.with(State::Leaving));
        Some((block, stash))
    }
}
