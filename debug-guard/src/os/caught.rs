//! The handler of faults recognises the load by its address: it is the first instruction of its function.

use core::arch::naked_asm;

#[repr(C)]
pub(crate) struct Loaded {
    value: u64,
    ok: u64,
}

/// # Safety
/// The fault handler is installed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn read(address: usize) -> Option<u64> {
    let (value, ok): (u64, u64);
    // SAFETY: the handler is installed; stack and flags stay as they are, in `cannot` too.
    unsafe {
        core::arch::asm!(
            "call {load}",
            load = sym load,
            in("rdi") address,
            lateout("rax") value,
            lateout("rdx") ok,
            options(readonly, preserves_flags),
        );
    }
    (ok != 0).then_some(value)
}

/// # Safety
/// The fault handler is installed.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) unsafe fn read(address: usize) -> Option<u64> {
    // SAFETY: the handler of faults is installed.
    let loaded = unsafe { load(address) };
    (loaded.ok != 0).then_some(loaded.value)
}

/// # Safety
/// The fault handler is installed.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load(address: usize) -> Loaded {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov rax, [rdi]", "mov edx, 1", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("ldr x0, [x0]", "mov x1, #1", "ret");
}

/// The handler continues here after a load that faults.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn cannot() -> Loaded {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov eax, 0", "mov edx, 0", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov x0, #0", "mov x1, #0", "ret");
}
