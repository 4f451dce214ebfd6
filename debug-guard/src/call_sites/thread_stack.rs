use core::cell::Cell;
use std::thread_local;

pub(super) use super::system::read_registers;
use super::system::{self, StackMapping};
use super::walk::Bounds;

pub(super) struct ThreadStack {
    /// Addresses of its own stack, which stays as long as the thread.
    own: Cell<(usize, usize)>,
    /// The mapping of another stack that it ran on last, which may be unmapped at any time.
    other: Cell<(usize, usize)>,
    /// The thread is in the unwinder, which may allocate.
    unwinding: Cell<bool>,
}

impl ThreadStack {
    const fn new() -> Self {
        Self { own: Cell::new((0, 0)), other: Cell::new((0, 0)), unwinding: Cell::new(false) }
    }

    /// The bounds are empty if they are not known.
    #[inline]
    pub(super) fn bounds(&self, stack: usize) -> Bounds {
        let (low, high) = system::running_stack().unwrap_or(self.own.get());
        if low <= stack && stack < high {
            // SAFETY: readable while the thread runs there, or, as `look` found, as long as it lives.
            unsafe { Bounds::own(high) }
        } else {
            self.look(stack)
        }
    }

    /// Queries the kernel: the C library might allocate.
    #[cold]
    fn look(&self, stack: usize) -> Bounds {
        let (low, high) = self.other.get();
        if low <= stack && stack < high {
            return Bounds::other(high);
        }
        let Some(found) = StackMapping::at(stack) else {
            return Bounds::other(0);
        };
        match found.own() {
            Some(own) => {
                self.own.set(own);
                // SAFETY: `own` found this part readable as long as the thread lives.
                unsafe { Bounds::own(own.1) }
            }
            None => {
                self.other.set((found.low, found.high));
                Bounds::other(found.high)
            }
        }
    }

    /// `None` while a pass is running on this thread.
    pub(super) fn once<R>(&self, pass: impl FnOnce() -> R) -> Option<R> {
        if self.unwinding.replace(true) {
            return None;
        }
        let done = pass();
        self.unwinding.set(false);
        Some(done)
    }
}

pub(super) fn top(stack: usize) -> Option<usize> {
    Some(StackMapping::at(stack)?.high)
}

thread_local! {
    // Const and without Drop: valid while other thread-locals are destroyed.
    static LOCAL: ThreadStack = const { ThreadStack::new() };
}

#[inline]
pub(super) fn with<R>(f: impl FnOnce(&ThreadStack) -> R) -> R {
    LOCAL.with(f)
}

/// 0 on systems whose stacks cannot be walked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registers {
    pub(super) stack: usize,
    pub(super) frame: usize,
}
