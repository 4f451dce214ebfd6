//! The stack of the calling thread, as its block says.

use super::calls::IsThreadAFiber;

/// The addresses of a thread's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnStack {
    /// The lowest address that is reserved for it.
    pub(crate) low: usize,
    /// The first address behind it: everything from the stack pointer up to it can be read.
    pub(crate) high: usize,
    /// It is a fiber's, which may end before the thread.
    pub(crate) is_fiber: bool,
}

/// The stack that the calling thread runs on now.
pub(crate) fn own_stack() -> OwnStack {
    let (low, high): (usize, usize);
    // SAFETY: reads two words of the thread's own block: the end of the stack (`StackBase`) and where it was reserved
    // (`DeallocationStack`). Whoever switches to a fiber's stack sets both.
    unsafe {
        core::arch::asm!(
            "mov {high}, gs:[0x8]",
            "mov {low}, gs:[0x1478]",
            high = out(reg) high,
            low = out(reg) low,
            options(readonly, nostack, preserves_flags),
        );
    }
    // SAFETY: asks for a flag of the thread's block.
    let is_fiber = unsafe { IsThreadAFiber() } != 0;
    OwnStack {
        low,
        high,
        is_fiber,
    }
}
