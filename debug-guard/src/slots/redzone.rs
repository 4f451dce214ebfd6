//! The redzone of a block: verified, reported, repaired.

use super::Slots;
use super::fill::NEAR;
use super::geometry::{BlockPlacement, Shape};
use crate::block::{Changed, GuardFinding, Known};
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

/// The bytes around a block that are verified: from `front` to `start`, and from `end` to `behind`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Margins {
    pub(super) front: usize,
    start: usize,
    end: usize,
    pub(super) behind: usize,
}

impl Slots {
    pub(super) fn margins(&self, place: BlockPlacement, shape: Shape) -> Margins {
        let (from, to) = self.extent(place);
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

    /// The addresses of a place's pages: the first byte, and the first behind.
    pub(super) fn extent(&self, place: BlockPlacement) -> (usize, usize) {
        (
            self.geometry.address(place.page),
            self.geometry.address(place.page + place.pages),
        )
    }

    /// The bytes of the redzone that are not the pattern, which is written again; `None` if there are none. Only this thread may have the
    /// block, or the lists are locked.
    pub(super) fn mended_redzone(&self, place: BlockPlacement, shape: Shape) -> Option<Redzone> {
        let margins = self.margins(place, shape);
        let [front, behind] = [
            (margins.front, margins.start),
            (margins.end, margins.behind),
        ]
        .map(|(from, to)| {
            // SAFETY: pages of the block, provided, outside of its bytes: no thread may write there.
            let changed = unsafe { self.pattern.changed(from, to - from) }?;
            // SAFETY: as above.
            unsafe { self.pattern.write(changed.first, changed.span) };
            Some(changed)
        });
        (front.is_some() || behind.is_some()).then_some(Redzone { front, behind })
    }
}
