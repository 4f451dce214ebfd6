//! Reads of addresses that may not be mapped.

use core::ffi::c_void;

use super::memory;

/// An unreadable address is an answer, not a fault.
pub(crate) const CATCHES_READS: bool = true;

/// The eight bytes at any address; `None` if they cannot be read. Never faults.
#[inline]
pub(crate) fn read_u64(address: usize) -> Option<u64> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if super::handler::installed() {
        // SAFETY: the handler that stands knows the instruction.
        return unsafe { caught::read(address) };
    }
    read_u64_by_kernel(address)
}

/// As [`read_u64`], by a system call of some 500 ns, for rare reads. No signal is raised, so it works if signals are blocked or the
/// program has replaced the handler.
#[cold]
pub(crate) fn read_u64_by_kernel(address: usize) -> Option<u64> {
    let mut value = 0_u64;
    let local = libc::iovec {
        iov_base: core::ptr::from_mut(&mut value).cast::<c_void>(),
        iov_len: 8,
    };
    let remote = libc::iovec {
        iov_base: core::ptr::without_provenance_mut(address),
        iov_len: 8,
    };
    let own = super::process_id().cast_signed();
    let (read, refused) = memory::keeping_errno(|| {
        // SAFETY: writes into `value` alone; an address that cannot be read is answered.
        let read =
            unsafe { libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0) };
        (read, read == -1 && memory::errno() != libc::EFAULT)
    });
    if refused && memory::readable(address) {
        // A filter forbids the call. SAFETY: the kernel has just read it.
        return Some(unsafe {
            core::ptr::with_exposed_provenance::<u64>(address).read_unaligned()
        });
    }
    (read == 8).then_some(value)
}

/// A load that the handler recognises by its address: it is the first instruction of its function.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) mod caught {
    use core::arch::naked_asm;

    /// As two registers.
    #[repr(C)]
    pub(crate) struct Loaded {
        value: u64,
        ok: u64,
    }

    /// As [`load`], which is known to change no more than two registers.
    ///
    /// # Safety
    /// The fault handler is installed.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) unsafe fn read(address: usize) -> Option<u64> {
        let (value, ok): (u64, u64);
        // SAFETY: the caller; the call leaves the stack and the flags as they are, in `cannot` too.
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

    /// As [`load`].
    ///
    /// # Safety
    /// The fault handler is installed.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    pub(crate) unsafe fn read(address: usize) -> Option<u64> {
        // SAFETY: the caller's promise.
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

    /// The handler continues here after a load that faults: the stack and the flags are as before the load.
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn cannot() -> Loaded {
        #[cfg(target_arch = "x86_64")]
        naked_asm!("mov eax, 0", "mov edx, 0", "ret");
        #[cfg(target_arch = "aarch64")]
        naked_asm!("mov x0, #0", "mov x1, #0", "ret");
    }
}
