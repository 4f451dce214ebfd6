//! The redzone of a block: verified, reported, repaired.

use super::Slots;
use super::fill::NEAR;
use super::geometry::{BlockPlacement, Shape};
use super::slot_region::SlotRegion;
use crate::block::{Changed, GuardFinding, Known};
use crate::os::Pages;
use crate::report_kind::ReportKind;

/// The changes around a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Redzone {
    pub(super) front: Option<Changed>,
    pub(super) behind: Option<Changed>,
}

impl Redzone {
    pub(super) fn findings(self, block: Known) -> impl Iterator<Item = GuardFinding> {
        let front = self.front.map(|changed| (ReportKind::Underflow, changed));
        let behind = self.behind.map(|changed| (ReportKind::Overflow, changed));
        [front, behind]
            .into_iter()
            .flatten()
            .map(move |(kind, changed)| GuardFinding::of_change(kind, Some(block), changed))
    }
}

/// The bytes around a block that are verified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Margins {
    pub(super) front: usize,
    start: usize,
    end: usize,
    pub(super) behind: usize,
}

impl<P: Pages> Slots<P> {
    #[inline]
    pub(super) fn margins(
        &self,
        region: &SlotRegion<P>,
        place: BlockPlacement,
        shape: Shape,
    ) -> Margins {
        let (from, to) = region.extent(place);
        // A block of no bytes stands behind its page.
        let start = place.start.min(to);
        let end = start.saturating_add(shape.size).min(to);
        let near = if self.deep { usize::MAX } else { NEAR };
        Margins {
            front: from.max(start.saturating_sub(near)),
            start,
            end,
            behind: to.min(end.saturating_add(near)),
        }
    }

    /// True if the redzone holds the pattern. Only this thread may have the block.
    #[inline]
    pub(super) fn is_clean(
        &self,
        region: &SlotRegion<P>,
        place: BlockPlacement,
        shape: Shape,
    ) -> bool {
        let Margins {
            front,
            start,
            end,
            behind,
        } = self.margins(region, place, shape);
        // SAFETY: in the block's first page, provided, in front of its first byte: no thread may write there.
        let clean_front = unsafe { self.pattern.is_at(front, start - front) };
        // SAFETY: as above, in its last page, behind its last byte.
        clean_front && (end == behind || unsafe { self.pattern.is_at(end, behind - end) })
    }

    /// The bytes of the redzone that are not the pattern.
    pub(super) fn redzone(
        &self,
        region: &SlotRegion<P>,
        place: BlockPlacement,
        shape: Shape,
    ) -> Redzone {
        let Margins {
            front,
            start,
            end,
            behind,
        } = self.margins(region, place, shape);
        Redzone {
            // SAFETY: pages of the block, provided, in front of its first byte: no thread may write there.
            front: unsafe { self.pattern.changed(front, start - front) },
            // SAFETY: as above, behind its last byte.
            behind: unsafe { self.pattern.changed(end, behind - end) },
        }
    }

    /// Writes the pattern to the redzone again.
    pub(super) fn mend(&self, redzone: Redzone) {
        for changed in [redzone.front, redzone.behind].into_iter().flatten() {
            // SAFETY: found within pages of a block that this thread alone has, outside of the block.
            unsafe { self.pattern.write(changed.first, changed.span) };
        }
    }
}
