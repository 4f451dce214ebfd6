//! The registers of the running thread.

/// The stack pointer and the frame pointer of the function that this is inlined into; 0 on other systems.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registers {
    pub(super) stack: usize,
    pub(super) frame: usize,
}

/// True on systems whose stacks can be walked.
pub(super) const KNOWN: bool = cfg!(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
));

#[inline(always)]
pub(super) fn read() -> Registers {
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
pub(super) fn thread_block() -> usize {
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
