//! A stack that was walked: return addresses, and where on the stack they stand.

use super::registers::Registers;
use super::site::MAX_FRAMES;
use super::thread_sites::ThreadSites;
use super::walk::{self, End, WalkStart};
use super::{calls, unwind};

/// Innermost first.
pub(super) struct WalkedStack {
    frames: [usize; MAX_FRAMES],
    /// Distance from the stack pointer in bytes; 0 where the address was not found on the stack.
    slots: [u32; MAX_FRAMES],
    count: usize,
    pub(super) whole: bool,
}

impl WalkedStack {
    pub(super) const fn nothing() -> Self {
        Self {
            frames: [0; MAX_FRAMES],
            slots: [0; MAX_FRAMES],
            count: 0,
            whole: false,
        }
    }

    pub(super) fn frames(&self) -> &[usize] {
        self.frames.get(..self.count).unwrap_or(&[])
    }

    /// `None` where there are no frames, or one of the addresses was not found on the stack.
    pub(super) fn slots(&self) -> Option<&[u32]> {
        self.slots
            .get(..self.count)
            .filter(|slots| !slots.is_empty() && !slots.contains(&0))
    }

    /// False when it is full.
    pub(super) fn push(&mut self, frame: usize, slot: Option<usize>) -> bool {
        let (Some(to), Some(at)) = (
            self.frames.get_mut(self.count),
            self.slots.get_mut(self.count),
        ) else {
            return false;
        };
        *to = frame;
        *at = slot.and_then(|slot| u32::try_from(slot).ok()).unwrap_or(0);
        self.count = self.count.wrapping_add(1);
        true
    }

    /// Walks the chain of frame pointers, as far as its addresses follow calls.
    pub(super) fn by_frames(&mut self, start: WalkStart) {
        self.count = 0;
        self.continue_by_frames(start, start.from.stack);
    }

    /// By the chain of frame pointers from `next` on; slots count from `stack`.
    fn continue_by_frames(&mut self, next: WalkStart, stack: usize) {
        let mut astray = false;
        let end = walk::frames(next, |back, at| {
            astray = astray || !calls::returns_to(back) || !self.push(back, at.checked_sub(stack));
        });
        self.whole = end == End::Reached && !astray;
    }

    /// Walks by the unwinder. If its tables end, as in a driver that is built without any, continues by the chain; by the chain alone if
    /// that reaches further. False if the unwinder itself allocates.
    pub(super) fn by_unwinder(&mut self, local: &ThreadSites, start: WalkStart) -> bool {
        let WalkStart { from, bounds } = start;
        let mut last = Registers::default();
        if !local.once(|| last = unwind::pass(self, from.stack, bounds)) {
            return false;
        }
        if !self.whole && last.stack > from.stack {
            self.continue_by_frames(WalkStart { from: last, bounds }, from.stack);
        }
        if !self.whole {
            let mut chained = Self::nothing();
            chained.by_frames(start);
            if chained.whole || chained.count > self.count {
                *self = chained;
            }
        }
        true
    }
}
