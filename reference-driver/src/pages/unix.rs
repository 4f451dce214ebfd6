use core::ptr::{NonNull, null_mut};

pub(crate) fn map(len: usize) -> Option<NonNull<u8>> {
    let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the system's choice touches no other.
    let at = unsafe { libc::mmap(null_mut(), len, access, how, -1, 0) };
    NonNull::new(at.cast()).filter(|_| at != libc::MAP_FAILED)
}

/// # Safety
/// [`map`] returned `first` for this length; the pages are used no more.
pub(crate) unsafe fn unmap(first: NonNull<u8>, len: usize) {
    // SAFETY: this function's contract.
    unsafe { libc::munmap(first.as_ptr().cast(), len) };
}
