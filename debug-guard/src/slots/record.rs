//! The record of a cell, outside of the pages that a program can reach by mistake.

#![forbid(unsafe_code)]

use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use super::slot_state::SlotState;
use crate::block::{BlockMark, SiteId};

/// No cell.
pub(super) const NONE: u32 = u32::MAX;

/// One line of the processor's cache. All zero: never used.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct CellRecord {
    word: AtomicU64,
    allocated: SiteStamp,
    freed: SiteStamp,
    /// Where a reallocation moved the block; 0 = it did not.
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
