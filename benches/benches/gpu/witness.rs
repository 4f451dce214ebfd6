//! Who counts the host's heap: `malloc` and its kin, as every library of this program finds them.
//!
//! One witness for Rust, C++ and ours, who knows nothing of any of them. While it is not asked it costs a load and a
//! branch a call.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

static ARMED: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

/// From here on everything is counted.
pub fn arm() {
    BYTES.store(0, Relaxed);
    CALLS.store(0, Relaxed);
    ARMED.store(true, Relaxed);
}

pub fn disarm() {
    ARMED.store(false, Relaxed);
}

/// `work` is the driver's, or the bench's own: it is not counted.
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    let was = ARMED.swap(false, Relaxed);
    let result = work();
    ARMED.store(was, Relaxed);
    result
}

/// Bytes live since [`arm`].
pub fn bytes() -> i64 {
    BYTES.load(Relaxed)
}

/// Calls that took or gave since [`arm`].
pub fn calls() -> u64 {
    CALLS.load(Relaxed)
}

/// True where the C library lets a program take `malloc`'s place and still reach it.
pub const COUNTS: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod instead {
    use std::ffi::c_void;

    use super::{ARMED, BYTES, CALLS, Relaxed};

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
        fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
        fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
        fn __libc_free(block: *mut c_void);
    }

    #[cold]
    #[inline(never)]
    fn note(block: *mut c_void, sign: i64) {
        if block.is_null() {
            return;
        }
        // SAFETY: a live block of the C library's.
        let size = unsafe { libc::malloc_usable_size(block) };
        BYTES.fetch_add(sign * size as i64, Relaxed);
        CALLS.fetch_add(1, Relaxed);
    }

    fn came(block: *mut c_void) -> *mut c_void {
        if ARMED.load(Relaxed) {
            note(block, 1);
        }
        block
    }

    fn goes(block: *mut c_void) {
        if ARMED.load(Relaxed) {
            note(block, -1);
        }
    }

    #[unsafe(no_mangle)]
    extern "C" fn malloc(size: usize) -> *mut c_void {
        // SAFETY: any size may be asked for.
        came(unsafe { __libc_malloc(size) })
    }

    #[unsafe(no_mangle)]
    extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
        // SAFETY: any size may be asked for.
        came(unsafe { __libc_calloc(count, size) })
    }

    /// # Safety
    /// As the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
        goes(block);
        // SAFETY: this function's contract, that of the C library's function.
        let moved = unsafe { __libc_realloc(block, size) };
        // Where there is no room the old block stays, and the program of a bench has no use for that.
        came(moved)
    }

    /// # Safety
    /// As the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(block: *mut c_void) {
        goes(block);
        // SAFETY: this function's contract, that of the C library's function.
        unsafe { __libc_free(block) }
    }

    #[unsafe(no_mangle)]
    extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
        // SAFETY: any size may be asked for; an alignment that is none is refused.
        came(unsafe { __libc_memalign(align, size) })
    }

    #[unsafe(no_mangle)]
    extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
        memalign(align, size)
    }

    /// # Safety
    /// As the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> i32 {
        let block = memalign(align, size);
        if block.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: this function's contract: a place for the address.
        unsafe { place.write(block) };
        0
    }
}
