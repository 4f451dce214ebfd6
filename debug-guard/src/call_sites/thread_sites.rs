//! What a thread remembers: the end of its stack, and its last call sites.
//!
//! The one module of the call sites that names `std`. Without feature `std` threads remember nothing: no stack is walked, and every
//! site is looked up in the depot.

use core::cell::Cell;

use super::registers;
use super::walk::Bounds;
use crate::os;

/// Remembered answers, each in the place of its hash.
const REMEMBERED: usize = 128;

/// The known part of the own stack below the stack pointer; a new query costs some microseconds.
const ROOM: usize = 64 << 10;

/// The memory of one thread.
pub(super) struct ThreadSites {
    /// Addresses of its own stack, which stays as long as the thread.
    own: Cell<(usize, usize)>,
    /// The mapping of another stack that it ran on last, which may be unmapped at any time.
    other: Cell<(usize, usize)>,
    /// In the unwinder, which may allocate.
    unwinding: Cell<bool>,
    last: [Cell<(u64, u32)>; REMEMBERED],
}

impl ThreadSites {
    #[cfg(feature = "std")]
    const fn new() -> Self {
        let last = [const { Cell::new((0, 0)) }; REMEMBERED];
        Self {
            own: Cell::new((0, 0)),
            other: Cell::new((0, 0)),
            unwinding: Cell::new(false),
            last,
        }
    }

    /// The bounds of a walk on the stack of `stack`, this thread's stack pointer, without a command's mark. Empty if they are not known.
    #[inline]
    pub(super) fn bounds(&self, stack: usize) -> Bounds {
        let (low, high) = self.own.get();
        if low <= stack && stack < high {
            // SAFETY: `look` found it so.
            unsafe { Bounds::own(high) }
        } else {
            self.look(stack)
        }
    }

    /// Rarely for a thread's own stack, always for another one. Queries the kernel, not the C library, which might allocate.
    #[cold]
    fn look(&self, stack: usize) -> Bounds {
        let (low, high) = self.other.get();
        if low <= stack && stack < high {
            return Bounds::other(high);
        }
        let Some(found) = CachedSite::at(stack) else {
            return Bounds::other(0);
        };
        match found.own() {
            Some(own) => {
                self.own.set(own);
                // SAFETY: just found so.
                unsafe { Bounds::own(own.1) }
            }
            None => {
                self.other.set((found.low, found.high));
                Bounds::other(found.high)
            }
        }
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

/// The end of the stack that `stack` points into, by the kernel and this thread's control block.
pub(super) fn top(stack: usize) -> Option<usize> {
    Some(CachedSite::at(stack)?.high)
}

/// The mapping that a stack pointer points into.
struct CachedSite {
    stack: usize,
    low: usize,
    /// The thread's control block, if it is in the mapping, else the mapping's end.
    high: usize,
    kind: CachedKind,
}

enum CachedKind {
    /// The kernel's, of the process's first thread.
    First,
    /// The control block ends it.
    Block,
    /// Another stack. The kernel may merge its mapping with a neighbour's memory, which may be unmapped later.
    Any,
}

impl CachedSite {
    fn at(stack: usize) -> Option<Self> {
        let mut name = [0; 16];
        let mapping = os::mapping_at(stack, &mut name)?;
        let block = registers::thread_block();
        let (high, kind) = if mapping.name == "[stack]" {
            (mapping.end, CachedKind::First)
        } else if stack < block && block < mapping.end {
            (block, CachedKind::Block)
        } else {
            (mapping.end, CachedKind::Any)
        };
        Some(Self {
            stack,
            low: mapping.start,
            high: high & !15,
            kind,
        })
    }

    /// The part that is certainly the running thread's own stack as long as the thread lives.
    fn own(&self) -> Option<(usize, usize)> {
        match self.kind {
            CachedKind::First => Some((self.low, self.high)),
            // The first thread's block is not on its stack, but somewhere among other memory.
            CachedKind::Block if os::thread_id() != os::process_id() => self.below_block(),
            CachedKind::Block | CachedKind::Any => None,
        }
    }

    /// The readable part above and just below the stack pointer: guard pages may be markers within one mapping, which may then contain
    /// another stack.
    fn below_block(&self) -> Option<(usize, usize)> {
        let page = os::page_size();
        let first = self.stack & !page.wrapping_sub(1);
        let readable = |address| os::read_u64_by_kernel(address).is_some();
        if !(first..self.high).step_by(page).all(readable) {
            return None;
        }
        let least = self.low.max(first.saturating_sub(ROOM));
        let below = (least..first)
            .step_by(page)
            .rev()
            .take_while(|at| readable(*at));
        Some((below.last().unwrap_or(first), self.high))
    }
}

#[cfg(feature = "std")]
mod threads {
    use std::thread_local;

    use super::ThreadSites;

    thread_local! {
        // Const and without Drop: one address computation, and valid while other thread-locals are destroyed.
        static LOCAL: ThreadSites = const { ThreadSites::new() };
    }

    #[inline]
    pub(in super::super) fn with<R>(f: impl FnOnce(Option<&ThreadSites>) -> R) -> R {
        LOCAL.with(|local| f(Some(local)))
    }
}

#[cfg(not(feature = "std"))]
mod threads {
    use super::ThreadSites;

    #[inline]
    pub(in super::super) fn with<R>(f: impl FnOnce(Option<&ThreadSites>) -> R) -> R {
        f(None)
    }
}

pub(super) use threads::with;
