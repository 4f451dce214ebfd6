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
    /// Frees a block. `None` if `address` is no live block's first byte; then nothing is done.
    ///
    /// `found` receives the findings: an unknown pointer, another layout or scope, a changed redzone, and writes after free to older
    /// blocks. `moved_to`: the address of the block after a reallocation.
    ///
    /// Allocates nothing. Of several threads that free one block, one does.
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
        // The redzone is fetched while the record is.
        fill::fetch(address.wrapping_sub(NEAR), address.wrapping_add(1));
        let Some((block, cache)) = self.live(address).and_then(|block| self.claim_free(block))
        else {
            found(self.no_block(address));
            return None;
        };
        let shape = block.word.shape();
        block.record.set_freed(mark, moved_to);
        block.region.close_sides(block.place);
        let matches = layout.size() == shape.size
            && layout.align() == shape.align
            && scope == block.word.scope();
        let mut late = None;
        if matches && self.is_clean(block.region, block.place, shape) {
            self.retire(&block, cache, &mut late);
        } else {
            drop(cache);
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
        // As it is now: it is reported last, when the cell may be another block's.
        let known = self.known_of(
            block.region,
            block.cell,
            block.word.with(State::Leaving),
            block.record,
        );
        let redzone = self.redzone(block.region, block.place, block.word.shape());
        self.mend(redzone);
        self.retire(block, self.caches.at(block.word.cache_number()), late);
        let mismatches = [
            (layout.size() != known.size, ReportKind::SizeMismatch),
            (layout.align() != known.align, ReportKind::AlignmentMismatch),
            (scope != known.scope, ReportKind::ScopeMismatch),
        ];
        for (_, kind) in mismatches.into_iter().filter(|(differs, _)| *differs) {
            found(GuardFinding::new(kind, Some(known), known.start));
        }
        redzone.findings(known).for_each(found);
    }

    /// Takes a live block out of use, unless another thread is faster. The winner holds the cache whose number the block records.
    #[inline(always)]
    fn claim_free<'a>(
        &'a self,
        block: FoundBlock<'a, P>,
    ) -> Option<(FoundBlock<'a, P>, ForkSafeMutexGuard<'a, PageCache>)> {
        let cache = self.caches.at(block.word.cache_number());
        if block.record.word() != block.word {
            return None;
        }
        // The records of a dead chunk may serve other cells meanwhile; under Fence, records of single blocks never do.
        let may_serve_others = self.kind == Kind::Strict || block.place.pages > 1;
        if may_serve_others
            && !block
                .region
                .record(block.cell)
                .is_some_and(|now| core::ptr::eq(now, block.record))
        {
            return None;
        }
        block.record.set(block.word.with(State::Leaving));
        Some((block, cache))
    }
}
