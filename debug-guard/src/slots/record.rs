//! A cell's state word, the kind of the cell and the shape of its block, changes in one step.

#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use alloc_core::Scope;

use super::geometry::Shape;
use crate::block::{BlockMark, SiteId};
use crate::segments::BlockRecordTable;

pub(super) const NONE: u32 = u32::MAX;

pub(super) type CellTable = BlockRecordTable<CellRecord>;

#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct CellRecord {
    word: AtomicU64,
    allocated: SiteStamp,
    freed: SiteStamp,
    /// 0: no reallocation moved the block.
    moved_to: AtomicUsize,
    /// The next cell in a list; for a body, its block's first cell.
    pub(super) link: AtomicU32,
    /// For a cell whose page came from another cell, that cell plus one.
    pub(super) came_from: AtomicU32,
}

#[derive(Debug)]
struct SiteStamp {
    serial: AtomicU64,
    site: AtomicU32,
    thread: AtomicU32,
}

impl SiteStamp {
    fn store(&self, mark: BlockMark) {
        self.serial.store(mark.serial, Relaxed);
        self.site.store(mark.site.0, Relaxed);
        self.thread.store(mark.thread, Relaxed);
    }

    fn load(&self) -> BlockMark {
        BlockMark {
            site: SiteId(self.site.load(Relaxed)),
            thread: self.thread.load(Relaxed),
            serial: self.serial.load(Relaxed),
        }
    }
}

impl CellRecord {
    pub(super) fn word(&self) -> SlotState {
        SlotState(self.word.load(Acquire))
    }

    /// Only the owner of the cell in its present state may call this.
    pub(super) fn set(&self, word: SlotState) {
        self.word.store(word.0, Release);
    }

    pub(super) fn set_allocated(&self, mark: BlockMark) {
        self.allocated.store(mark);
    }

    pub(super) fn set_freed(&self, mark: BlockMark, moved_to: Option<usize>) {
        self.freed.store(mark);
        self.moved_to.store(moved_to.unwrap_or(0), Relaxed);
    }

    pub(super) fn allocated(&self) -> BlockMark {
        self.allocated.load()
    }

    pub(super) fn freed(&self) -> BlockMark {
        self.freed.load()
    }

    pub(super) fn moved_to(&self) -> Option<usize> {
        Some(self.moved_to.load(Relaxed)).filter(|&address| address != 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SlotKind {
    Never = 0,
    /// The record may still describe the former block.
    Ready = 1,
    Live = 2,
    /// Being freed, or leaving quarantine.
    Leaving = 3,
    /// Freed, poisoned, accessible.
    Kept = 4,
    /// Freed, inaccessible; may be claimed.
    Gone = 5,
    /// A further cell of a live block, named by the record's link.
    Body = 6,
    /// A further cell of a block that is gone; may be claimed.
    BodyGone = 7,
}

impl SlotKind {
    const ALL: [Self; 8] =
        [Self::Never, Self::Ready, Self::Live, Self::Leaving, Self::Kept, Self::Gone, Self::Body, Self::BodyGone];

    pub(super) const fn is_body(self) -> bool {
        matches!(self, Self::Body | Self::BodyGone)
    }
}

/// ```text
///   bit  63   62  59 58   14 13   8 7   5    4    3..0
///       block |        | size | align | scope | right | kind        block: there is or was one, the rest is of it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotState(pub(super) u64);

const BLOCK: u64 = 1 << 63;

impl SlotState {
    pub(super) const LIMIT: usize = if usize::BITS == 64 { ((1_u64 << 45) - 1) as usize } else { usize::MAX };

    /// `shape.size` is up to [`LIMIT`](Self::LIMIT), its alignment a power of two.
    pub(super) const fn new(kind: SlotKind, shape: Shape, scope: Scope) -> Self {
        let align = shape.align.trailing_zeros() as u64;
        let size = shape.size as u64;
        Self(BLOCK | size << 14 | align << 8 | (scope.as_raw() as u64) << 5 | (shape.right as u64) << 4 | kind as u64)
    }

    pub(super) const fn with(self, kind: SlotKind) -> Self {
        Self(self.0 & !15 | kind as u64)
    }

    pub(super) fn kind(self) -> SlotKind {
        SlotKind::ALL.get((self.0 & 15) as usize).copied().unwrap_or(SlotKind::Never)
    }

    pub(super) const fn shape(self) -> Shape {
        Shape { size: (self.0 >> 14) as usize & Self::LIMIT, align: 1 << (self.0 >> 8 & 63), right: self.0 & 16 != 0 }
    }

    pub(super) const fn is_block(self) -> bool {
        self.0 & BLOCK != 0
    }

    pub(super) fn scope(self) -> Scope {
        Scope::from_raw((self.0 >> 5 & 7) as u32).unwrap_or(Scope::Object)
    }
}

#[cfg(test)]
mod slot_state_tests {
    use std::prelude::v1::*;

    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        for size in [0, 1, 4096, SlotState::LIMIT] {
            for log in [0, 4, 12, 62] {
                for scope in Scope::ALL {
                    for right in [false, true] {
                        for kind in SlotKind::ALL {
                            let shape = Shape { size, align: 1 << log, right };
                            let word = SlotState::new(SlotKind::Never, shape, scope).with(kind);
                            assert_eq!(
                                (word.kind(), word.shape(), word.scope(), word.is_block()),
                                (kind, shape, scope, true)
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_empty_record_was_never_anything() {
        assert_eq!((SlotState(0).kind(), SlotState(0).is_block()), (SlotKind::Never, false));
    }
}
