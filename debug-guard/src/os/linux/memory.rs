use core::ffi::{CStr, c_int};
use core::ptr::{null_mut, without_provenance_mut};

use crate::os::OsRefusal;

#[derive(Clone, Copy)]
pub(super) struct Advice(c_int, &'static str);

impl Advice {
    pub(super) const DISCARD: Self = Self(libc::MADV_DONTNEED, "madvise(MADV_DONTNEED)");
    /// Linux 6.13; not in every libc crate, as the next.
    pub(super) const INSTALL_GUARD: Self = Self(102, "madvise(MADV_GUARD_INSTALL)");
    pub(super) const REMOVE_GUARD: Self = Self(103, "madvise(MADV_GUARD_REMOVE)");
    const NO_HUGE_PAGES: Self = Self(libc::MADV_NOHUGEPAGE, "madvise(MADV_NOHUGEPAGE)");
}

pub(super) fn errno() -> i32 {
    // SAFETY: the address of the calling thread's own number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: valid for the life of the thread.
    unsafe { place.read() }
}

pub(super) fn keeping_errno<R>(f: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = f();
    set_errno(before);
    result
}

pub(super) fn set_errno(value: i32) {
    // SAFETY: the address of the calling thread's own number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: valid for the life of the thread, which owns it.
    unsafe { place.write(value) };
}

pub(super) fn answer(call: &'static str, answer: c_int) -> Result<(), OsRefusal> {
    if answer == -1 { Err(refused(call)) } else { Ok(()) }
}

pub(super) fn refused(call: &'static str) -> OsRefusal {
    OsRefusal::Call { call, errno: errno() }
}

/// The addresses cannot be accessed, and no memory is set aside for them.
pub(super) fn reserve(bytes: usize) -> Result<usize, OsRefusal> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new addresses, chosen by the kernel.
    let base = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED { Err(refused("mmap")) } else { Ok(base.expose_provenance()) }
}

/// After mlockall(MCL_FUTURE) new addresses are locked, and would be filled when they are opened; a huge page would
/// be memory for 512 small ones.
pub(super) fn reserve_for_blocks(bytes: usize) -> Result<usize, OsRefusal> {
    super::fork::watch()?;
    let base = reserve(bytes)?;
    unlock(base, bytes);
    // SAFETY: the pages are not used yet.
    let _ = unsafe { advise(base, bytes, Advice::NO_HUGE_PAGES) };
    Ok(base)
}

/// # Safety
/// The addresses are the caller's, and nothing in them is used any more.
pub(super) unsafe fn unmap(base: usize, bytes: usize) {
    // SAFETY: nothing in these addresses is used any more.
    let _ = unsafe { libc::munmap(without_provenance_mut(base), bytes) };
}

/// # Safety
/// The addresses are the caller's, and nothing in them is used that the advice takes away.
pub(super) unsafe fn advise(base: usize, bytes: usize, advice: Advice) -> Result<(), OsRefusal> {
    let Advice(advice, call) = advice;
    // SAFETY: nothing in these addresses is used that the advice takes away.
    answer(call, unsafe { libc::madvise(without_provenance_mut(base), bytes, advice) })
}

/// If the program has locked the pages, so that the kernel returns EINVAL, they are unlocked first.
///
/// # Safety
/// As [`advise`].
pub(super) unsafe fn advise_locked(base: usize, bytes: usize, advice: Advice) -> Result<(), OsRefusal> {
    // SAFETY: nothing in these addresses is used that the advice takes away.
    match unsafe { advise(base, bytes, advice) } {
        Err(OsRefusal::Call { errno: libc::EINVAL, .. }) => {}
        other => return other,
    }
    unlock(base, bytes);
    // SAFETY: nothing in these addresses is used that the advice takes away.
    unsafe { advise(base, bytes, advice) }
}

/// Reverts mlock and mlockall; harmless without.
fn unlock(base: usize, bytes: usize) {
    // SAFETY: changes nothing of what is in the pages.
    let _ = unsafe { libc::munlock(without_provenance_mut(base), bytes) };
}

/// # Safety
/// The addresses are the caller's, and nothing in them is used that the protection forbids.
pub(super) unsafe fn protect(base: usize, bytes: usize, protection: c_int) -> Result<(), OsRefusal> {
    // SAFETY: nothing in these addresses is used that the protection forbids.
    answer("mprotect", unsafe { libc::mprotect(without_provenance_mut(base), bytes, protection) })
}

/// # Safety
/// The addresses are the caller's, who no longer needs them to be inaccessible.
pub(super) unsafe fn unprotect(base: usize, bytes: usize) -> Result<(), OsRefusal> {
    // SAFETY: nobody needs the addresses to be inaccessible.
    unsafe { protect(base, bytes, libc::PROT_READ | libc::PROT_WRITE) }
}

/// The bytes are not read here: the kernel copies a set of signals before it refuses the invalid request.
pub(crate) fn readable(address: usize) -> bool {
    let impossible: c_int = -1;
    let nowhere = null_mut::<u8>();
    let asked = without_provenance_mut::<u8>(address);
    keeping_errno(|| {
        // SAFETY: nothing is written; an unreadable address is answered.
        let answer = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, impossible, asked, nowhere, 8_usize) };
        answer != -1 || errno() != libc::EFAULT
    })
}

pub(super) struct File(c_int);

impl File {
    pub(super) fn open(path: &CStr) -> Option<Self> {
        // SAFETY: a path that ends in a zero.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        (fd >= 0).then_some(Self(fd))
    }

    /// 0 at the end, and on errors.
    pub(super) fn read(&self, into: &mut [u8]) -> usize {
        loop {
            // SAFETY: writes at most the slice's length into it.
            let read = unsafe { libc::read(self.0, into.as_mut_ptr().cast(), into.len()) };
            match usize::try_from(read) {
                Ok(count) => return count,
                Err(_) if errno() == libc::EINTR => {}
                Err(_) => return 0,
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: opened here, closed once.
        let _ = unsafe { libc::close(self.0) };
    }
}
