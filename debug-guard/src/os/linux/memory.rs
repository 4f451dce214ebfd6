//! System calls on memory and files, each with its answer as a `Result`.

use core::ffi::{CStr, c_int};
use core::ptr::without_provenance_mut;

use crate::os::OsRefusal;

/// Linux 6.13; not in every libc crate.
pub(super) const MADV_GUARD_INSTALL: c_int = 102;
pub(super) const MADV_GUARD_REMOVE: c_int = 103;

pub(super) fn errno() -> i32 {
    // SAFETY: the address of the calling thread's own number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: valid for the life of the thread.
    unsafe { place.read() }
}

pub(super) fn set_errno(value: i32) {
    // SAFETY: the address of the calling thread's own number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: valid for the life of the thread, and nobody else's.
    unsafe { place.write(value) };
}

pub(super) fn answer(call: &'static str, answer: c_int) -> Result<(), OsRefusal> {
    if answer == -1 {
        Err(refused(call))
    } else {
        Ok(())
    }
}

/// As errno has it now.
pub(super) fn refused(call: &'static str) -> OsRefusal {
    OsRefusal::Call {
        call,
        errno: errno(),
    }
}

const UNTOUCHED: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// New addresses that nothing can touch and no memory is set aside for.
pub(super) fn reserve(bytes: usize) -> Result<usize, OsRefusal> {
    // SAFETY: new addresses, chosen by the kernel.
    let base = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_NONE,
            UNTOUCHED,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        Err(refused("mmap"))
    } else {
        Ok(base.expose_provenance())
    }
}

/// As [`reserve`], at a multiple of `align`, itself a multiple of the page.
pub(super) fn reserve_aligned(bytes: usize, align: usize) -> Result<usize, OsRefusal> {
    let whole = bytes.checked_add(align).ok_or(OsRefusal::Call {
        call: "mmap",
        errno: libc::ENOMEM,
    })?;
    let found = reserve(whole)?;
    let base = found.next_multiple_of(align);
    // SAFETY: reserved above, in front of what is kept.
    unsafe { unmap(found, base - found) };
    // SAFETY: likewise behind it.
    unsafe { unmap(base + bytes, found + whole - (base + bytes)) };
    Ok(base)
}

/// Makes addresses as [`reserve`] does, over what was there: even the tables that the kernel kept for its pages go.
///
/// # Safety
/// The addresses are the caller's, and nothing in them is used any more.
pub(super) unsafe fn reserve_again(base: usize, bytes: usize) -> Result<(), OsRefusal> {
    let place = without_provenance_mut(base);
    // SAFETY: the caller's promise.
    let made = unsafe {
        libc::mmap(
            place,
            bytes,
            libc::PROT_NONE,
            UNTOUCHED | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    if made == libc::MAP_FAILED {
        Err(refused("mmap"))
    } else {
        Ok(())
    }
}

/// # Safety
/// The addresses are the caller's, and nothing in them is used any more.
pub(super) unsafe fn unmap(base: usize, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    let _ = unsafe { libc::munmap(without_provenance_mut(base), bytes) };
}

/// # Safety
/// The addresses are the caller's, and nothing in them is used that the advice takes away.
pub(super) unsafe fn advise(
    base: usize,
    bytes: usize,
    advice: c_int,
    call: &'static str,
) -> Result<(), OsRefusal> {
    // SAFETY: the caller's promise.
    answer(call, unsafe {
        libc::madvise(without_provenance_mut(base), bytes, advice)
    })
}

/// As [`advise`]; where the program has locked the pages, which the kernel answers with EINVAL, they are unlocked first.
///
/// # Safety
/// As [`advise`].
pub(super) unsafe fn advise_locked(
    base: usize,
    bytes: usize,
    advice: c_int,
    call: &'static str,
) -> Result<(), OsRefusal> {
    // SAFETY: the caller's promise.
    match unsafe { advise(base, bytes, advice, call) } {
        Err(OsRefusal::Call {
            errno: libc::EINVAL,
            ..
        }) => {}
        other => return other,
    }
    unlock(base, bytes);
    // SAFETY: the caller's promise.
    unsafe { advise(base, bytes, advice, call) }
}

/// Takes back what mlock or mlockall did. Harmless where nothing was locked.
pub(super) fn unlock(base: usize, bytes: usize) {
    // SAFETY: changes nothing of what is in the pages.
    let _ = unsafe { libc::munlock(without_provenance_mut(base), bytes) };
}

/// # Safety
/// The addresses are the caller's, and nothing in them is used that the protection forbids.
pub(super) unsafe fn protect(
    base: usize,
    bytes: usize,
    protection: c_int,
) -> Result<(), OsRefusal> {
    // SAFETY: the caller's promise.
    answer("mprotect", unsafe {
        libc::mprotect(without_provenance_mut(base), bytes, protection)
    })
}

/// True when the kernel can read the eight bytes at `address`, found without reading them ourselves: the set of signals is copied
/// before the impossible request for it is looked at.
pub(super) fn readable(address: usize) -> bool {
    let impossible: c_int = -1;
    let before = errno();
    let nowhere = core::ptr::null_mut::<u8>();
    // SAFETY: nothing is written; an address that cannot be read is answered, not trapped.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            impossible,
            without_provenance_mut::<u8>(address),
            nowhere,
            8_usize,
        )
    };
    let unreadable = answer == -1 && errno() == libc::EFAULT;
    set_errno(before);
    !unreadable
}

/// A file that is read without a buffer of anybody's.
pub(super) struct File(c_int);

impl File {
    pub(super) fn open(path: &CStr) -> Option<Self> {
        // SAFETY: a path that ends in a zero.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        (fd >= 0).then_some(Self(fd))
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.0
    }

    /// How many bytes came; 0 at the end, and where it cannot be read.
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
