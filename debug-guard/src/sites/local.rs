//! What a thread remembers: where its stack ends, and the call sites it met last.
//!
//! The one module of the call sites that names `std`. Without feature `std` threads remember nothing: no stack is walked, and every
//! site is looked up in the depot.

use core::cell::Cell;

use super::registers;
use crate::os;

/// So many answers are remembered, each in the place that its hash says.
const REMEMBERED: usize = 128;

/// Of one thread.
pub(super) struct Local {
    /// The mapping that the stack pointer was in when it was last looked for.
    stack: Cell<(usize, usize)>,
    /// In the unwinder, which may ask for memory.
    unwinding: Cell<bool>,
    last: [Cell<(u64, u32)>; REMEMBERED],
}

impl Local {
    #[cfg(feature = "std")]
    const fn new() -> Self {
        Self { stack: Cell::new((0, 0)), unwinding: Cell::new(false), last: [const { Cell::new((0, 0)) }; REMEMBERED] }
    }

    /// The first address behind the stack that `stack` points into; 0 when that cannot be told.
    #[inline]
    pub(super) fn top(&self, stack: usize) -> usize {
        let (low, high) = self.stack.get();
        if low <= stack && stack < high { high } else { self.look(stack) }
    }

    /// Once a thread, and when it runs on another stack. Asks the kernel, not the C library, which might ask for memory.
    #[cold]
    fn look(&self, stack: usize) -> usize {
        let (low, high) = bounds(stack).unwrap_or((0, 0));
        self.stack.set((low, high));
        high
    }

    #[inline]
    pub(super) fn recall(&self, hash: u64) -> Option<u32> {
        let (known, answer) = self.last.get(hash as usize % REMEMBERED)?.get();
        (known == hash && answer != 0).then_some(answer)
    }

    #[inline]
    pub(super) fn remember(&self, hash: u64, answer: u32) {
        if let Some(place) = self.last.get(hash as usize % REMEMBERED) {
            place.set((hash, answer));
        }
    }

    /// Runs `pass` unless one is running on this thread.
    pub(super) fn once(&self, pass: impl FnOnce()) -> bool {
        if self.unwinding.replace(true) {
            return false;
        }
        pass();
        self.unwinding.set(false);
        true
    }
}

/// The stack that `stack` points into. The mapping may go on behind it, with the thread's control block or with a neighbour's memory,
/// which may go one day: where the control block tells the end, that is it.
pub(super) fn bounds(stack: usize) -> Option<(usize, usize)> {
    let mut name = [0; 16];
    let mapping = os::mapping_at(stack, &mut name)?;
    let block = registers::thread_block();
    let high = if stack < block && block < mapping.end { block } else { mapping.end };
    Some((mapping.start, high & !15))
}

#[cfg(feature = "std")]
mod threads {
    use std::thread_local;

    use super::Local;

    thread_local! {
        // Const-made and without Drop: one address computation, and still there while other thread-locals are destroyed.
        static LOCAL: Local = const { Local::new() };
    }

    #[inline]
    pub(in super::super) fn with<R>(f: impl FnOnce(Option<&Local>) -> R) -> R {
        LOCAL.with(|local| f(Some(local)))
    }
}

#[cfg(not(feature = "std"))]
mod threads {
    use super::Local;

    #[inline]
    pub(in super::super) fn with<R>(f: impl FnOnce(Option<&Local>) -> R) -> R {
        f(None)
    }
}

pub(super) use threads::with;
