/// What lies between the stack pointer and the second address can be read while the thread runs there: who switches
/// stacks sets both.
#[inline(always)]
pub(crate) fn running_stack() -> (usize, usize) {
    let (low, high): (usize, usize);
    // SAFETY: reads two words of the thread's own block: `DeallocationStack` and `StackBase`.
    unsafe {
        core::arch::asm!(
            "mov {low}, gs:[0x1478]",
            "mov {high}, gs:[0x8]",
            low = out(reg) low,
            high = out(reg) high,
            options(readonly, nostack, preserves_flags),
        );
    }
    (low, high)
}
