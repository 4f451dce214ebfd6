//! What a thread remembers of its stack: where it ends. And its registers.

use core::cell::Cell;
use std::thread_local;

use super::walk::Bounds;
use crate::os;

/// The known part of the own stack below the stack pointer; a new query costs some microseconds.
const ROOM: usize = 64 << 10;

/// The memory of one thread.
pub(super) struct ThreadStack {
    /// Addresses of its own stack, which stays as long as the thread.
    own: Cell<(usize, usize)>,
    /// The mapping of another stack that it ran on last, which may be unmapped at any time.
    other: Cell<(usize, usize)>,
    /// In the unwinder, which may allocate.
    unwinding: Cell<bool>,
}

impl ThreadStack {
    const fn new() -> Self {
        Self {
            own: Cell::new((0, 0)),
            other: Cell::new((0, 0)),
            unwinding: Cell::new(false),
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
        let Some(found) = StackMapping::at(stack) else {
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

    /// Runs `pass` unless one is running on this thread.
    pub(super) fn once<R>(&self, pass: impl FnOnce() -> R) -> Option<R> {
        if self.unwinding.replace(true) {
            return None;
        }
        let done = pass();
        self.unwinding.set(false);
        Some(done)
    }
}

/// The end of the stack that `stack` points into, by the kernel and this thread's control block.
pub(super) fn top(stack: usize) -> Option<usize> {
    Some(StackMapping::at(stack)?.high)
}

/// The mapping that a stack pointer points into.
struct StackMapping {
    stack: usize,
    low: usize,
    /// The thread's control block, if it is in the mapping, else the mapping's end.
    high: usize,
    kind: StackKind,
}

enum StackKind {
    /// The kernel's, of the process's first thread.
    First,
    /// The control block ends it.
    Block,
    /// Another stack. The kernel may merge its mapping with a neighbour's memory, which may be unmapped later.
    Any,
}

impl StackMapping {
    fn at(stack: usize) -> Option<Self> {
        let mut name = [0; 16];
        let mapping = os::mapping_at(stack, &mut name)?;
        let block = thread_block();
        let (high, kind) = if mapping.name == "[stack]" {
            (mapping.end, StackKind::First)
        } else if stack < block && block < mapping.end {
            (block, StackKind::Block)
        } else {
            (mapping.end, StackKind::Any)
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
            StackKind::First => Some((self.low, self.high)),
            // The first thread's block is not on its stack, but somewhere among other memory.
            StackKind::Block if os::thread_id() != os::process_id() => self.below_block(),
            StackKind::Block | StackKind::Any => None,
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

thread_local! {
    // Const and without Drop: one address computation, and valid while other thread-locals are destroyed.
    static LOCAL: ThreadStack = const { ThreadStack::new() };
}

#[inline]
pub(super) fn with<R>(f: impl FnOnce(&ThreadStack) -> R) -> R {
    LOCAL.with(f)
}

/// The stack pointer and the frame pointer of the function that this is inlined into; 0 on other systems.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registers {
    pub(super) stack: usize,
    pub(super) frame: usize,
}

/// True on systems whose stacks can be walked.
pub(super) const REGISTERS_KNOWN: bool = cfg!(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
));

#[inline(always)]
pub(super) fn read_registers() -> Registers {
    let (stack, frame): (usize, usize);
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    // SAFETY: copies two registers.
    unsafe {
        core::arch::asm!("mov {}, rsp", "mov {}, rbp", out(reg) stack, out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri)))]
    // SAFETY: copies two registers.
    unsafe {
        core::arch::asm!("mov {}, sp", "mov {}, x29", out(reg) stack, out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_os = "linux",
        not(miri)
    )))]
    {
        (stack, frame) = (0, 0);
    }
    Registers { stack, frame }
}

/// The address of the thread's control block, which the C libraries of Linux put above the stacks that they make.
fn thread_block() -> usize {
    let block: usize;
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    // SAFETY: the first word of the control block is its own address (the ELF ABI for thread-local storage, variant II).
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) block, options(readonly, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri)))]
    // SAFETY: copies a register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) block, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_os = "linux",
        not(miri)
    )))]
    {
        block = 0;
    }
    block
}
