use core::ffi::c_void;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::caught;
use super::memory;

pub(crate) const CATCHES_READS: bool = true;

/// Never faults.
#[inline]
pub(crate) fn read_u64(address: usize) -> Option<u64> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if super::handler::installed() {
        // SAFETY: the handler that stands knows the instruction.
        return unsafe { caught::read(address) };
    }
    read_u64_by_kernel(address)
}

/// Takes some 500 ns. No signal is raised, so it works if signals are blocked or the program has replaced the
/// handler.
#[cold]
pub(crate) fn read_u64_by_kernel(address: usize) -> Option<u64> {
    let mut value = 0_u64;
    let local = libc::iovec { iov_base: core::ptr::from_mut(&mut value).cast::<c_void>(), iov_len: 8 };
    let remote = libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: 8 };
    let own = super::process_id().cast_signed();
    let (read, refused) = memory::keeping_errno(|| {
        // SAFETY: writes into `value` alone; an unreadable address is answered.
        let read = unsafe { libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0) };
        (read, read == -1 && memory::errno() != libc::EFAULT)
    });
    if refused && memory::readable(address) {
        // A filter forbids the call. SAFETY: the kernel has just read it.
        return Some(unsafe { core::ptr::with_exposed_provenance::<u64>(address).read_unaligned() });
    }
    (read == 8).then_some(value)
}
