use super::calls::IsThreadAFiber;

#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnStack {
    pub(crate) low: usize,
    /// Everything from the stack pointer up to here can be read.
    pub(crate) high: usize,
    /// A fiber may end before the thread.
    pub(crate) is_fiber: bool,
}

pub(crate) fn own_stack() -> OwnStack {
    let (low, high): (usize, usize);
    // SAFETY: reads two words of the thread's own block: the end of the stack (`StackBase`) and where it was reserved
    // (`DeallocationStack`).
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
